"""Compares verdicts on configs in Python programs with those of real releases on the same dicts.

`python -m tests.parity.literals --release 0.19.8 --cases 500 --seed 0`: each generated config becomes a program
that builds its dict in one of several ways and passes it to `deepspeed.initialize`. Exit code 1 if a verdict
differs, or if a fix leaves a program that Python does not parse.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.cases import generate
from tests.parity.judges import compare, judging
from tests.parity.judges.programs import check_and_fix_programs

CALL = "import deepspeed\nengine, *_ = deepspeed.initialize(model=net, model_parameters=parameters, config=ds_config)\n"


def _literal(config: dict[str, Any], rng: Random) -> str:
    """A dict literal in one line, or with one key per line and a trailing comma."""
    if rng.random() < 0.5:
        return f"ds_config = {config!r}\n"
    items = "".join(f"    {key!r}: {value!r},\n" for key, value in config.items())
    return f"ds_config = {{\n{items}}}\n"


def _dict_call(config: dict[str, Any], rng: Random) -> str:
    """A call of `dict` with the keys as keywords, where they are identifiers."""
    if not all(key.isidentifier() for key in config):
        return _literal(config, rng)
    return f"ds_config = dict({', '.join(f'{key}={value!r}' for key, value in config.items())})\n"


def _key_by_key(config: dict[str, Any], rng: Random) -> str:
    """A literal with the first keys, and assignments of the others."""
    items = list(config.items())
    first = rng.randint(1, max(1, len(items)))
    assignments = "".join(f"ds_config[{key!r}] = {value!r}\n" for key, value in items[first:])
    return f"ds_config = {dict(items[:first])!r}\n{assignments}"


def _update(config: dict[str, Any], rng: Random) -> str:
    """A literal with the first keys, and `update` with the others."""
    items = list(config.items())
    first = rng.randint(1, max(1, len(items)))
    return f"ds_config = {dict(items[:first])!r}\nds_config.update({dict(items[first:])!r})\n"


def _constants(config: dict[str, Any], rng: Random) -> str:
    """Values in variables of their own, except lists, which other code may change: their content is unknown."""
    names = {key: f"VALUE_{number}" for number, key in enumerate(config) if not isinstance(config[key], list)}
    values = "".join(f"{name} = {config[key]!r}\n" for key, name in names.items())
    items = ", ".join(f"{key!r}: {names.get(key, repr(value))}" for key, value in config.items())
    return f"{values}ds_config = {{{items}}}\n"


def _function(config: dict[str, Any], rng: Random) -> str:
    """A function that returns the dict."""
    return f"def get_config():\n    return {config!r}\n\nds_config = get_config()\n"


def _json_text(config: dict[str, Any], rng: Random) -> str:
    """JSON text that the program parses."""
    return f"import json\nds_config = json.loads({json.dumps(config)!r})\n"


VARIATIONS: tuple[Callable[[dict[str, Any], Random], str], ...] = (
    _literal, _dict_call, _key_by_key, _update, _constants, _function, _json_text,
)  # fmt: skip


def write_program(config: dict[str, Any], rng: Random) -> str:
    """A program that builds the config in one of `VARIATIONS` and passes it to DeepSpeed."""
    return rng.choice(VARIATIONS)(config, rng) + CALL


def dict_cases(release: str, count: int, seed: int) -> Iterator[Case]:
    """Generated configs that a Python program can contain: nonempty dicts with finite numbers."""
    found = 0
    for case in generate(release, count * 4, seed):
        if case.text is None and isinstance(case.config, dict) and case.config and found < count:
            try:
                json.dumps(case.config, allow_nan=False)
            except ValueError:
                continue
            if all(isinstance(key, str) for key in case.config):
                found += 1
                yield case


def compare_programs(
    release: str, count: int, seed: int, folder: Path
) -> tuple[list[compare.Outcome], list[str]]:
    """Both verdicts on each program, and the programs that a fix broke."""
    cases = list(dict_cases(release, count, seed))
    verdicts = judging.judge(release, cases)
    rng = Random(seed)
    programs = ((case, write_program(case.config, rng)) for case in cases)
    return check_and_fix_programs(release, programs, verdicts, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 if all verdicts are equal and all fixed programs parse."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.literals", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--release", default=environment.DEFAULT[0])
    parser.add_argument("--cases", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to print in full")
    options = parser.parse_args(arguments)
    if options.release not in environment.available():
        print(f"run `python -m tests.parity.environment {options.release}` first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, ".git").mkdir()
        os.chdir(folder)
        outcomes, broken = compare_programs(options.release, options.cases, options.seed, Path(folder))
    print("\n".join(compare.table(outcomes)))
    differing = [outcome for outcome in outcomes if outcome.decided and not outcome.agrees]
    for outcome in differing[: options.show]:
        print("\n".join(compare.describe(outcome)))
    print("\n".join(broken))
    return int(bool(differing or broken))


if __name__ == "__main__":
    sys.exit(main())
