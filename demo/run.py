"""Demonstration: `make demo` checks the realistic configs in `demo/configs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STEPS = (
    (
        "Check seven realistic configs for DeepSpeed 0.19.8 and 8 GPUs",
        ["check", "configs", "--target", "0.19.8", "--world-size", "8"],
    ),
    (
        "Check a config for every release from 0.14 on, one line per diagnostic",
        ["check", "configs/old-llama.json", "--target", ">=0.14", "--output-format", "concise"],
    ),
    ("Explain a rule", ["explain", "DSC203"]),
    ("Explain a key", ["explain", "zero_optimization.reduce_bucket_size"]),
)


def main() -> int:
    """Run the steps. Exit code 1 is expected, because the configs have mistakes; 2 would be a failure."""
    for title, arguments in STEPS:
        print(f"\n── {title}\n$ dsconfig {' '.join(arguments)}\n", flush=True)
        status = subprocess.run(
            [sys.executable, "-m", "dsconfig", *arguments], cwd=HERE, check=False
        ).returncode
        if status not in (0, 1):
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
