"""What has been published since, and what of it changes what is said here: `python -m tests.parity.news`.

Adds DeepSpeed's newest release and compares the model with it, then "auto" with the newest Transformers' and
Accelerate's own filling. The exit code is 1 where something differs. It changes `dsconfig/core/releases.py`, as
`make census` does: where nothing else differs, that is the whole of the change.
"""

from __future__ import annotations

import re
import subprocess
import sys

from dsconfig.core.releases import LATEST, NUMBERS, number
from tests.parity import environment, loading

FILLED = 2000
"""Configs of the Trainer, and of Accelerate, that are filled by both."""


def newest(package: str) -> str:
    """The newest release on the package index, pre-releases aside."""
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.match(rf"{package} \(([\d.]+)\)", said)
    assert found is not None, said
    return found[1]


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
    held = done("schema.release", release) and done("tests.parity.environment", release)
    held &= done("tests.parity.census", release, "--check")
    held &= done("tests.parity.filling", str(FILLED), python=str(loading.python(loading.LIBRARIES)))
    if held and number(release) > NUMBERS[LATEST]:
        print(f"\nDeepSpeed {release} is new and reads what {LATEST} reads: `make census RELEASE={release}`")
        return 1
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
