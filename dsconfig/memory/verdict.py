"""Verdicts on a memory estimate, and the configs and settings that are not modelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject


# Verdicts on a memory, and what is not modelled, or only assumed, and could turn them.

Verdict = Literal["fits", "does not fit", "unknown"]
FITS: Final = "fits"
EXCEEDS: Final = "does not fit"
UNKNOWN: Final = "unknown"
"""Unknown: what is not modelled, or which card it is, decides."""
RANK, HOST = "rank", "host"


class UnmodeledSetting(NamedTuple):
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


HOST_BUILD = UnmodeledSetting(
    "the model as it is built",
    "the script may build it in half precision, or never on the host",
    lowers=frozenset((HOST,)),
    terms=frozenset(("model as it is built",)),
)
SCRIPT_OPTIMIZER = UnmodeledSetting(
    "the optimizer that the script makes",
    "it may keep fewer states",
    lowers=frozenset((HOST,)),
    terms=frozenset(("optimizer states", "temporaries of the step")),
)
"""What an estimate takes for granted of a script; no host is said to be too small for that alone."""


# What is not modelled: refused by name, with the reason, never guessed.

_KERNELS = "its kernels are for GPUs alone, so that no engine on a CPU could be measured"
_UNMEASURED = "no engine was measured with it"
REASONS = {
    "mics_shard_size": "shards of a group of ranks were not measured",
    "compile.deepcompile": "the compiler decides when weights are gathered and let go",
    "hybrid_engine.enabled": "its second copy of the weights, for generation, has layouts of its kernels",
    "lamb": _KERNELS,
    "onebitadam": "its compressed messages need a backend that no engine on a CPU has",
    "onebitlamb": "its compressed messages need a backend that no engine on a CPU has",
    "zerooneadam": "its compressed messages need a backend that no engine on a CPU has",
}
"""Why a key, or an optimizer of the config, is not modelled."""


def reason(name: str) -> str:
    """Why a key, or an optimizer by its lower-case name, is not modelled."""
    return REASONS.get(name.removeprefix("zero_optimization."), _UNMEASURED)


class NotModelledError(ValueError):
    """The memory of this config with this model cannot be computed; the text names what is in the way."""

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"{what}; {help}" if help else what)
        self.what, self.help = what, help
