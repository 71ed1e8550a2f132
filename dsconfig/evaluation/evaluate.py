"""Runs every rule for one release, and says for which neighbouring releases the outcome is the same."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from dsconfig.consumers import launch_file
from dsconfig.diagnostic import Effect
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, Finding, SkipRule, Source
from dsconfig.evaluation.rule import RULES, Rule


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings of one evaluation; they hold for every release from number `low` up to `high`,
    exclusive.
    """

    findings: tuple[tuple[Rule, Finding], ...]
    low: int
    high: int
    context: Context
    """What the rules saw."""
    autos: int = 0
    """Values "auto" that another consumer than this one would fill."""


def evaluate(source: Source, release: int) -> Outcome:
    """What every rule finds at the release with this number."""
    context = Context(source, release)
    kind = "launch" if context.is_launch else "config" if context.is_config else "text"
    rules, low, high = applicable(release, kind)
    findings = list(_found(rules, context))
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        inner = _of_block(context, release)
        findings += inner.findings
        low, high = max(low, inner.low), min(high, inner.high)
    if any(rule.code == TEMPLATE for rule, _ in findings):
        findings = list(_template_alone(context, findings))
    return Outcome(
        tuple(_one_per_cause(findings)),
        max(low, context.low, context.walk.low),
        min(high, context.high, context.walk.high),
        context,
        sum(1 for event in context.walk.autos if event.key and event.key.info.fills),
    )


def _of_block(context: Context, release: int) -> Outcome:
    """What is to be said of the config that Accelerate makes of a launch file's block, at its keys."""
    made = launch_file.config(context.data)
    if made is None:
        return Outcome((), 0, 10**10, context)
    outcome = evaluate(Source(read_dict(made), context.consumer, context.world_size), release)
    findings = []
    for rule, finding in outcome.findings:
        place = launch_file.place(finding.path, context.data)
        if place is not None:
            findings.append((rule, replace(finding, path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.low, outcome.high, context)


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
    return tuple(sorted({0, 10**10, *(rule.first for rule in RULES.values()), *_ends()}))


def _ends() -> Iterator[int]:
    return (rule.last + 1 for rule in RULES.values())


def applicable(release: int, kind: str = "config") -> tuple[tuple[Rule, ...], int, int]:
    """The rules for a release and a kind of root (config, launch file, or text that is neither), and the span
    of releases that have just these.
    """
    borders = _borders()
    index = bisect_right(borders, release)
    low, high = borders[index - 1], borders[index]
    return _applicable(low, kind), low, high


@cache
def _applicable(low: int, kind: str) -> tuple[Rule, ...]:
    rules = (rule for rule in RULES.values() if rule.first <= low <= rule.last)
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
