"""Compares the errors on configs for Transformers and Accelerate with their own loaders.

`python -m tests.parity.loaders DIR`, in an environment that has transformers, accelerate and torch beside
what dsconfig needs. A config goes as far as `deepspeed.initialize`: what raises before has to be an `error`
here, and an error of the rules of consumers (DSC8) has to be something that raises.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dsconfig.api.check import check
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from tests.parity.judges.consumers import by_accelerate, by_transformers, stand_in

RELEASE = "0.19.8"
ARGUMENTS = {"per_device_train_batch_size": 2, "max_steps": 10, "total_num_steps": 10, "warmup_steps": 2}
HIDDEN = 768


def configs(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The configs of a directory that a strict parser reads."""
    for path in sorted(folder.rglob("*.json")):
        try:
            config = json.loads(path.read_text("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(config, dict) and not is_launch_file(config):
            yield path, config


def theirs(consumer: str, config: dict[str, Any]) -> str | None:
    """What the loader raises, None where it hands the config on."""
    load = by_transformers if consumer == "transformers" else by_accelerate
    try:
        load(copy.deepcopy(config), dict(ARGUMENTS), HIDDEN)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def compare(consumer: str, path: Path, config: dict[str, Any]) -> str:
    """How the two verdicts stand to each other; disagreements are printed."""
    raised = theirs(consumer, config)
    errors = [
        d
        for d in check(str(path), target=RELEASE, world_size=None, consumer=consumer)
        if d.severity == "error"
    ]
    own = [d for d in errors if d.code.startswith("DSC8")]
    if bool(raised) == bool(errors) or (errors and not own):
        return "refused by both" if raised else "DeepSpeed's affair" if errors else "taken by both"
    kind = "not seen" if raised else "false alarm"
    codes = [d.code for d in errors]
    print(f"{kind}: {consumer}: {path.name}: {(raised or 'hands it on')[:200]}; here: {codes}")
    return kind


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare; 0 where they agree on every file."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.loaders", description=__doc__.split("\n")[0]
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        import accelerate
        import transformers
    except ImportError as error:
        print(f"needs transformers, accelerate and torch: {error}", file=sys.stderr)
        return 2
    stand_in()
    counts: Counter[str] = Counter()
    versions = {"transformers": transformers.__version__, "accelerate": accelerate.__version__}
    for consumer, version in versions.items():
        found = Counter(compare(consumer, path, config) for path, config in configs(options.folder))
        print(f"{consumer} {version}: {dict(found)}")
        counts += found
    return 1 if counts["false alarm"] or counts["not seen"] else 0


if __name__ == "__main__":
    sys.exit(main())
