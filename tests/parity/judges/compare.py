"""Compares `dsconfig`'s verdict with DeepSpeed's: agreement, disagreements, and whether the key matches."""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dsconfig.resolve.errors import ResolveError
from tests.parity.generators import keyspace
from tests.parity.generators.case import CLASSES, Case
from tests.parity.judges.judging import Verdict

Checker = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One `rejected` diagnostic."""

    code: str
    path: tuple[Any, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.code} {'.'.join(map(str, self.path)) or '(root)'}: {self.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both verdicts on one case; `crash` is a traceback of ours, which is always a disagreement."""

    release: str
    case: Case
    verdict: Verdict
    findings: tuple[Finding, ...]
    crash: str | None = None
    triplet: tuple[Any, ...] | None = None

    @property
    def decided(self) -> bool:
        """Whether DeepSpeed came to a verdict."""
        return self.verdict.ok is not None

    @property
    def agrees(self) -> bool:
        """Rejected here exactly when DeepSpeed raises, and the same triplet where both go on."""
        if self.crash or bool(self.findings) == self.verdict.ok:
            return False
        return not self.verdict.ok or self.triplet is None or self.triplet == self.verdict.triplet

    @property
    def triplet_matches(self) -> bool | None:
        """Whether both derive the same batch triplet; None where either derives none."""
        return self.triplet == self.verdict.triplet if self.verdict.ok and self.triplet else None

    @property
    def place_matches(self) -> bool | None:
        """Whether a finding stands at a key that DeepSpeed's error names; None where it names none."""
        if self.verdict.ok is not False or not self.findings:
            return None
        named = {step for place in self.verdict.places for step in place}
        if not named:  # no pydantic error: keys of several words are recognised in the message itself
            named = {word for word in words(self.verdict.message or "") if "_" in word}
            named &= keyspace.names() & words(self.case.text or json.dumps(self.case.config))
        told = set().union(*(words(str(found)) for found in self.findings))
        return bool(words(" ".join(named)) & told) if named else None


def words(text: str) -> set[str]:
    """The words in a text, key names among them."""
    return set(re.findall(r"\w+", text))


def checker() -> Checker | None:
    """`dsconfig.check`, or None where this checkout has none."""
    found = getattr(importlib.import_module("dsconfig"), "check", None)
    return found if callable(found) else None


def resolver() -> Checker | None:
    """`dsconfig.resolve`, which gives the batch triplet, or None where this checkout has none."""
    found = getattr(importlib.import_module("dsconfig"), "resolve", None)
    return found if callable(found) else None


def outcome(
    release: str, case: Case, verdict: Verdict, check: Checker | None, consumer: str = "deepspeed"
) -> Outcome:
    """Asks `dsconfig` about a case that DeepSpeed has judged."""
    if check is None:
        return Outcome(release, case, verdict, ())
    try:
        options = {"target": release, "world_size": case.world_size, "consumer": consumer}
        report = check(case.source, **options)
        found = (*report.diagnostics, *report.suppressed)
        findings = tuple(Finding(d.code, tuple(d.path), d.message) for d in found if d.effect == "rejected")
        triplet = _triplet(case, release) if verdict.ok and verdict.triplet else None
    except Exception as error:
        return Outcome(release, case, verdict, (), crash=f"{type(error).__name__}: {error}")
    return Outcome(release, case, verdict, findings, triplet=triplet)


def _triplet(case: Case, release: str) -> tuple[Any, ...] | None:
    resolve = resolver()
    if resolve is None:
        return None
    try:
        run = resolve(case.source, target=release, world_size=case.world_size, consumer="deepspeed")
    except ResolveError as error:
        if {found.effect.value for found in error.diagnostics} == {"crashes"}:
            return None  # an engine would stop: `resolve` ends with that
        raise
    return (run.train_batch_size, run.train_micro_batch_size_per_gpu, run.gradient_accumulation_steps)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Agreement by class and form, then by verdict."""
    yield f"{'':24}{'cases':>7}{'raise':>8}{'agree':>9}{'missed':>8}{'alarms':>8}"
    names = [*CLASSES, "corpus"]
    rows = [(f"{kind}, {form}", kind, form) for kind in names for form in ("dict", "text")]
    for title, kind, form in rows:
        chosen = [o for o in outcomes if o.case.kind == kind and o.case.form == form]
        if chosen:
            yield row(title, chosen)
    for title, ok in (("DeepSpeed accepts", True), ("DeepSpeed raises", False)):
        chosen = [o for o in outcomes if o.verdict.ok is ok]
        if chosen:
            yield row(title, chosen)
    yield row("all", outcomes)


def row(title: str, outcomes: Sequence[Outcome]) -> str:
    """One line of the table; undecided cases count nowhere."""
    decided = [o for o in outcomes if o.decided]
    raising = sum(o.verdict.ok is False for o in decided)
    missed = sum(o.verdict.ok is False and not o.agrees for o in decided)
    alarms = sum(o.verdict.ok is True and not o.agrees for o in decided)
    total = len(decided) or 1
    undecided = len(outcomes) - len(decided)
    note = f"  ({undecided} undecided)" if undecided else ""
    return (
        f"{title:24}{len(decided):7}{raising / total:8.1%}{agreement(decided):9.2%}{missed:8}{alarms:8}{note}"
    )


def agreement(outcomes: Sequence[Outcome]) -> float:
    """The share of decided cases on which both agree."""
    decided = [o for o in outcomes if o.decided]
    return sum(o.agrees for o in decided) / len(decided) if decided else 1.0


def describe(outcome: Outcome, width: int = 700) -> Iterator[str]:
    """What there is to know of one case."""
    case, verdict = outcome.case, outcome.verdict
    config = repr(case.text) if case.text is not None else json.dumps(case.config)
    yield f"--- {outcome.release} {case.id} [{case.label}] as {case.form} at world size {case.world_size}"
    yield f"    {config if len(config) <= width else config[:width] + ' …'}"
    if verdict.ok:
        yield f"    DeepSpeed accepts, triplet {verdict.triplet}"
    else:
        message = " ".join((verdict.message or "").split())
        yield f"    DeepSpeed ({verdict.stage}): {verdict.error}: {message[:300]}"
    if outcome.crash:
        yield f"    dsconfig CRASHED: {outcome.crash}"
    elif outcome.triplet and outcome.triplet != verdict.triplet:
        yield f"    dsconfig resolves the triplet to {outcome.triplet}"
    yield from (f"    dsconfig: {finding}" for finding in outcome.findings)
    if not outcome.findings and not outcome.crash:
        yield "    dsconfig rejects nothing"


def causes(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The disagreements counted by what DeepSpeed said, or by our codes where it said nothing."""
    counts: Counter[str] = Counter()
    for found in outcomes:
        if not found.decided or found.agrees:
            continue
        if found.crash:
            counts[f"crash: {found.crash[:80]}"] += 1
        elif found.verdict.ok:
            counts[f"alarm: {found.findings[0].code if found.findings else 'triplet'}"] += 1
        else:
            message = " ".join((found.verdict.message or "").split())
            counts[f"missed: {found.verdict.raised_at} {found.verdict.error}: {message[:80]}"] += 1
    for cause, count in counts.most_common(12):
        yield f"{count:5}  {cause}"
