"""How many texts may be judged to find out which changes hold: a short one often, a long one a few times."""

from __future__ import annotations

_TEXT = 1 << 18
"""Code points of all texts together, once for each class of releases."""
_CLASSES = 16
"""Releases behave alike in classes: so many evaluations, about, the longest range costs."""


def affordable(text: str, releases: int = 1) -> int:
    """How often a text may be judged for so many releases; 0 where it is too long for even once."""
    return _TEXT // ((len(text) + 64) * min(releases, _CLASSES))
