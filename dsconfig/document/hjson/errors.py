"""What ends a reading before the text ends."""

from __future__ import annotations


class ReadError(Exception):
    """What hjson refuses. `fatal`: with an error not its own, after which it tries no other reading."""

    def __init__(self, kind: str, start: int, end: int, detail: str, *, fatal: bool = False) -> None:
        super().__init__(detail)
        self.kind, self.start, self.end, self.detail, self.fatal = kind, start, end, detail, fatal


class GiveUpError(Exception):
    """There are so many errors that the rest is not worth reading."""
