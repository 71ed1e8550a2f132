"""Compares verdicts on calls of `init_inference` in Python programs with those of real releases that run the calls.

`python -m tests.parity.inference_calls --release 0.19.8 --cases 300 --seed 0`: each generated inference config becomes
a program that passes it as a dict, as keyword arguments or as both, in one of several ways. Exit code 1 if a verdict
differs, or if a fix leaves a program that Python does not parse.
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from dsconfig.job.consumers import INFERENCE
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.inference import generate
from tests.parity.judges import compare, judging
from tests.parity.judges.programs import check_and_fix_programs
from tests.parity.literals import VARIATIONS

Variation: TypeAlias = "Callable[[dict[str, Any], Random], str]"
_HEAD = "import deepspeed\nimport torch\n"
_CLASS = "from deepspeed.inference.config import DeepSpeedInferenceConfig\n"
_DTYPES = ("torch.half", "torch.float16", "torch.float", "torch.float32", "torch.bfloat16", "torch.int8")
FIRST_CALL = (0, 4, 0)
"""The first release with `init_inference`."""


def _arguments(config: dict[str, Any]) -> str:
    return "".join(f", {key}={_expression(value)}" for key, value in config.items())


def _expression(value: object) -> str:
    """Python for a value; a string that names a dtype is the dtype itself."""
    return value if isinstance(value, str) and value in _DTYPES else repr(value)


def _built_dict(config: dict[str, Any], rng: Random, variations: Sequence[Variation] = VARIATIONS) -> str:
    """Statements that build `ds_config`, as the programs that train do."""
    text = rng.choice(variations)(config, rng)
    for dtype in _DTYPES:
        text = text.replace(f"'{dtype}'", dtype)
    return text


def _keywords(config: dict[str, Any], rng: Random) -> str:
    return f"deepspeed.init_inference(net{_arguments(config)})\n"


def _dict(config: dict[str, Any], rng: Random) -> str:
    name = rng.choice(("config=", ""))
    return f"{_built_dict(config, rng)}deepspeed.init_inference(net, {name}ds_config)\n"


def _unpacked(config: dict[str, Any], rng: Random) -> str:
    return f"{_built_dict(config, rng)}deepspeed.init_inference(net, **ds_config)\n"


def _both(config: dict[str, Any], rng: Random) -> str:
    """A dict with the first keys, and keyword arguments with the others, one of which may repeat a key."""
    items = list(config.items())
    first = rng.randint(0, len(items))
    inside, outside = dict(items[:first]) or {"enable_cuda_graph": False}, dict(items[first:])
    if rng.random() < 0.4:
        key = rng.choice(list(inside))
        outside[key] = rng.choice((inside[key], "fp16", True, 7))
    form = rng.choice(("config=ds_config", "ds_config", "config=ds_config", "**ds_config"))
    # JSON text in a string and the arguments of the call stay two configs.
    literals = tuple(each for each in VARIATIONS if each.__name__ != "_json_text")
    return f"{_built_dict(inside, rng, literals)}deepspeed.init_inference(net, {form}{_arguments(outside)})\n"


def _config_object(config: dict[str, Any], rng: Random) -> str:
    if rng.random() < 0.5:
        return f"{_CLASS}{_built_dict(config, rng)}DeepSpeedInferenceConfig(**ds_config)\n"
    return f"{_CLASS}DeepSpeedInferenceConfig({_arguments(config)[2:]})\n"


def _odd_call(config: dict[str, Any], rng: Random) -> str:
    """A call with more positional arguments than the model and the config, or with a config of another type."""
    wrong = rng.choice(
        ("2", "False", "[]", "ds_config, 2", "None, ds_config", "None", "config=3", "config=None")
    )
    return f"{_built_dict(config, rng)}deepspeed.init_inference(net, {wrong}{_arguments(config)})\n"


CALLS: tuple[Variation, ...] = (
    _keywords, _keywords, _dict, _unpacked, _both, _both, _both, _config_object, _odd_call,
)  # fmt: skip


def programs(release: str, count: int, seed: int) -> Iterator[Case]:
    """Programs with generated configs: nonempty dicts with finite numbers, whose keys can be arguments."""
    rng, found = Random(f"calls {release} {seed}"), 0
    # Releases without such configs get those of the first one that has them.
    source = release if environment.order(release) >= (0, 7, 6) else "0.7.6"
    for case in generate(source, count * 4, seed):
        config = case.config
        if case.text is not None or not isinstance(config, dict) or not config or found == count:
            continue
        try:
            json.dumps(config, allow_nan=False)
        except ValueError:
            continue
        if all(isinstance(key, str) and _may_be_argument(key) for key in config):
            found += 1
            if rng.random() < 0.3:
                config = {**config, "dtype": rng.choice(_DTYPES)}
            if source != release:
                config = dict(rng.sample(list(config.items()), min(2, len(config))))
            call = rng.choice(CALLS)
            yield Case(case.id, case.kind, call.__name__.strip("_"), 1, text=_HEAD + call(config, rng))


def _may_be_argument(key: str) -> bool:
    """Whether a key can be a keyword argument; `config` and `model` are other arguments of the function."""
    return key.isidentifier() and not keyword.iskeyword(key) and key not in ("config", "model")


def compare_programs(
    release: str, count: int, seed: int, folder: Path
) -> tuple[list[compare.Outcome], list[str]]:
    """Both verdicts on each program, and the programs that a fix broke."""
    cases = list(programs(release, count, seed))
    verdicts = judging.judge(release, cases, program="inference_calls_judge.py")
    written = ((case, case.text or "") for case in cases)
    return check_and_fix_programs(release, written, verdicts, folder, INFERENCE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the comparison; 0 if all verdicts are equal and all fixed programs parse."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.inference_calls", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--release", action="append", default=[], help="may be given several times")
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="cases of each release")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="disagreements to print in full")
    options = parser.parse_args(arguments)
    wanted = options.release or environment.available()[-1:]
    available = [each for each in environment.available() if environment.order(each) >= FIRST_CALL]
    if missing := [each for each in wanted if each not in available] or not wanted:
        print(f"not in the environment, or without `init_inference`: {missing}", file=sys.stderr)
        return 2
    failed = False
    for release in wanted:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, ".git").mkdir()
            os.chdir(folder)
            outcomes, broken = compare_programs(release, options.cases, options.seed, Path(folder))
        print(compare.row(f"calls, {release}", outcomes))
        differing = [each for each in outcomes if each.decided and not each.agrees]
        for each in differing[: options.show]:
            print("\n".join((*compare.describe(each), f"    {each.case.text}")))
        print("\n".join(broken), end="\n" if broken else "")
        failed |= bool(differing or broken)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
