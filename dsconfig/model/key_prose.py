"""What each key does and what its words stand for, without the model behind it: what editors show at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.model._prose import MEANS, OWNERS, PROSE

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.model.keyinfo import KeyInfo


def prose_of(info: KeyInfo) -> str:
    """What the key does."""
    owners = OWNERS.get(info.section, (info.section,))
    return next((PROSE[owner][info.name] for owner in owners if info.name in PROSE[owner]), "")


def meaning(info: KeyInfo, word: Json) -> str:
    """What a word of the key stands for; empty where nothing is said of it."""
    known = MEANS.get(info.section, {}).get(info.name, ())
    # True equals 1, and a stage is not a switch.
    return next((told for each, told in known if each == word and type(each) is type(word)), "")
