"""`ResolveError`: why a config cannot be resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from dsconfig.diagnostic import Diagnostic


class ResolveError(ValueError):
    """The config cannot be resolved.

    Attributes:
        reason: why, in one line, with the arithmetic.
        hints: what to change, a line each.
        diagnostics: what `check` finds that makes it so; empty where `check` could not know.
    """

    def __init__(
        self, reason: str, hints: Iterable[str] = (), diagnostics: Sequence[Diagnostic] = ()
    ) -> None:
        self.reason = reason
        self.hints = tuple(hints)
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join((reason, *(f"  {hint}" for hint in self.hints))))

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic], hints: Iterable[str] = (), *, place: str = "") -> Self:
        """The error of what `check` finds: the first is the reason, the others stand among the hints."""
        return cls(place + diagnostics[0].message, (*_hints(diagnostics), *hints), diagnostics)


def _hints(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    first, *others = diagnostics
    if first.help:
        yield first.help
    for found in others:
        yield f"{found.message}; {found.help}" if found.help else found.message
