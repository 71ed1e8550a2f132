"""Completion in `"$dsconfig"`: who reads the config, for which release and world size, what is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.check.rule_selector import catalogue
from dsconfig.consumers import CONSUMERS
from dsconfig.core.releases import RELEASES
from dsconfig.job.dsconfig_block import EXPECTED
from dsconfig.lsp.completion_item import PROPERTY, Offer, value_offer
from dsconfig.lsp.value_completions import Candidate

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.lsp.cursor import Cursor
    from dsconfig.lsp.insert_text import Hand

_KINDS = {"world-size": "int", "ignore": "list"}
"""What a user types as the value of a key that takes something other than a string."""


def offers(path: KeyPath, at: Cursor, hand: Hand) -> Iterator[Offer]:
    """What may stand at a path of the block."""
    if at.kind == "key" and not path:
        known = {**EXPECTED, "ignore": "the rules that are switched off: a list, or lists by key"}
        for word, expected in known.items():
            if word not in at.data:
                hole = hand.hole(_KINDS.get(word, "str"))
                yield Offer(word, hand.entry(word, at, hole), PROPERTY, expected)
    elif at.kind == "value" and path == ("target",):
        for number, release in enumerate(reversed(RELEASES)):
            offer = value_offer(Candidate(release, f"DeepSpeed {release}"), at, hand)
            yield offer._replace(text=_quoted(release, at, hand), rank=1000 + number)
    elif at.kind == "value" and path == ("consumer",):
        for name in CONSUMERS:
            yield value_offer(Candidate(name), at, hand)
    elif at.kind == "value" and path[:1] == ("ignore",):
        for code, name in catalogue().items():
            yield value_offer(Candidate(code, name), at, hand)


def _quoted(release: str, at: Cursor, hand: Hand) -> str:
    """A release, which YAML would not take for a number, but people might."""
    return hand.literal(f"{at.quote or chr(34)}{release}{at.quote or chr(34)}")
