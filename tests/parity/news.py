"""Comparison with the newest releases of DeepSpeed and of the programs around it: `python -m tests.parity.news`.

Adds DeepSpeed's newest release and compares the model with it, then "auto" with the newest Transformers' and
Accelerate's own filling. Of every program whose code is cited, it prints what the newest release changes of that code
(`tests.parity.citations`). The exit code is 1 where something differs. It changes `dsconfig/core/releases.py`, as
`make census` does: where nothing else differs, that is the whole of the change.
"""

from __future__ import annotations

import subprocess
import sys

from dsconfig.core.releases import LATEST, NUMBERS, release_number
from tests.parity import environment, loading
from tests.parity.citations import newest

FILLED = 2000
"""Configs of the Trainer, and of Accelerate, that are filled by both."""


def done(*arguments: str, python: str = sys.executable) -> bool:
    """Whether a program of ours ends well; it prints what it finds."""
    print(f"\n{' '.join(arguments)}", flush=True)
    return subprocess.run([python, "-m", *arguments], cwd=environment.ROOT, check=False).returncode == 0


def main() -> int:
    """Compare, and say what is new."""
    release, readers = newest("deepspeed"), {name: newest(name) for name in ("transformers", "accelerate")}
    print(f"DeepSpeed {release} (known: {LATEST}), {', '.join(f'{n} {v}' for n, v in readers.items())}")
    try:
        loading.build(loading.LIBRARIES)
    except environment.BuildError as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    held = done("schema.add_release", release) and done("tests.parity.environment", release)
    held &= done("tests.parity.census", release, "--check")
    held &= done("tests.parity.filling", str(FILLED), python=str(loading.python(loading.LIBRARIES)))
    held &= done("tests.parity.citations")
    held &= done("tests.parity.citations", "all")
    if held and release_number(release) > NUMBERS[LATEST]:
        print(f"\nDeepSpeed {release} is new and reads what {LATEST} reads: `make census RELEASE={release}`")
        return 1
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
