"""`ResolveError` and its subclasses, which say why a config cannot be resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.core.json_types import JsonObject


class ResolveError(ValueError):
    """The config cannot be resolved.

    Attributes:
        reason: the reason in one line, with the arithmetic.
        hints: what to change, one line each.
        diagnostics: the diagnostics of `check` that are the cause; empty if there are none.
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
        """Return the error for diagnostics of `check`: the first one becomes the reason, the others become hints."""
        return cls(
            place + diagnostics[0].message, (*_hints_from_diagnostics(diagnostics), *hints), diagnostics
        )


class UnfilledError(ResolveError):
    """Values cannot be resolved because training arguments are missing.

    Attributes:
        keys: dotted paths of the unresolved "auto" values.
        config: the config with these values.
    """

    def __init__(self, keys: Iterable[str], config: JsonObject, reason: str, *hints: str) -> None:
        super().__init__(reason, hints)
        self.keys, self.config = tuple(keys), config


class UnknownWorldSizeError(ResolveError):
    """The batch depends on the world size, which is unknown.

    Attributes:
        formula: the batch as a formula in the number of GPUs; None if there is none.
        source: description of the file from which only the run determines the world size; empty if there is none.
        advice: further hints, one line each.
    """

    def __init__(self, source: str = "", formula: str | None = None, advice: Iterable[str] = ()) -> None:
        give = "give `world_size`, or set WORLD_SIZE in the environment"
        reason = f"no world size: {source}" if source else f"no world size: {give}"
        self.source, self.formula, self.advice = source, formula, tuple(advice)
        hints = (*([formula] if formula else []), *([give] if source else []), *self.advice)
        super().__init__(reason, hints)


def _hints_from_diagnostics(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    first, *others = diagnostics
    if first.help:
        yield first.help
    for diagnostic in others:
        yield f"{diagnostic.message}; {diagnostic.help}" if diagnostic.help else diagnostic.message
