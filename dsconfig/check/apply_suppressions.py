"""Parts the findings into those that stay and those that the file itself silences.

Suppression comes after the verdict: what is silenced is kept apart, never lost. A suppression that silences
nothing is itself a finding (DSC008), so that none outlives its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dsconfig.check.parse_suppressions import CODE, Place, Suppression, finding, places, written
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.json_types import NamedTuple
from dsconfig.evaluation.context import MOST

if TYPE_CHECKING:
    from dsconfig.document import Document


class Silenced(NamedTuple):
    """The findings that stay, those that are silenced, and the findings about the suppressions."""

    kept: tuple[Diagnostic, ...]
    suppressed: tuple[Diagnostic, ...]
    unused: tuple[Diagnostic, ...]
    cut: bool
    """Whether there is more to find than is listed."""


def apply(document: Document, diagnostics: Sequence[Diagnostic], *, cut: bool = False) -> Silenced:
    """Part the findings into those that are kept and those that the document silences.

    `cut`: there are more than these, so that nobody knows what a suppression silences.
    """
    found = list(written(document))
    if not found:
        return Silenced(tuple(diagnostics), (), (), cut)
    entries = [entry for entry in found if isinstance(entry, Suppression)]
    silencers = _Silencers(entries)
    kept: list[Diagnostic] = []
    suppressed: list[Diagnostic] = []
    for each in diagnostics:
        (suppressed if silencers.silence(each) else kept).append(each)
    about = [entry for entry in found if isinstance(entry, Diagnostic)]
    idle = [entry for entry in entries if not silencers.serves(entry, cut=cut)]
    about += [_unused(entry, silencers) for entry in idle[: MOST + 1]]
    unused: list[Diagnostic] = []
    for each in about[:MOST]:
        (suppressed if silencers.silence(each) else unused).append(each)
    return Silenced(tuple(kept), tuple(suppressed), tuple(unused), cut or len(about) > MOST)


class _Silencers:
    """The suppressions by the place that they cover, each selector once."""

    def __init__(self, entries: Iterable[Suppression]) -> None:
        from dsconfig.check.rule_selector import catalogue, match

        self.rules = catalogue()
        self.codes = {each: match(each, self.rules) for each in {entry.selector for entry in entries}}
        self.at: dict[Place, set[str]] = {}
        self.used: set[tuple[Place, str]] = set()
        for entry in entries:
            if self.codes[entry.selector]:
                self.at.setdefault(entry.place, set()).add(entry.selector)
        self.lengths = {len(place) for place in self.at if isinstance(place, str)}

    def silence(self, found: Diagnostic) -> bool:
        """Whether a suppression covers the finding; all that do are used."""
        silencing = list(self._covering(found))
        self.used.update(silencing)
        return bool(silencing)

    def _covering(self, found: Diagnostic) -> Iterator[tuple[Place, str]]:
        for place in places(found, self.lengths):
            for selector in self.at.get(place, ()):
                if found.code in self.codes[selector]:
                    yield place, selector

    def serves(self, entry: Suppression, *, cut: bool) -> bool:
        """Whether the suppression is used, or speaks of findings like the one that it is unused."""
        codes = self.codes[entry.selector]
        return (entry.place, entry.selector) in self.used or CODE in codes or (cut and bool(codes))


def _unused(entry: Suppression, silencers: _Silencers) -> Diagnostic:
    from dsconfig.check.rule_selector import suggest

    said = f"the suppression `{entry.selector}`"
    if silencers.codes[entry.selector]:
        return finding(f"{said} silences nothing", entry.path, entry.location)
    hint = suggest(entry.selector, silencers.rules)
    return finding(f"{said} names no rule{hint}", entry.path, entry.location)
