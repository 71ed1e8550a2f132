"""Parts the findings into those that stay and those that the file itself silences.

Suppression comes after the verdict: what is silenced is kept apart, never lost. A suppression that silences
nothing is itself a finding (DSC008), so that none outlives its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.checking.suppressions import CODE, Suppression, finding, written
from dsconfig.diagnostic import Diagnostic

if TYPE_CHECKING:
    from dsconfig.document import Document


class Silenced(NamedTuple):
    """The findings that stay, those that are silenced, and the findings about the suppressions."""

    kept: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...]
    unused: tuple[Diagnostic, ...]


def apply(document: Document, diagnostics: Sequence[Diagnostic]) -> Silenced:
    """Part the findings into those that are kept and those that the document silences."""
    found = list(written(document))
    if not found:
        return Silenced(tuple(diagnostics), (), ())
    entries = [entry for entry in found if isinstance(entry, Suppression)]
    malformed = [entry for entry in found if isinstance(entry, Diagnostic)]
    return _part(diagnostics, entries, malformed)


def _part(
    diagnostics: Sequence[Diagnostic], entries: list[Suppression], malformed: list[Diagnostic]
) -> Silenced:
    from dsconfig.checking.select import catalogue, match

    rules = catalogue()
    codes = {entry: match(entry.selector, rules) for entry in entries}
    kept: list[Diagnostic] = []
    suppressed: list[Diagnostic] = []
    used: set[Suppression] = set()
    for found in diagnostics:
        silencing = [entry for entry in entries if found.code in codes[entry] and entry.covers(found)]
        used.update(silencing)
        (suppressed if silencing else kept).append(found)
    unused: list[Diagnostic] = []
    idle = [entry for entry in entries if entry not in used and CODE not in codes[entry]]
    for found in malformed + [_unused(entry, codes[entry], rules) for entry in idle]:
        silent = any(CODE in codes[entry] and entry.covers(found) for entry in entries)
        (suppressed if silent else unused).append(found)
    return Silenced(tuple(kept), tuple(suppressed), tuple(unused))


def _unused(entry: Suppression, codes: frozenset[str], rules: Mapping[str, str]) -> Diagnostic:
    from dsconfig.checking.select import suggest

    if codes:
        return finding(f"the suppression `{entry.selector}` silences nothing", entry.path, entry.location)
    hint = suggest(entry.selector, rules)
    return finding(f"the suppression `{entry.selector}` names no rule{hint}", entry.path, entry.location)
