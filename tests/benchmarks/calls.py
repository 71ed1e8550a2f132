"""Count what one `dsconfig check` calls of ours: `python -m tests.benchmarks.calls`.

Prints, for a clean config and for one with four diagnostics, the calls of functions of `dsconfig` and
`elastic`, the files that they stand in, and the frames of ours from `main` to the first rule. Counts do not
depend on the machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {
    "train_batch_size": 64,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}},
    "zero_optimization": {"stage": 2, "overlap_comm": True, "contiguous_gradients": True},
}
FOUR = CLEAN | {
    "zero_optimization": {"stage": 2, "overlap_com": True},
    "fp16": {"enabled": True},
    "gradient_cliping": 1.0,
    "prescale_gradient": True,
}
"""Three misspelled keys, and two precisions at once."""


def _is_rule(frame: FrameType) -> bool:
    """Whether a frame below `rules` is a rule, which is a generator, and none that a module is made with."""
    return bool(frame.f_code.co_flags & 0x20) and not frame.f_code.co_name.startswith("<")


class Count(NamedTuple):
    """What one run called."""

    calls: int
    files: int
    frames: int
    diagnostics: int


def count(config: dict[str, object]) -> Count:
    """Check a config in this process, which must not have imported anything of ours yet."""
    ours = tuple(str(ROOT / package) + os.sep for package in ("dsconfig", "elastic"))
    rules = str(ROOT / "dsconfig" / "rules") + os.sep
    files: set[str] = set()
    calls = frames = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls, frames
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(ours) or frame.f_code.co_name == "<module>":
            return
        calls += 1
        files.add(path)
        if not frames and path.startswith(rules) and _is_rule(frame):
            above: FrameType | None = frame
            while above is not None:
                frames += above.f_code.co_filename.startswith(ours)
                above = above.f_back

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ds_config.json")
        path.write_text(json.dumps(config, indent=2), "utf-8")
        os.chdir(folder)
        from dsconfig.cli import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            sys.setprofile(profile)
            try:
                main(["check", "--target", "0.19.8", "--output-format", "concise", "ds_config.json"])
            finally:
                sys.setprofile(None)
        os.chdir(ROOT)
    return Count(calls, len(files), frames, out.getvalue().count("DSC"))


def counted(name: str) -> Count:
    """Count in a fresh process: what is imported or cached already is not called again."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.calls", name],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Count(*json.loads(done.stdout))


def main() -> int:
    """Print the counts of both configs, or the one of the config that is named."""
    configs = {"clean": CLEAN, "four": FOUR}
    if len(sys.argv) > 1:
        print(json.dumps(count(configs[sys.argv[1]])))
        return 0
    for name in configs:
        calls, files, frames, diagnostics = counted(name)
        where = f"in {files} files, {frames} frames to the first rule"
        print(f"{name}: {calls} calls {where}, {diagnostics} diagnostics")
    return 0


if __name__ == "__main__":
    sys.exit(main())
