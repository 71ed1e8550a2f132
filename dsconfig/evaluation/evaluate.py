"""Runs every rule for one release, and says for which neighbouring releases the outcome is the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from dsconfig.consumers import launch_config
from dsconfig.diagnostic import Effect
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, Finding, SkipRule, Source
from dsconfig.evaluation.rule import RULES, Rule
from dsconfig.releases import EVERY_RELEASE, NEVER, Interval


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings of one evaluation."""

    findings: tuple[tuple[Rule, Finding], ...]
    alike: Interval
    """Releases of which the findings are the same."""
    context: Context
    """What the rules saw."""
    autos: int = 0
    """Values "auto" that another consumer than this one would fill."""


def evaluate(source: Source, release: int) -> Outcome:
    """What every rule finds at the release with this number."""
    context = Context(source, release)
    kind = "launch" if context.is_launch else "config" if context.is_config else "text"
    rules, alike = applicable(release, kind)
    findings = list(_found(rules, context))
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        inner = _of_block(context, release)
        findings += inner.findings
        alike = alike.meet(inner.alike)
    if any(rule.code == TEMPLATE for rule, _ in findings):
        findings = list(_template_alone(context, findings))
    return Outcome(
        tuple(_one_per_cause(findings)),
        alike.meet(context.alike).meet(context.walk.alike),
        context,
        sum(1 for entry in context.walk.autos if entry.key.info.fills),
    )


def _of_block(context: Context, release: int) -> Outcome:
    """What is to be said of the config that Accelerate makes of a launch file's block, at its keys."""
    made = launch_config.config(context.data)
    if made is None:
        return Outcome((), EVERY_RELEASE, context)
    outcome = evaluate(Source(read_dict(made), context.consumer, context.world_size), release)
    findings = []
    for rule, finding in outcome.findings:
        place = launch_config.place(finding.path, context.data)
        if place is not None:
            findings.append((rule, replace(finding, path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.alike, context)


def _found(rules: tuple[Rule, ...], context: Context) -> Iterator[tuple[Rule, Finding]]:
    for rule in rules:
        try:
            for finding in rule.check(context):
                yield rule, finding if finding.effect else replace(finding, effect=rule.effect)
        except SkipRule:  # noqa: PERF203  a generator of its own for each rule would cost more
            continue


TEMPLATE = "DSC007"
"""The rule of unfilled placeholders."""


def _template_alone(context: Context, findings: list[tuple[Rule, Finding]]) -> Iterator[tuple[Rule, Finding]]:
    """What is to be said of a template's text; all else follows from its placeholders."""
    refused = not context.document.readable(context.parser) or any(
        finding.effect is Effect.REJECTED for rule, finding in findings if rule.code != TEMPLATE
    )
    for rule, finding in findings:
        if rule.code == TEMPLATE:
            yield rule, replace(finding, effect=Effect.REJECTED if refused else Effect.ALTERED)
        elif rule.of_text and finding.effect is not Effect.REJECTED:
            yield rule, finding


@cache
def _borders() -> tuple[int, ...]:
    """First releases from which another set of rules applies, ascending, with an end beyond all."""
    intervals = [rule.releases for rule in RULES.values()]
    return tuple(sorted({0, NEVER, *(first for first, _ in intervals), *(last + 1 for _, last in intervals)}))


def applicable(release: int, kind: str = "config") -> tuple[tuple[Rule, ...], Interval]:
    """The rules for a release and a kind of root, and the releases that have just these.

    The root is a `config`, a `launch` file, or `text` that is neither.
    """
    borders = _borders()
    index = bisect_right(borders, release)
    alike = Interval(borders[index - 1], borders[index] - 1)
    return _applicable(alike.first, kind), alike


@cache
def _applicable(release: int, kind: str) -> tuple[Rule, ...]:
    rules = (rule for rule in RULES.values() if release in rule.releases)
    if kind == "config":
        return tuple(rule for rule in rules if not rule.of_launch)
    return tuple(rule for rule in rules if rule.of_text or (rule.of_launch and kind == "launch"))


def _one_per_cause(findings: list[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """Without the general remarks on a value's type where a rule knows more of the same value."""
    if len(findings) < 2:
        return findings
    particular = {
        finding.path
        for rule, finding in findings
        if not rule.general and finding.effect in (Effect.REJECTED, Effect.CRASHES)
    }
    milder = {
        finding.path
        for rule, finding in findings
        if not rule.general and finding.effect in _MILD and finding.part == "value"
    }
    return [
        (rule, finding)
        for rule, finding in findings
        if not rule.general
        or not (finding.path in particular or (finding.effect in _MILD and finding.path in milder))
    ]


_MILD = (Effect.IGNORED, Effect.ALTERED)
