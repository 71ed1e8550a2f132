"""Names that are spelt alike."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.model.keyinfo import SectionView

_CUTOFF = 0.74
SHORT = 4
"""Names of up to four letters resemble too much to guess."""


def nearest_key(word: str, section: SectionView) -> str | None:
    """The key of the section that is spelt most alike, if any is alike enough."""
    from difflib import get_close_matches

    if len(word) <= SHORT:
        folded = {key.lower(): key for key in section.keys}
        return folded.get(word.lower())
    plain = {_plain(key): key for key in section.keys}
    if _plain(word) in plain:
        return plain[_plain(word)]
    match = get_close_matches(word.lower(), list(section.keys), 1, _CUTOFF)
    return match[0] if match else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")


def unmistakable(word: str, section: SectionView) -> bool:
    """Whether one key of the section alone is as near as a slip of the finger."""
    from difflib import get_close_matches

    plain = {_plain(key) for key in section.keys}
    return _plain(word) in plain or len(get_close_matches(word.lower(), list(section.keys), 2, 0.85)) == 1


def nearest_of(word: str, words: Iterable[str]) -> str | None:
    """The word that is spelt most alike, if any is alike enough."""
    from difflib import get_close_matches

    plain = {_plain(known): known for known in words}
    if _plain(word) in plain:
        return plain[_plain(word)]
    match = get_close_matches(_plain(word), list(plain), 1, _CUTOFF) if len(word) > SHORT else []
    return plain[match[0]] if match else None


def alike(word: str, other: str) -> bool:
    """Whether two words differ in case, underscores and hyphens alone."""
    return _plain(word) == _plain(other)
