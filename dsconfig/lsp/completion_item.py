"""What completion offers: one key, value or block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsconfig.lsp.cursor import Cursor
    from dsconfig.lsp.insert_text import Hand
    from dsconfig.lsp.value_completions import Candidate

PROPERTY, VALUE, BLOCK = 10, 12, 15


class Offer(NamedTuple):
    """One thing to be offered."""

    label: str
    text: str
    kind: int
    told: str = ""
    detail: str = ""
    rank: int = 5
    """What is likelier comes first."""


def value_offer(each: Candidate, at: Cursor, hand: Hand, rank: int = 5) -> Offer:
    """The offer of one value."""
    text = hand.value(each.value, at.quote)
    label = each.value if isinstance(each.value, str) else text
    return Offer(label, hand.literal(text), VALUE, each.told, "default" if each.is_default else "", rank)
