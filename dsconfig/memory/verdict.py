"""Verdicts on a memory, and what is not modelled, or only assumed, and could turn them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject

Verdict = Literal["fits", "does not fit", "unknown"]
FITS: Final = "fits"
EXCEEDS: Final = "does not fit"
UNKNOWN: Final = "unknown"
"""Unknown: what is not modelled, or which card it is, decides."""
RANK, HOST = "rank", "host"


class Unmodelled(NamedTuple):
    """A setting that changes what is held, by an amount that is not computed."""

    key: str
    """As it is written: `stage: dpo`."""
    text: str
    raises: frozenset[str] = frozenset()
    """The sides, of `rank` and `host`, that may hold more with it."""
    lowers: frozenset[str] = frozenset()
    """The sides that may hold less."""
    terms: frozenset[str] = frozenset()
    """The only terms that it lowers; none: any."""

    def to_dict(self) -> JsonObject:
        """As JSON has it."""
        return {
            "key": self.key,
            "text": self.text,
            "raises": sorted(self.raises),
            "lowers": sorted(self.lowers),
        }


BUILT = Unmodelled(
    "the model as it is built",
    "the script may build it in half precision, or never on the host",
    lowers=frozenset((HOST,)),
    terms=frozenset(("model as it is built",)),
)
MADE = Unmodelled(
    "the optimizer that the script makes",
    "it may keep fewer states",
    lowers=frozenset((HOST,)),
    terms=frozenset(("optimizer states", "temporaries of the step")),
)
"""What an estimate takes for granted of a script; no host is said to be too small for that alone."""
