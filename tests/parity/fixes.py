"""Checks fixes with real DeepSpeed: what a release accepted, it still accepts, with the same values if safe.

`python -m tests.parity.fixes --release 0.19.8 --cases 3000 --seed 0`. Exit status 1 where a fix breaks its
promise.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.releases import resolve_target
from dsconfig.document import Document, read_text
from dsconfig.fix.apply_fixes import FixedText, fix_document
from tests.parity import environment
from tests.parity.generators import writing
from tests.parity.generators.cases import generate
from tests.parity.judges import worker

OLD_NAMES = frozenset((
    "cpu_offload",
    "cpu_offload_param",
    "cpu_offload_use_pin_memory",
    "stage3_gather_fp16_weights_on_model_save",
))  # fmt: skip
"""DeepSpeed takes these off the config object once it has passed their value on."""


@dataclass(frozen=True, slots=True)
class FixedCase:
    """A config before and after its fixes."""

    id: str
    world_size: int
    old: str
    new: str
    applied: tuple[Diagnostic, ...]
    unsafe: bool

    @property
    def comparable(self) -> bool:
        """Whether the config object must stay the same.

        So it must where nothing that was fixed stops the run, or concerns what the engine does with a value
        later (codes from DSC300 on).
        """
        return not self.unsafe and all(
            found.severity != "error" and found.code < "DSC3" for found in self.applied
        )


def cases(release: str, number: int, seed: int) -> Iterator[FixedCase]:
    """The generated cases that a fix changes."""
    rng = Random(seed)
    for case in generate(release, number, seed):
        text = case.text if case.text is not None else writing.plain(case.config, rng)
        for name, unsafe, size in FORMS:
            fixed = fixed_text(text, release, case.world_size if size else None, unsafe=unsafe)
            if fixed is not None and fixed.text != text:
                identity = f"{case.id}/{name}"
                yield FixedCase(identity, case.world_size, text, fixed.text, fixed.applied, unsafe)


FORMS = (("safe", False, True), ("unsafe", True, True), ("unsafe at any size", True, False))
"""How the text is fixed: its name, whether unsafe fixes are made, and whether the world size is known."""


def fixed_text(text: str, release: str, world_size: int | None, *, unsafe: bool) -> FixedText | None:
    """The text after its fixes; None where it is not text."""
    target = resolve_target(release)

    def judge(document: Document) -> Report:
        return check_document(document, target, world_size=world_size)

    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return fix_document(read_text(text), judge, unsafe=unsafe)


def ask(release: str, fixed: Sequence[FixedCase]) -> dict[str, dict[str, Any]]:
    """The release's answers on both texts of each case."""
    lines = "".join(
        json.dumps({"id": f"{one.id}/{kind}", "text": text, "world_size": one.world_size}) + "\n"
        for one in fixed
        for kind, text in (("old", one.old), ("new", one.new))
    )
    return {answer["id"]: answer for answer in worker.answers(release, "config_values.py", lines)}


def broken(one: FixedCase, old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """What a fix did that it must not do; None where it kept its promise."""
    if not old["ok"]:
        return None
    if new["ok"] is False:
        return f"taken before, refused after: {new['error']}"
    if not one.comparable or new["ok"] is None:
        return None
    return difference(old["values"], new["values"])


def difference(old: Any, new: Any, path: str = "") -> str | None:
    """The first place where the values differ; what counts as true may be written `true`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted((old.keys() | new.keys()) - OLD_NAMES):
            found = difference(old.get(key, "absent"), new.get(key, "absent"), f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return next(filter(None, (difference(*pair, f"{path}[{index}]") for index, pair in pairs)), None)
    if isinstance(new, bool) and bool(old) == new:
        return None
    return None if old == new else f"{path}: {old!r} became {new!r}"


def compare(release: str, number: int, seed: int) -> tuple[Counter[str], list[str]]:
    """What was fixed, by rule, and the promises broken."""
    fixed = list(cases(release, number, seed))
    answers = ask(release, fixed) if fixed else {}
    counts: Counter[str] = Counter()
    wrong = []
    for one in fixed:
        old, new = answers[f"{one.id}/old"], answers[f"{one.id}/new"]
        counts.update(found.code for found in one.applied)
        counts["repaired"] += old["ok"] is False and new["ok"] is True
        counts["compared"] += bool(old["ok"]) and one.comparable
        found = broken(one, old, new)
        if found:
            titles = ", ".join(f"{each.code} {each.fix.title}" for each in one.applied if each.fix)
            wrong.append(f"{release} {one.id}: {found}\n  {titles}\n{one.old}\n  became\n{one.new}")
    return counts, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares and prints; 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.fixes", description=__doc__.split("\n")[0])
    parser.add_argument("--release", action="append", default=[], help="may be given several times")
    parser.add_argument("--cases", type=int, default=3000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    options = parser.parse_args(arguments)
    failed = 0
    for release in options.release or environment.available()[-1:]:
        counts, wrong = compare(release, options.cases, options.seed)
        by_rule = ", ".join(f"{code} {n}" for code, n in sorted(counts.items()) if code.startswith("DSC"))
        print(
            f"DeepSpeed {release}: {counts['compared']} configs keep their values, "
            f"{counts['repaired']} refused ones are accepted now, {len(wrong)} broken promises; {by_rule}"
        )
        print("\n".join(wrong[:10]))
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
