"""What is not modelled: refused by name, with the reason, never guessed."""

from __future__ import annotations

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
