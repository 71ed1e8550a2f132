"""What an earlier version of a consumer leaves as it is."""

from __future__ import annotations

from functools import cache

from dsconfig.consumers.consumer_versions import parted


@cache
def unfilled(spec: str) -> frozenset[str]:
    """The keys that the newest version fills, and the one that a text such as `accelerate==1.2` names not."""
    name, version = parted(spec)
    if version is None:
        return frozenset()
    from dsconfig.consumers.registry import consumer_of

    newest = {fill.key for fill in consumer_of(name).fills}
    return frozenset(newest - {fill.key for fill in consumer_of(spec).fills})
