"""One evaluation for each class of releases that behave alike, and one finding over all that share it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Fix, Location, Move, Related, Rename
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import NUMBERS
from dsconfig.core.wording import in_yaml
from dsconfig.document.document import location, location_of
from dsconfig.evaluation.evaluate import Outcome, Said, evaluate
from dsconfig.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document import Document
    from dsconfig.evaluation.context import Finding, Source


class Merged(NamedTuple):
    """One finding over the releases that share it, newest first; its words are the newest release's."""

    rule: Rule
    finding: Finding
    releases: list[str]


def merged(source: Source, releases: tuple[str, ...]) -> tuple[list[Merged], Outcome, bool]:
    """The findings over all releases, the outcome at the newest, and whether there is more than was listed.

    The newest speaks for all in the notes.
    """
    found: dict[Hashable, Merged] = {}
    newest, cut = None, False
    left = list(releases)
    said: Said = {}
    while left:  # one evaluation for neighbours that behave alike, the newest first
        outcome = evaluate(source, NUMBERS[left[-1]], said)
        alike = [left.pop()]
        while left and NUMBERS[left[-1]] in outcome.alike:
            alike.append(left.pop())
        newest = newest or outcome
        cut = cut or outcome.context.cut
        for rule, finding in outcome.findings:
            _add(found, rule, finding, alike)
    assert newest is not None
    return list(found.values()), newest, cut


def _add(found: dict[Hashable, Merged], rule: Rule, finding: Finding, releases: list[str]) -> None:
    key = (rule.code, finding.path, finding.effect, finding.span, finding.part)
    known = found.setdefault(key, Merged(rule, finding, []))
    if known.finding.fix != finding.fix:  # what is right here may be wrong there
        known = found[key] = known._replace(finding=_with_unsafe_fix(known.finding, finding.fix))
    if not known.releases or known.releases[-1] != releases[-1]:
        known.releases.extend(releases)


def _with_unsafe_fix(finding: Finding, other: Fix | None) -> Finding:
    """The finding where another release has another fix, or none.

    A key that is taken under its new name here may not be there.
    """
    fix = finding.fix
    if fix is None or (other is None and any(isinstance(step, Rename | Move) for step in fix.operations)):
        return finding._replace(fix=None)
    return finding._replace(fix=fix._replace(safe=False))


def diagnostics(document: Document, found: Iterable[Merged]) -> list[Diagnostic]:
    """The findings as diagnostics, each with its place in the document."""
    return [
        Diagnostic(
            code=item.rule.code,
            name=item.rule.name,
            effect=item.finding.effect or item.rule.effect,
            message=item.finding.message,
            path=item.finding.path,
            help=_advice(document, item.finding.help),
            location=_place(document, item.finding),
            releases=tuple(reversed(item.releases)),
            related=_related(document, item.finding),
            fix=_titled(document, item.finding.fix),
        )
        for item in found
    ]


def _advice(document: Document, help: str | None) -> str | None:
    return in_yaml(help) if help and document.format == "yaml" else help


def _titled(document: Document, fix: Fix | None) -> Fix | None:
    return fix._replace(title=in_yaml(fix.title)) if fix and document.format == "yaml" else fix


def _related(document: Document, finding: Finding) -> tuple[Related, ...]:
    """The other places of a finding; not those of keys that nobody wrote, of which a label says "here"."""
    by_path = (
        Related(text, path, location_of(document, path))
        for text, path in finding.related
        if _is_written(document, path)
    )
    in_text = (Related(text, finding.path, location(document, span)) for text, span in finding.places)
    return (*by_path, *in_text)


def _is_written(document: Document, path: KeyPath) -> bool:
    if not document.is_data:
        return document.located(path)
    value: Json = document.value()
    for part in path:
        inside = isinstance(value, dict) and part in value
        if not inside and not (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            return False
        value = value[part]
    return True


def _place(document: Document, finding: Finding) -> Location | None:
    if finding.span is not None:
        return location(document, finding.span)
    return location_of(document, finding.path, finding.part)
