"""Compares launch files, beside the configs that they name, with the reading of the programs that take them.

`python -m tests.parity.jobs [COUNT] [--loader NAME]`. For the Trainer itself: in an environment that has
transformers, accelerate and torch beside what dsconfig needs; the loaders of other programs run in
environments of their own, which are built under `.parity/`. What a program refuses has to be an error of the
rules of consumers (DSC8), with a finding of DSC809 at the key of each mismatch; what it takes arrives at
`deepspeed.initialize` as `resolve` says.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dsconfig import ResolveError, check, resolve
from tests.parity import loading
from tests.parity.environment import BuildError
from tests.parity.generators.auto import Config, generated
from tests.parity.generators.launches import launched
from tests.parity.judges.consumers import RANKS, by_transformers, disagreements, stand_in

_NONE: Config = {}
OF_TRAINER = "of the job is"
"""What DSC809 says of a mismatch; of a precision that is refused it says something else."""


def of_trainer(config: Config, args: Config, hidden: int) -> str | None:
    """What differs between the Trainer's reading and ours; None where nothing does."""
    Path("ds.json").write_text(json.dumps(config), "utf-8")
    Path("train.yaml").write_text(
        yaml.safe_dump({"output_dir": "o", "deepspeed": "ds.json", **args}), "utf-8"
    )
    try:
        theirs, mismatches = by_transformers(config, args, hidden)
    except ValueError as error:
        return differs({"refused": str(error)}, hidden)
    return differs({"config": theirs, "mismatches": mismatches}, hidden)


def of_loader(case: Config, theirs: Config, reader: str | None = None) -> str | None:
    """What differs between a program's reading and ours; None where nothing does."""
    Path("ds.json").write_text(json.dumps(case["config"]), "utf-8")
    Path("train.yaml").write_text(case["text"], "utf-8")
    return differs(theirs, case["hidden"], case, reader)


def differs(theirs: Config, hidden: int, case: Config = _NONE, reader: str | None = None) -> str | None:
    """What differs between theirs and ours of the files in this folder.

    `batch` of a case: that of the data loader; `undecided`: keys that no file decides.
    """
    report = check("train.yaml", target="0.19.8", world_size=RANKS, consumer=reader)
    (child,) = report.children or (report,)  # a config that stands in the launch file is judged with it
    found = (*report, *child) if report.children else child
    refused = [each for each in found if each.severity == "error" and each.code.startswith("DSC8")]
    ours = sorted(each.dotted for each in refused if OF_TRAINER in each.message)
    if "refused" in theirs:
        if case.get("undecided") and "mixed_precision" in theirs["refused"]:
            return None
        return None if refused else f"theirs refuses: {theirs['refused']}; ours takes it"
    mismatches = sorted(key for key in theirs["mismatches"] if key not in case.get("undecided", ()))
    if mismatches or refused:
        alike = mismatches == ours and len(ours) == len(refused)
        return None if alike else f"theirs {mismatches}, ours {[each.message for each in refused]}"
    if theirs["mismatches"]:
        return None
    if not child.ok:  # DeepSpeed itself refuses what is handed over
        return None
    assert child.document is not None
    micro = "train_micro_batch_size_per_gpu"
    batch, model = case.get("batch"), {"hidden_size": hidden}
    written = child.document.value()
    given = {micro: batch} if batch and isinstance(written, dict) and micro not in written else {}
    try:
        run = resolve(
            "train.yaml", world_size=RANKS, target="0.19.8", consumer=reader, model=model, set=given
        )
    except ResolveError as error:
        return f"theirs {theirs}, ours {error}"
    expected = {key: value for key, value in theirs["config"].items() if key != "steps_per_print"}
    arrived = _known({key: run.config.get(key) for key in expected}, expected)
    return None if arrived == expected else f"theirs {expected}, ours {arrived}"


def _known(ours: Any, theirs: Any) -> Any:
    """Ours, with theirs where only a run would show what takes the place of "auto"."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: _known(value, theirs.get(key)) for key, value in ours.items()}
    return theirs if ours == "auto" else ours


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.jobs", description=__doc__.split("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--loader", choices=("transformers", *loading.LOADERS), default="transformers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    source = random.Random(options.seed)
    if options.loader != "transformers":
        return _loader(options.loader, options.count, source)
    try:
        import transformers
    except ImportError as error:
        print(f"needs transformers, accelerate and torch: {error}", file=sys.stderr)
        return 2
    stand_in()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        cases = [generated(source, trainer=True) for _ in range(options.count)]
        failed = disagreements(f"jobs of transformers {transformers.__version__}", cases, of_trainer)
        os.chdir("/")
    return 1 if failed else 0


def _loader(name: str, count: int, source: random.Random) -> int:
    cases = [launched(name, source) for _ in range(count)]
    try:
        loading.build(name)
        answers = loading.asked(name, cases)
    except BuildError as error:
        print(f"parity: {error}", file=sys.stderr)
        return 2
    sys.path.append(str(loading.packages(name)))  # presets are found where the program is installed
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        judge = partial(of_loader, reader=loading.LOADERS[name].reader)
        failed = disagreements(f"jobs of {name}", list(zip(cases, answers, strict=True)), judge)
        os.chdir("/")
    refused = sum("refused" in answer for answer in answers)
    print(
        f"  of which {refused} are refused, {sum(bool(each.get('mismatches')) for each in answers)} mismatch"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
