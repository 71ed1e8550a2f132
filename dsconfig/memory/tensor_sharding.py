"""How ranks share linear layers, in the release that does it (AutoTP), and what they send each other."""

from __future__ import annotations

from typing import NamedTuple


class Sharing(NamedTuple):
    """How many ranks share them, and what of a model a release leaves whole."""

    ranks: int = 1
    head: bool = True
    """Whether the head is cut: Transformers' plan gathers its output, which 0.19.4 understands first."""
    plans: bool = True
    """Whether plans are taken with all their words (0.19.6), gradients of whole norms among them."""

    def cuts_head(self, head_norms: bool) -> bool:
        """A plan with norms of heads is not understood before 0.19.6: layers are found by their names."""
        return self.head and (self.plans or not head_norms)


class Exchange(NamedTuple):
    """What ranks that share a model, or a sequence, send each other in a micro batch."""

    name: str
    phase: str
    calls: int
    elements: int
    """Of each call."""
    width: int
    ranks: int
