"""One finding for each cause: which findings give way to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dsconfig.core.diagnostic import Effect
from dsconfig.evaluation.after_syntax_errors import certain
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import Rule

Found: TypeAlias = "tuple[Rule, Finding]"


def one_per_cause(context: Context, findings: list[Found]) -> list[Found]:
    """The findings without those that follow from others."""
    findings = [each for each in certain(context, findings) if not _is_of_filled(context, each[1])]
    if any(rule.reads == "template" for rule, _ in findings):
        findings = list(_template_alone(context, findings))
    return findings if len(findings) < 2 else _without_remarks(_without_consequences(findings))


def _is_of_filled(context: Context, finding: Finding) -> bool:
    """Whether it is a mild remark on an "auto" which the job fills: the value is in nobody's file."""
    if context.job is None or finding.effect not in (Effect.ALTERED, Effect.WASTEFUL):
        return False
    return any(finding.path == tuple(each.key.split(".")) for each in context.job.filled)


def _template_alone(context: Context, findings: list[Found]) -> Iterator[Found]:
    """The findings on the placeholders and on the text; all else follows from the placeholders."""
    refused = not context.document.readable(context.parser) or any(
        finding.effect is Effect.REJECTED for rule, finding in findings if rule.reads != "template"
    )
    for rule, finding in findings:
        if rule.reads == "template":
            yield rule, finding._replace(effect=Effect.REJECTED if refused else Effect.ALTERED)
        elif rule.reads == "text" and finding.effect is not Effect.REJECTED:
            yield rule, finding


def _without_consequences(findings: list[Found]) -> list[Found]:
    """Without what is absent only because it is misspelt or misplaced, unless the verdict depends on it.

    What stays for the verdict's sake has no fix: that would write the key beside the one that means it.
    """
    causes = {path: finding for _, finding in findings for path in finding.means}

    def follows(finding: Finding) -> bool:
        cause = causes.get(finding.lacks) if finding.lacks else None
        if cause is None:
            return False
        return finding.effect not in _GRAVE or cause.effect in (Effect.REJECTED, finding.effect)

    return [
        (rule, finding._replace(fix=None) if finding.lacks in causes else finding)
        for rule, finding in findings
        if not follows(finding)
    ]


def _without_remarks(findings: list[Found]) -> list[Found]:
    """Without what another finding at the same place says better.

    General remarks on a value's type give way to a rule that knows more of the same value, to a graver one
    and to the fact that nothing reads the key; that a key is out of date matters no more where it is refused.
    """
    specific = [finding for rule, finding in findings if not rule.general]
    grave = {finding.path for finding in specific if finding.effect in _GRAVE}
    mild = {finding.path for finding in specific if finding.effect in _MILD and finding.part == "value"}
    mild |= {finding.path for finding in specific if finding.effect is Effect.IGNORED}
    mild |= {finding.path for _, finding in findings if finding.effect in _GRAVE}
    refused_keys = {
        finding.path for finding in specific if finding.effect is Effect.REJECTED and finding.part == "key"
    }

    def gives_way(rule: Rule, finding: Finding) -> bool:
        if finding.effect is Effect.DEPRECATED and finding.path in refused_keys:
            return True
        return rule.general and (finding.path in grave or (finding.effect in _MILD and finding.path in mild))

    return [(rule, finding) for rule, finding in findings if not gives_way(rule, finding)]


_GRAVE = (Effect.REJECTED, Effect.CRASHES)
_MILD = (Effect.IGNORED, Effect.ALTERED)
