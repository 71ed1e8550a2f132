"""Runs every rule for one release, and says for which neighbouring releases the outcome is the same."""

from __future__ import annotations

from typing import TypeAlias

from dsconfig.consumers import accelerate_launch_config
from dsconfig.core.diagnostic import Effect, clipped, dotted
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.core.releases import EVERY_RELEASE, Interval
from dsconfig.document import read_dict
from dsconfig.evaluation.context import Context, Finding, SkipRule, Source
from dsconfig.evaluation.deduplicate import one_per_cause
from dsconfig.evaluation.prefilter import asked, present
from dsconfig.evaluation.rule import DECLARED, Rule
from dsconfig.evaluation.rules_for_release import applicable


class Outcome(NamedTuple):
    """The findings of one evaluation."""

    findings: tuple[tuple[Rule, Finding], ...]
    alike: Interval
    """Releases of which the findings are the same."""
    context: Context
    """What the rules saw."""
    autos: int = 0
    """Values "auto" that another consumer than this one would fill."""


Said: TypeAlias = "dict[str, list[tuple[Interval, tuple[Finding, ...]]]]"
"""By code, what rules that look at the text alone said of it, and to which releases."""
_LONGEST = 4000
"""Characters of a message or a help: a key of 30,000 in 1,000 findings would take 30 MB."""


def evaluate(source: Source, release: int, said: Said | None = None) -> Outcome:
    """What every rule finds at the release with this number; `said` is kept for the next one."""
    context = Context(source, release)
    rules, alike = applicable(release, context.root)
    findings: list[tuple[Rule, Finding]] = []
    there, told = present(context, asked(rules)), {} if said is None else said
    for rule in rules:
        if rule.asks is None or not there.isdisjoint(rule.asks):
            once = rule.reads in ("text", "launch file", "job")
            found = _of_text(rule, context, told) if once else _findings(rule, context)
            if found:
                findings += [(rule, each) for each in found if not _is_overwritten(context, rule, each)]
    if context.is_launch and not any(finding.effect is Effect.REJECTED for _, finding in findings):
        inner = _of_block(context, release)
        findings += inner.findings
        alike = alike.meet(inner.alike)
    return Outcome(
        tuple(one_per_cause(context, findings)),
        alike.meet(context.alike).meet(context.walk.alike),
        context,
        sum(
            1
            for entry in context.walk.autos
            if entry.key.info.fills and context.overwrite(dotted(entry.path)) is None
        ),
    )


def _is_overwritten(context: Context, rule: Rule, finding: Finding) -> bool:
    """Whether a finding is about a value that a program of the repository replaces."""
    if not context.is_watched or context.root != "config" or rule.reads != "config":
        return False
    path = finding.lacks or finding.path
    if not path or path == ("$dsconfig",) or not all(isinstance(part, str) for part in path):
        return False
    return context.overwrite(dotted(path)) is not None


def _of_block(context: Context, release: int) -> Outcome:
    """What is to be said of the config that Accelerate makes of a launch file's block, at its keys."""
    made = accelerate_launch_config.config(context.data, context.version)
    if made is None:
        return Outcome((), EVERY_RELEASE, context)
    outcome = evaluate(
        Source(read_dict(made), context.spec, context.world_size, known=context.known), release
    )
    findings = []
    for rule, finding in outcome.findings:
        place = accelerate_launch_config.place(finding.path, context.data)
        if place is not None and _is_made(made, finding.path):  # else the block's own rules speak of it
            findings.append((rule, finding._replace(path=place, related=(), fix=None, span=None)))
    return Outcome(tuple(findings), outcome.alike, context)


def _is_made(made: Json, path: KeyPath) -> bool:
    for part in path:
        if not isinstance(made, dict) or part not in made:
            return False
        made = made[part]
    return True


def _readable(finding: Finding) -> Finding:
    """The finding, with words that somebody reads, however long a key of the file is that they name."""
    words = finding.help or ""
    if len(finding.message) > _LONGEST or len(words) > _LONGEST:
        message, words = clipped(finding.message, _LONGEST), clipped(words, _LONGEST)
        return finding._replace(message=message, help=words or None)
    return finding


def _of_text(rule: Rule, context: Context, said: Said) -> tuple[Finding, ...]:
    """What a rule says that looks at what is written alone: most of these say the same of all releases."""
    known = said.setdefault(rule.code, [])
    for alike, findings in known:
        if context.release in alike:
            context.alike = context.alike.meet(alike)
            return findings
    before, context.alike = context.alike, context.reading
    findings = tuple(_findings(rule, context))
    known.append((context.alike, findings))
    context.alike = before.meet(context.alike)
    return findings


def _findings(rule: Rule, context: Context) -> list[Finding]:
    """What a rule says, with its effect; of each effect no more than is listed."""
    found: list[Finding] = []
    many: dict[Effect, int] = {}
    declared = DECLARED.get(rule.code) or rule.declared  # without a call where it is imported already
    try:
        for finding in declared.check(context):
            effect = finding.effect or rule.effect
            many[effect] = many.get(effect, 0) + 1
            if many[effect] <= context.most:
                found.append(_readable(finding if finding.effect else finding._replace(effect=effect)))
            else:
                context.cut = True
    except SkipRule:
        pass
    return found
