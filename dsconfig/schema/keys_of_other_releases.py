"""Keys of other releases, which this one refuses or would be silent about."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.releases import name
from dsconfig.model.keyinfo import section_keys
from dsconfig.model.release_view import SectionView
from dsconfig.schema.key_descriptions import instead


def strangers(seen: SectionView, release: int, *, closed: bool) -> Iterator[tuple[str, str]]:
    """The keys, each with what to say of it."""
    for word, info in section_keys(seen.name).items():
        if word in seen.keys or not (closed or release >= info.refused_from):
            continue
        before = [last for _, last in info.spans if last < release]
        after = [first for first, _ in info.spans if first > release]
        if before:
            yield word, f"`{word}` was removed from DeepSpeed after {name(max(before))}{instead(info)}"
        elif after:
            yield word, f"`{word}` is known from DeepSpeed {name(min(after))} on, not in {name(release)}"
