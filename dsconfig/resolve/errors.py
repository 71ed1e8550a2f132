"""`ResolveError`: why a config cannot be resolved."""

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


class UnfilledError(ResolveError):
    """Values of the config are to be filled from training arguments that nobody gives.

    Attributes:
        keys: where "auto" stands that is to be filled, the dotted paths.
        config: the config as it was written, with these.
    """

    def __init__(self, keys: Iterable[str], config: JsonObject, reason: str, *hints: str) -> None:
        super().__init__(reason, hints)
        self.keys, self.config = tuple(keys), config


class UnknownWorldSizeError(ResolveError):
    """Nothing says how many ranks there are, and the batch hangs on their number.

    Attributes:
        formula: the batch as a formula in the number of GPUs; None where there is none.
        source: what leaves the number to the run, in words; empty where nothing speaks of it.
        advice: what else there is to say of the number, a line each.
    """

    def __init__(self, source: str = "", formula: str | None = None, advice: Iterable[str] = ()) -> None:
        give = "give `world_size`, or set WORLD_SIZE in the environment"
        reason = f"no world size: {source}" if source else f"no world size: {give}"
        self.source, self.formula, self.advice = source, formula, tuple(advice)
        told = (*([formula] if formula else []), *([give] if source else []), *self.advice)
        super().__init__(reason, told)


def _hints(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    first, *others = diagnostics
    if first.help:
        yield first.help
    for found in others:
        yield f"{found.message}; {found.help}" if found.help else found.message
