"""Limits on a YAML text, held before PyYAML recurses through 100,000 levels in C, or multiplies aliases."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import yaml

from dsconfig.document.tree import MAX_DEPTH, MAX_VALUES
from dsconfig.document.yaml.pyyaml import ERRORS, LOADER, message, offset

_NESTING: Final = re.compile(r"[\[{:?-]")


class LimitError(Exception):
    """More than is read."""

    def __init__(self, kind: str, at: int) -> None:
        super().__init__(kind)
        self.kind, self.at = kind, at
        details = {"too-deep": str(MAX_DEPTH), "too-large": f"more than {MAX_VALUES} values"}
        self.detail = details.get(kind, "")


def check_limits(text: str) -> None:
    """Raise `LimitError` where the text holds too many values, or is nested too deep."""
    if "*" not in text and len(text) < MAX_VALUES and sum(1 for _ in _NESTING.finditer(text)) < MAX_DEPTH:
        return
    count = _Count()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            count.add(event)
    except ERRORS as error:
        if "nesting depth" in message(error):  # LibYAML's own limit, from PyYAML 6.0.4 on: it reads ahead
            raise LimitError("too-deep", offset(error, text)) from None
        # the reading itself will meet any other


def _limit(kind: str, event: yaml.Event) -> LimitError:
    return LimitError(kind, event.start_mark.index if event.start_mark else 0)


class _Size(NamedTuple):
    """How many values a node holds, itself included, and how deep it is."""

    values: int
    depth: int


class _Open:
    """A collection that is still open."""

    __slots__ = ("anchor", "depth", "values")

    def __init__(self, anchor: str | None) -> None:
        self.anchor, self.values, self.depth = anchor, 1, 1


class _Count:
    """Counts values and depth with every alias written out."""

    def __init__(self) -> None:
        self.anchored: dict[str, _Size] = {}
        self.stack: list[_Open] = []
        self.events = 0

    def add(self, event: yaml.Event) -> None:
        """Take the next of PyYAML's events."""
        if isinstance(event, yaml.CollectionStartEvent):
            self.open(event)
            return
        anchor, size = None, _Size(1, 1)
        if isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            anchor, size = done.anchor, _Size(done.values, done.depth)
        elif isinstance(event, yaml.AliasEvent):
            size = self.aliased(event)
        elif isinstance(event, yaml.ScalarEvent):
            anchor = event.anchor
        else:
            return
        if anchor:
            self.anchored[anchor] = size
        self.attach(size, event)

    def open(self, event: yaml.CollectionStartEvent) -> None:
        """Go down into a collection."""
        self.stack.append(_Open(event.anchor))
        if event.anchor:
            self.anchored.pop(event.anchor, None)
        if len(self.stack) > MAX_DEPTH:
            raise _limit("too-deep", event)

    def aliased(self, event: yaml.AliasEvent) -> _Size:
        """The size of what the alias stands for."""
        if any(outer.anchor == event.anchor for outer in self.stack):
            raise _limit("alias-bomb", event)  # it holds itself
        return self.anchored.get(event.anchor or "", _Size(1, 1))

    def attach(self, size: _Size, event: yaml.Event) -> None:
        """Add a finished node to the collection around it."""
        values = size.values
        if self.stack:
            outer = self.stack[-1]
            outer.values += size.values
            outer.depth = max(outer.depth, size.depth + 1)
            values = outer.values
        if len(self.stack) + size.depth > MAX_DEPTH:
            raise _limit("too-deep", event)
        if values > MAX_VALUES or self.events >= MAX_VALUES:
            kind = "alias-bomb" if isinstance(event, yaml.AliasEvent) else "too-large"
            raise _limit(kind, event)
        self.events += 1
