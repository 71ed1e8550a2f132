"""Runs every rule for one release, and says for which neighbouring releases the outcome is the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from dsconfig import launch_file
from dsconfig.diagnostic import Effect
from dsconfig.document import read_dict
from dsconfig.rules._context import Context, Finding, SkipRule, Source
from dsconfig.rules._rule import RULES, Rule


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings of one evaluation; they hold for every release from number `low` up to `high`,
    exclusive.
    """

    findings: tuple[tuple[Rule, Finding], ...]
    low: int
    high: int


def evaluate(source: Source, release: int) -> Outcome:
    """What every rule finds at the release with this number."""
    context = Context(source, release)
    rules, low, high = applicable(release)
    rules = _fitting(rules, "launch" if context.is_launch else "config" if context.is_config else "text")
    findings = [(rule, finding) for rule in rules for finding in _run(rule, context)]
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
    )


@cache
def _fitting(rules: tuple[Rule, ...], root: str) -> tuple[Rule, ...]:
    """The rules that look at a root of this kind: a config, a launch file, or text that is neither."""
    if root == "config":
        return tuple(rule for rule in rules if not rule.of_launch)
    return tuple(rule for rule in rules if rule.of_text or (rule.of_launch and root == "launch"))


def _of_block(context: Context, release: int) -> Outcome:
    """What is to be said of the config that Accelerate makes of a launch file's block, at its keys."""
    made = launch_file.config(context.data)
    if made is None:
        return Outcome((), 0, 10**10)
    outcome = evaluate(Source(read_dict(made), context.consumer, context.world_size), release)
    findings = []
    for rule, finding in outcome.findings:
        place = launch_file.place(finding.path, context.data)
        if place is not None:
            findings.append((rule, replace(finding, path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.low, outcome.high)


def _run(rule: Rule, context: Context) -> Iterator[Finding]:
    try:
        for finding in rule.check(context):
            yield finding if finding.effect else replace(finding, effect=rule.effect)
    except SkipRule:
        return


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
    found = {0}
    for rule in RULES.values():
        found.update((rule.first, rule.last + 1))
    return tuple(sorted(found))


def applicable(release: int) -> tuple[tuple[Rule, ...], int, int]:
    """The rules for the release, and the span of releases that have just these."""
    low = max(border for border in _borders() if border <= release)
    high = min((border for border in _borders() if border > release), default=10**10)
    return _applicable(low), low, high


@cache
def _applicable(low: int) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES.values() if rule.first <= low <= rule.last)


def _one_per_cause(findings: list[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """Without the general remarks on a value's type where a rule knows more of the same value."""
    if len(findings) < 2:
        return findings
    particular = {
        finding.path
        for rule, finding in findings
        if not rule.general and finding.effect in (Effect.REJECTED, Effect.CRASHES)
    }
    return [
        (rule, finding) for rule, finding in findings if not (rule.general and finding.path in particular)
    ]
