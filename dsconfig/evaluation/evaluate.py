"""Runs every rule for one release, and says for which neighbouring releases the outcome is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dsconfig.consumers import launch_config
from dsconfig.diagnostic import Effect
from dsconfig.document import read_dict
from dsconfig.evaluation.applicable import applicable
from dsconfig.evaluation.causes import one_per_cause
from dsconfig.evaluation.context import Context, Finding, SkipRule, Source
from dsconfig.evaluation.rule import Rule
from dsconfig.releases import EVERY_RELEASE, Interval


class Outcome(NamedTuple):
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
    rules, alike = applicable(release, context.root)
    findings = list(_found(rules, context))
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        inner = _of_block(context, release)
        findings += inner.findings
        alike = alike.meet(inner.alike)
    return Outcome(
        tuple(one_per_cause(context, findings)),
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
            findings.append((rule, finding._replace(path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.alike, context)


def _found(rules: tuple[Rule, ...], context: Context) -> Iterator[tuple[Rule, Finding]]:
    for rule in rules:
        said: dict[Effect, int] = {}
        try:
            for found in rule.check(context):
                finding = found if found.effect else found._replace(effect=rule.effect)
                effect = finding.effect or rule.effect
                said[effect] = said.get(effect, 0) + 1
                if said[effect] <= context.most:
                    yield rule, finding
                else:
                    context.cut = True
        except SkipRule:
            continue
