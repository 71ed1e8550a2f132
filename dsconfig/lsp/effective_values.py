"""What the values of a config come to: the effective ones, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.launch.located_config import locate
from dsconfig.lsp.config_range import scope
from dsconfig.resolve.effective import Shown, effective_in
from dsconfig.resolve.errors import ResolveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.lsp.snapshot import Judged
    from dsconfig.resolve.replaced_values import Value


def shown(judged: Judged, *, every: bool = False) -> Shown | None:
    """The effective values of the config in a text; None where they cannot be told."""
    job = judged.report.job
    try:
        return job and effective_in(locate(judged.text.document), job, every=every)
    except (ResolveError, OSError, ValueError):
        return None


def by_key(judged: Judged) -> Mapping[str, Value]:
    """The effective values by their dotted keys, told once of each version of a text."""
    if judged.values is None:
        found = None if scope(judged) is None else shown(judged)
        judged.values = {} if found is None else {value.key: value for value in found.values}
    return judged.values
