"""What the values of a config come to: the effective ones, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.config_range import scope
from dsconfig.resolve.effective import Shown, effective
from dsconfig.resolve.errors import ResolveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.lsp.snapshot import Judged
    from dsconfig.resolve.provenance import Value


def shown(judged: Judged, *, every: bool = False) -> Shown | None:
    """The effective values of the config in a text; None where they cannot be told."""
    report, document = judged.report, judged.text.document
    try:
        return effective(document, judged.world_size, report.target, report.reader.said, every=every)
    except (ResolveError, OSError, ValueError):
        return None


def by_key(judged: Judged) -> Mapping[str, Value]:
    """The effective values by their dotted keys, told once of each version of a text."""
    if judged.values is None:
        found = None if scope(judged) is None else shown(judged)
        judged.values = {} if found is None else {value.key: value for value in found.values}
    return judged.values
