"""Sections that may stay closed: a wrong value in there stops nothing for sure.

The general rules of types say `crashes` only of a value that the engine certainly meets. Where a switch is
off, or where only a certain kind of model or a call in the script opens the section, what is written has no
effect until then; the rules of the domain know the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.evaluation.context import Context, SkipRule
from dsconfig.model.key import HALF, SCRIPT
from dsconfig.model.keyinfo import along
from dsconfig.rules._dtypes import model_format

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


def dormant(ctx: Context, path: KeyPath) -> bool:
    """Whether it is not certain that an engine looks at the path."""
    opener = next((info.opened_by for info in along(path[:2]) if info.opened_by), None)
    if opener is None or len(path) < 2 or path[-1] == "enabled":
        return False
    try:
        return not _opens(ctx, opener)
    except SkipRule:
        return True


def _opens(ctx: Context, opener: str) -> bool:
    if opener == HALF:
        return model_format(ctx) != "fp32"
    return opener != SCRIPT and ctx.on(opener)
