"""Compares launch files for the Trainer, beside the configs that they name, with the Trainer's own reading.

`python -m tests.parity.jobs [COUNT]`, in an environment that has transformers, accelerate and torch beside
what dsconfig needs. What the Trainer refuses has to be an error of the rules of consumers (DSC8), with as
many findings of DSC809 as there are mismatches; what it takes arrives at `deepspeed.initialize` as `resolve`
says.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path

import yaml

from dsconfig import check, resolve
from tests.parity.generators.auto import Config, generated
from tests.parity.judges.consumers import RANKS, by_transformers, disagreements, stand_in

OF_TRAINER = "of the job is"
"""What DSC809 says of a mismatch; of a precision that is refused it says something else."""


def differs(config: Config, args: Config, hidden: int) -> str | None:
    """What differs between theirs and ours; None where nothing does."""
    Path("ds.json").write_text(json.dumps(config), "utf-8")
    Path("train.yaml").write_text(
        yaml.safe_dump({"output_dir": "o", "deepspeed": "ds.json", **args}), "utf-8"
    )
    try:
        theirs, mismatches = by_transformers(config, args, hidden)
    except ValueError as error:
        theirs, mismatches = None, -1
        reason = str(error)
    (child,) = check("train.yaml", "0.19.8", RANKS).children
    refused = [found for found in child if found.severity == "error" and found.code.startswith("DSC8")]
    ours = sum(OF_TRAINER in found.message for found in refused)
    if theirs is None:
        return None if refused else f"theirs refuses: {reason}; ours takes it"
    if mismatches or refused:
        return None if mismatches == ours == len(refused) else f"theirs {mismatches}, ours {refused}"
    if not child.ok:  # DeepSpeed itself refuses what is handed over
        return None
    arrived = resolve("train.yaml", RANKS, "0.19.8", model_config={"hidden_size": hidden}).config
    expected = {key: value for key, value in theirs.items() if key != "steps_per_print"}
    arrived = {key: arrived.get(key) for key in expected}
    return None if arrived == expected else f"theirs {expected}, ours {arrived}"


def main(arguments: list[str]) -> int:
    """Command line."""
    try:
        import transformers
    except ImportError as error:
        print(f"needs transformers, accelerate and torch: {error}", file=sys.stderr)
        return 2
    stand_in()
    count, source = int(arguments[0]) if arguments else 2000, random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        cases = [generated(source, trainer=True) for _ in range(count)]
        failed = disagreements(f"jobs of transformers {transformers.__version__}", cases, differs)
        os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
