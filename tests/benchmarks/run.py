"""`make bench`: what a check costs beside check-jsonschema with a trivial schema, and beside DeepSpeed.

CPU seconds of child processes, interpreter included, the best of several runs; ratios hold across machines
where absolute figures do not. DeepSpeed is measured where `make parity` has built an environment.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "demo" / "configs" / "clean-zero3.json"
BIN = Path(sys.executable).parent
PARITY = Path(os.environ.get("DSCONFIG_PARITY_HOME", ROOT / ".parity"))
RELEASE = "0.19.8"
RUNS = 9
FILES = 500

LOAD = f"""
import logging; logging.disable(logging.CRITICAL)
from deepspeed.runtime.config import DeepSpeedConfig
DeepSpeedConfig({str(CONFIG)!r})
"""


def cpu(command: list[str], runs: int = RUNS, **variables: str) -> float:
    """The least CPU seconds, user and system, that the command took."""
    # Byte code is what an installed package has; a machine that forbids writing it would time the compiler.
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return min(_once(command, environment) for _ in range(runs))


def _once(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands() -> dict[str, float]:
    """CPU seconds of one cold run each."""
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder) / "trivial.json"
        schema.write_text('{"type": "object"}', encoding="utf-8")
        trivial = ["--schemafile", str(schema), str(CONFIG)]
        found = {
            "python -c pass": cpu([sys.executable, "-c", "pass"]),
            "dsconfig --version": cpu([str(BIN / "dsconfig"), "--version"]),
            "dsconfig --help": cpu([str(BIN / "dsconfig"), "--help"]),
            "dsconfig check": cpu([str(BIN / "dsconfig"), "check", str(CONFIG), "--target", RELEASE]),
            "check-jsonschema": cpu([str(BIN / "check-jsonschema"), *trivial]),
        }
    deepspeed = PARITY / "ds" / RELEASE
    if deepspeed.is_dir():
        python = str(PARITY / "venv" / "bin" / "python")
        found["DeepSpeed itself"] = cpu([python, "-W", "ignore", "-c", LOAD], 3, PYTHONPATH=str(deepspeed))
    return found


def clean_file() -> float:
    """Milliseconds for a clean file in one process, start-up not counted, over many different files."""
    from dsconfig.checking.check import check_document
    from dsconfig.document import read_file
    from dsconfig.releases import resolve

    text = CONFIG.read_text(encoding="utf-8")
    target = resolve(RELEASE)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"ds_config_{number}.json" for number in range(FILES)]
        for number, path in enumerate(paths):
            path.write_text(text.replace("200", str(200 + number), 1), encoding="utf-8")
        assert not check_document(read_file(paths[0]), target).diagnostics
        start = time.process_time()
        for path in paths:
            check_document(read_file(path), target)
        return (time.process_time() - start) * 1000 / FILES


def main() -> None:
    """Print the table."""
    found = commands()
    own = found["dsconfig check"]
    print(f"{'CPU of one cold run':24} {'ms':>8} {'dsconfig check is':>20}")
    for name, seconds in found.items():
        print(f"{name:24} {seconds * 1000:8.1f} {own / seconds:17.2f} of it")
    if "DeepSpeed itself" not in found:
        print("DeepSpeed itself: not measured, `make parity` builds what it needs")
    print(f"\n{FILES} clean files in one process: {clean_file():.3f} ms each")


if __name__ == "__main__":
    main()
