"""`make bench`: what a cold check costs beside check-jsonschema with a trivial schema, and beside DeepSpeed.

CPU of child processes, interpreter included. Commands take turns, and each is divided by the check-jsonschema
of its own turn: so the median holds on a busy machine. DeepSpeed is measured where `make parity` has built an
environment.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "demo" / "configs" / "clean-zero3.json"
BIN = Path(sys.executable).parent
PARITY = Path(os.environ.get("DSCONFIG_PARITY_HOME", ROOT / ".parity"))
RELEASE = "0.19.8"
TURNS = 31
FILES = 500
OTHER = "check-jsonschema"
ALONE, WITHIN = "dsconfig check, in a folder of its own", "dsconfig check, in this repository"

LOAD = f"""
import logging; logging.disable(logging.CRITICAL)
from deepspeed.runtime.config import DeepSpeedConfig
DeepSpeedConfig({str(CONFIG)!r})
"""
LOADED = """
import sys
before = set(sys.modules)
from dsconfig.cli import main
main(["check", sys.argv[1]])
print(*[name for name in sys.modules if name not in before])
"""
SPARED = "import gc; gc.set_threshold(50_000)\n{}\ngc.freeze()"
"""What the command itself does, so that the parts of its cost add up."""


def once(command: list[str], environment: Mapping[str, str]) -> float:
    """CPU seconds, user and system, of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(
    commands: Mapping[str, list[str]], turns: int = TURNS, **variables: str
) -> dict[str, list[float]]:
    """CPU seconds of each command in each turn."""
    # Byte code is what an installed package has; a machine that forbids writing it would time the compiler.
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    for command in commands.values():
        once(command, environment)
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(turns):
        for name, command in commands.items():
            found[name].append(once(command, environment))
    return found


def commands(alone: Path) -> dict[str, list[str]]:
    """What is measured, and the parts of the cost of a check."""
    schema = alone.with_name("trivial.json")
    schema.write_text('{"type": "object"}', encoding="utf-8")
    config = str(shutil.copy(CONFIG, alone))
    tool, python = str(BIN / "dsconfig"), [sys.executable, "-c"]
    out = subprocess.run([*python, LOADED, config], capture_output=True, text=True, check=True).stdout
    modules = [name for name in out.splitlines()[-1].split() if not name.startswith("__")]
    foreign = [name for name in modules if name.partition(".")[0] not in ("dsconfig", "elastic")]
    return {
        OTHER: [str(BIN / OTHER), "--schemafile", str(schema), config],
        ALONE: [tool, "check", config, "--target", RELEASE],
        WITHIN: [tool, "check", str(CONFIG), "--target", RELEASE],
        "dsconfig --version": [tool, "--version"],
        "dsconfig --help": [tool, "--help"],
        "the interpreter": [*python, SPARED.format("pass")],
        "and the standard library": [*python, SPARED.format(f"import {', '.join(foreign)}")],
        "and its own modules": [*python, SPARED.format(f"import {', '.join(modules)}")],
    }


def parts(found: Mapping[str, list[float]]) -> dict[str, float]:
    """What a check in a folder of its own is spent on, in seconds."""
    start, library, modules = (
        statistics.median(found[name])
        for name in ("the interpreter", "and the standard library", "and its own modules")
    )
    alone, within = (statistics.median(found[name]) for name in (ALONE, WITHIN))
    return {
        "the interpreter": start,
        "modules of the standard library": library - start,
        "modules of its own": modules - library,
        "options, reading, rules, output": alone - modules,
        "who reads it, in this repository": within - alone,
    }


def clean_file() -> float:
    """Milliseconds for a clean file in one process, start-up not counted, over many different files."""
    from dsconfig.check.check import check_document
    from dsconfig.core.releases import resolve_target
    from dsconfig.document import read_file

    text = CONFIG.read_text(encoding="utf-8")
    target = resolve_target(RELEASE)
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
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        found = in_turns(commands(Path(folder) / "ds_config.json"))
    others = found[OTHER]
    print(f"{f'median of {TURNS} turns':42} {'ms':>7}  of {OTHER}, turn by turn")
    for name in (OTHER, ALONE, WITHIN, "dsconfig --version", "dsconfig --help"):
        ratios = [own / other for own, other in zip(found[name], others, strict=True)]
        print(f"{name:42} {statistics.median(found[name]) * 1000:7.1f} {statistics.median(ratios):6.3f}")
    print("\nwhat a check is spent on, in ms")
    for name, seconds in parts(found).items():
        print(f"{name:42} {seconds * 1000:7.1f}")
    deepspeed = PARITY / "ds" / RELEASE
    if deepspeed.is_dir():
        python = str(PARITY / "venv" / "bin" / "python")
        loading = in_turns({"": [python, "-W", "ignore", "-c", LOAD]}, 3, PYTHONPATH=str(deepspeed))
        print(f"\n{'DeepSpeed itself':42} {statistics.median(loading['']) * 1000:7.1f}")
    else:
        print("\nDeepSpeed itself: not measured, `make parity` builds what it needs")
    print(f"\n{FILES} clean files in one process: {clean_file():.3f} ms each")


if __name__ == "__main__":
    main()
