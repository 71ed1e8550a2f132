"""What fixes promise, on generated configs: `python -m tests.fuzz.properties --cases N [--property NAME]`.

Prints how many configs were looked at, CPU time and the shortest violations of each property; ends in 1
where there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Effect, RemoveKey, RenameKey, dotted_path
from dsconfig.core.json_types import Json
from dsconfig.core.releases import NUMBERS
from dsconfig.core.releases import resolve_target as releases_of
from dsconfig.document import Document, Format, read_text
from dsconfig.document.apply_operations import apply_operations_to_value, are_equal_for_parsers, edits_for_fix
from dsconfig.document.text_edit import apply_edits
from dsconfig.fix.apply_fixes import FixedText, fix_document
from dsconfig.fix.verify_fixes import do_operations_harm, verify_fixes_of_reports
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.resolve.effective_values import effective_values_of
from dsconfig.resolve.errors import ResolveError
from tests.fuzz.drafts import Draft, drafts
from tests.parity.generators import writing, yaml_writing

SIZES = (1, 2, 3, 8, 64)


class Written:
    """A draft as a text; what several properties ask for is worked out once."""

    def __init__(self, draft: Draft, document: Document) -> None:
        self.draft, self.document = draft, document
        self.at = cache(self._at)
        self.fixed = cache(self._fixed)

    def judge(self, document: Document) -> Report:
        """What `check` says of a text in its place."""
        return self.at(document, self.draft.target, self.draft.world_size)

    def _at(self, document: Document, release: str, world_size: int | None) -> Report:
        """The same at one release and world size."""
        target = releases_of(release)
        return check_document(document, target, world_size=world_size, consumer=self.draft.consumer)

    def _fixed(self, *, unsafe: bool) -> FixedText:
        """The document fixed."""
        return fix_document(self.document, self.judge, unsafe=unsafe)

    def again(self, text: str) -> Document:
        """Another text in the place of the document's."""
        return read_text(text, format=self.document.format)

    def views(self) -> Iterator[tuple[str, int | None]]:
        """Releases and world sizes at which the config may be run, as far as the check does not know them."""
        names = self.draft.chosen.releases
        sizes = SIZES if self.draft.world_size is None else (self.draft.world_size,)
        for release in dict.fromkeys((names[0], names[len(names) // 2], names[-1])):
            yield from ((release, size) for size in sizes)


Property = Callable[[Written], "Iterator[str]"]
PROPERTIES: dict[str, Property] = {}


def prop(check: Property) -> Property:
    """Register a property under its name; it yields what is wrong with a case."""
    PROPERTIES[check.__name__.replace("_", "-")] = check
    return check


def refused(report: Report) -> set[str]:
    """The errors in it, shown or suppressed."""
    return {each.code for each in (*report.diagnostics, *report.suppressed) if each.severity == "error"}


def steps(applied: Sequence[Diagnostic]) -> str:
    """What was done, for the reader of a violation."""
    return "; ".join(f"{each.code} {each.fix.title} (safe: {each.fix.safe})" for each in applied if each.fix)


@prop
def idempotent(case: Written) -> Iterator[str]:
    """A second run changes nothing."""
    for unsafe in (False, True):
        once = case.fixed(unsafe=unsafe)
        twice = fix_document(case.again(once.text), case.judge, unsafe=unsafe)
        if twice.text != once.text:
            yield f"{steps(once.applied)}, then {steps(twice.applied)}:\n{twice.text}"


@prop
def no_new_finding(case: Written) -> Iterator[str]:
    """What is found after all fixes was there before, where the text could be read."""
    if any(problem.rejected_by for problem in case.document.problems):
        return
    before = case.judge(case.document)
    for unsafe in (False, True):
        fixed = case.fixed(unsafe=unsafe)
        known = {each.code for each in (*before.diagnostics, *before.suppressed)}
        if new := {each.code for each in fixed.report} - known:
            yield f"{', '.join(sorted(new))} after {steps(fixed.applied)}:\n{fixed.text}"


@prop
def shown_fixes_hold(case: Written) -> Iterator[str]:
    """Each fix that is shown can be made alone, says what it means, and brings nothing."""
    report = verify_fixes_of_reports(case.judge(case.document))
    for found in report:
        if found.fix is None:
            continue
        after = case.again(apply_edits(case.document.text, edits_for_fix(case.document, found.fix)))
        if not are_equal_for_parsers(
            after.value(), apply_operations_to_value(case.document.value(), found.fix.operations)
        ):
            yield f"{found.code} {found.fix.title} does not say what it means:\n{after.text}"
        textual = any(problem.rejected_by for problem in case.document.problems)
        if not textual and do_operations_harm(report, case.judge(after), found.fix.operations):
            yield f"{found.code} {found.fix.title} brings something:\n{after.text}"


@prop
def accepted_stays_accepted(case: Written) -> Iterator[str]:
    """No fix makes a release, at any world size, refuse what it takes."""
    for unsafe in (False, True):
        fixed = case.fixed(unsafe=unsafe)
        if fixed.text == case.document.text:
            continue
        after = case.again(fixed.text)
        for release, size in case.views():
            if refused(case.at(case.document, release, size)):
                continue
            if new := refused(case.at(after, release, size)):
                yield f"{new} at {release}, {size} ranks, after {steps(fixed.applied)}:\n{fixed.text}"


@prop
def safe_fixes_keep_values(case: Written) -> Iterator[str]:
    """Batch triplet and effective values are the same after safe fixes, wherever the config is taken."""
    fixed = case.fixed(unsafe=False)
    if fixed.text == case.document.text:
        return
    after = case.again(fixed.text)
    for release, size in case.views():
        if refused(case.at(case.document, release, size)):
            continue
        old, new = (values(each, case.draft.consumer, release, size) for each in (case.document, after))
        unused = {path for path in old if path.startswith(unread(fixed.applied))}
        if found := differing({key: old[key] for key in old.keys() - unused}, new, unused):
            yield f"{found} at {release}, {size} ranks, after {steps(fixed.applied)}:\n{fixed.text}"


def values(document: Document, consumer: str, release: str, size: int | None) -> dict[str, Json]:
    """What `show` says counts; what an old `bfloat16` says counts as `bf16`."""
    try:
        shown = effective_values_of(document, size, release, consumer, every=True)
    except ResolveError as error:
        return {"": str(error.reason)}
    found = {each.key: each.value for each in shown.values if each.origin != "ignored"}
    if consumer in HUGGING_FACE:
        found.pop("steps_per_print", None)  # Accelerate overwrites it, whatever is written
    if isinstance(found.get("zero_optimization"), bool):  # the old form of a stage
        found["zero_optimization.stage"] = int(found.pop("zero_optimization"))
    if found.get(_CURVE) not in (None, "linear"):
        found[_CURVE] = "log"  # runtime/lr_schedules.py, `WarmupLR.__init__`: whatever else is written
    return {key: value for key, value in found.items() if not key.startswith("bfloat16.")}


_CURVE = "scheduler.params.warmup_type"


def unread(applied: Sequence[Diagnostic]) -> tuple[str, ...]:
    """Keys taken out because nothing comes of them, and old names: what they said counts under the new one.

    Real releases judge that in `tests.parity.fixes`.
    """
    gone = (Effect.IGNORED, Effect.DEPRECATED)
    fixes = [each.fix for each in applied if each.effect in gone and each.fix]
    return tuple(
        dotted_path(step.path)
        for fix in fixes
        for step in fix.operations
        if isinstance(step, RemoveKey | RenameKey)
    )


def differing(old: dict[str, Json], new: dict[str, Json], unused: Collection[str] = ()) -> str:
    """The first key that counts otherwise; true is 1, and what counts as true may be written `true`."""
    for key in sorted((old.keys() | new.keys()) - set(unused)):
        if not counts_alike(old.get(key), new.get(key)):
            return f"{key}: {old.get(key)!r} became {new.get(key)!r}"
    return ""


def counts_alike(old: Json, new: Json) -> bool:
    """Whether nobody can tell two values apart by calculating with them or asking whether they are true."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return all(map(counts_alike, old, new))
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return all(counts_alike(old[key], new[key]) for key in old)
    true = isinstance(old, bool) or isinstance(new, bool)
    return are_equal_for_parsers(old, new) or (true and (old == new or bool(old) == new))


@prop
def formats_agree(case: Written) -> Iterator[str]:
    """JSON, Hjson and YAML of the same data: the same findings at the same keys, and the same fixed data."""
    config, spread = whole(case.draft.config), Random(repr(case.draft))
    if "sequence_parallel_size" in config:
        return  # DeepSpeed looks for it in a file alone (runtime/config.py, `DeepSpeedConfig.__init__`)
    texts: list[tuple[Format, str]] = [
        ("json", json.dumps(config, indent=spread.choice((None, 2, "\t")))),
        ("yaml", yaml_writing.yaml(config, spread)),
    ]
    # DeepSpeed reads Hjson since 0.8.1.
    if case.draft.consumer == "deepspeed" and NUMBERS[case.draft.chosen.releases[0]] >= NUMBERS["0.8.1"]:
        texts.append(("json", writing.hjson(config, spread)))
    first: tuple[object, Json] | None = None
    for form, text in texts:
        document = read_text(text, format=form)
        if not are_equal_for_parsers(document.value(), config):
            continue
        report = case.judge(document)
        found = sorted((each.code, dotted_path(each.path), each.effect.value) for each in _of_values(report))
        fixed = read_text(fix_document(document, case.judge, unsafe=True).text, format=form).value()
        if first is None:
            first = found, fixed
        elif found != first[0]:
            yield f"{set(map(str, found)) ^ set(map(str, first[0]))} in\n{text}"  # type: ignore[call-overload]
        elif not are_equal_for_parsers(fixed, first[1]):
            yield f"fixed to {fixed!r} and to {first[1]!r}, in\n{text}"


def _of_values(report: Report) -> list[Diagnostic]:
    return [each for each in report if not each.code.startswith("DSC0")]


def whole(value: Json) -> Json:
    """The data with integers in place of whole floats: Hjson reads `4.0` as 4."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and abs(value) < 1e10 and int(value) == value else value


def written(draft: Draft, spread: Random) -> Written:
    """The draft in one of the formats that its consumer reads."""
    form: Format = "yaml" if spread.random() < 0.25 else "json"
    if form == "yaml":
        text = yaml_writing.yaml(draft.config, spread)
    else:
        text = (writing.plain if spread.random() < 0.5 else writing.hjson)(draft.config, spread)
    return Written(draft, read_text(text, format=form))


class Violation(NamedTuple):
    """A case in which a property does not hold."""

    name: str
    case: Written
    wrong: str


def violations(names: Collection[str], cases: int, seed: int) -> Iterator[Violation]:
    """What does not hold of these properties; each case is tried with all of them in turn."""
    spread = Random(f"written {seed}")
    for draft in drafts(cases, seed):
        case = written(draft, spread)
        for name in names:
            yield from (Violation(name, case, wrong) for wrong in PROPERTIES[name](case))


def main(arguments: Sequence[str] | None = None) -> int:
    """Hold the properties against generated configs, and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.properties", description=__doc__)
    parser.add_argument("--property", action="append", choices=PROPERTIES)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    options = parser.parse_args(arguments)
    names = options.property or list(PROPERTIES)
    found = sorted(
        violations(names, options.cases, options.seed), key=lambda each: len(each.case.document.text)
    )
    print(f"{options.cases} configs, {time.process_time():.0f} s of CPU")
    for name in names:
        wrong = [each for each in found if each.name == name]
        print(f"{name}: {len(wrong)} violations")
        for _, case, what in wrong[: options.show]:
            print(f"--- {case.draft[1:]} {case.document.format}\n{case.document.text}\n=> {what}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
