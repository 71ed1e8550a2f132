"""How a migration speaks of a key's value, and of the release that read it last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import dotted
from dsconfig.core.releases import NUMBERS, RELEASES
from dsconfig.model.keyinfo import find, is_secret

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

_LONGEST = 2000


def said(path: KeyPath, value: Json) -> str:
    """A value that is written nowhere any more, in full; but never a secret."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if is_secret(str(path[-1]), text if isinstance(value, dict | list) else ""):
        return "a value that may be secret, and is not shown"
    return f"`{text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}`"


def last_reader(path: KeyPath, origin: str, to: str) -> str | None:
    """The last release before `to` that reads the key; None where it is `origin` itself, or not known."""
    place = dotted(path)
    between = [each for each in RELEASES if NUMBERS[origin] < NUMBERS[each] < NUMBERS[to]]
    return next((each for each in reversed(between) if find(place, NUMBERS[each])[0] is not None), None)
