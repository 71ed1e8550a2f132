"""Compares what `dsconfig show` lists, key by key, with the attributes of a release's own `DeepSpeedConfig`.

`python -m tests.parity.effective --release 0.19.8 --cases 9000`. Every key that is listed, written or not, is
compared where the config object keeps its value, in every generated config that the release takes. A key has
no attribute where DeepSpeed looks it up in the dict when it needs it (`vocabulary_size`), hands the dict on
as it is (defaults of an optimizer's params), or makes no object of a section that is not written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from dsconfig.resolve.effective_values import EffectiveValues, effective_values_of
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.cases import generate
from tests.parity.judges import worker
from tests.parity.judges.attributes import MISSING, attribute, kept, same


def accepted(release: str, count: int, seed: int) -> Iterator[tuple[Case, dict[str, Any]]]:
    """The generated cases that the release takes, with the attributes of its config object."""
    cases = {case.id: case for case in generate(release, count, seed)}
    lines = "".join(_line(case) for case in cases.values())
    for answer in worker.answers(release, "config_values.py", lines):
        if answer["ok"]:
            yield cases[answer["id"]], answer["values"]


def _line(case: Case) -> str:
    given = {"text": case.text} if case.text is not None else {"config": case.config}
    return json.dumps({"id": case.id, "world_size": case.world_size} | given) + "\n"


def differences(shown: EffectiveValues, values: dict[str, Any], keys: Counter[str]) -> Iterator[str]:
    """A line for each key of which something else is shown; counts the keys that are compared."""
    for value in shown.values:
        if value.origin in ("ignored", "refused") or value.value == "***":
            continue  # DeepSpeed does not read it, or it is a secret
        found = attribute(values, value.key)
        keys[value.key] += 0
        if found is MISSING or (isinstance(found, dict) and not isinstance(value.value, dict)):
            continue  # the attribute of a section says nothing of a number or a null in its place
        keys[value.key] += 1
        if not same(kept(values, value.key, value.value), found):
            yield f"{value.key}: shown {value.value!r} ({value.note}), DeepSpeed has {found!r}"


def compare(release: str, options: argparse.Namespace) -> int:
    """The number of mismatches in one release; prints the figures and some of them."""
    keys: Counter[str] = Counter()
    wrong: list[str] = []
    configs = 0
    for case, values in accepted(release, options.cases, options.seed):
        configs += 1
        shown = effective_values_of(case.source, case.world_size, release, "deepspeed", every=True)
        config = case.text or repr(case.config)
        found = differences(shown, values, keys)
        wrong += [f"{case.id} {case.label}: {line}\n  {config}" for line in found]
    without = sorted(key for key, count in keys.items() if not count)
    print(
        f"DeepSpeed {release}: {configs} configs, {keys.total()} attributes of {len(keys) - len(without)} "
        f"keys compared, {len(wrong)} mismatches; {len(without)} keys have no attribute"
    )
    print("\n".join((*wrong[: options.show], *(without if options.keys else ()))))
    return len(wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares and prints; 1 where anything differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.effective", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--release", action="append", default=[], help="may be given several times")
    parser.add_argument("--cases", type=int, default=3000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="mismatches to print")
    parser.add_argument("--keys", action="store_true", help="print the keys that have no attribute")
    options = parser.parse_args(arguments)
    releases = options.release or environment.available()[-1:]
    return 1 if sum(compare(release, options) for release in releases) else 0


if __name__ == "__main__":
    sys.exit(main())
