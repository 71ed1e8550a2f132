"""The main job on realistic configs: `make demo` checks each file in `demo/configs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STEPS = (
    (
        "Seven real-looking configs, checked against DeepSpeed 0.19.8 for 8 GPUs",
        ["check", "configs", "--target", "0.19.8", "--world-size", "8"],
    ),
    (
        "One line a finding, over every release from 0.14 on",
        ["check", "configs/old-llama.json", "--target", ">=0.14", "--output-format", "concise"],
    ),
    ("What a rule means", ["explain", "DSC203"]),
    ("What a key means", ["explain", "zero_optimization.reduce_bucket_size"]),
)


def main() -> int:
    """Runs the steps. Findings are the point, so exit code 1 is not a failure; wrong use (2) would be."""
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
