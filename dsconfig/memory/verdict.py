"""Verdicts on a memory estimate, and the error for what it does not support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject


# Verdicts, and the settings or assumptions that can change them.

Verdict = Literal["fits", "tight", "does not fit", "unknown"]
FITS: Final = "fits"
TIGHT: Final = "tight"
"""Tight: fragmentation, the libraries on the GPU, or an input that is not given decides."""
EXCEEDS: Final = "does not fit"
UNKNOWN: Final = "unknown"
"""Unknown: an unsupported setting, or which card of a name is meant, decides."""
WORST_FIRST: Final = (EXCEEDS, UNKNOWN, TIGHT, FITS)
RANK, HOST = "rank", "host"


class UnmodeledSetting(NamedTuple):
    """A setting that changes memory by an amount that is not estimated."""

    key: str
    """The setting with its value, such as `stage: dpo`."""
    text: str
    raises: frozenset[str] = frozenset()
    """Memories (`rank`, `host`) that may need more because of it."""
    lowers: frozenset[str] = frozenset()
    """Memories that may need less."""
    terms: frozenset[str] = frozenset()
    """The terms that it may lower; empty: any."""

    def to_dict(self) -> JsonObject:
        """The setting as JSON."""
        return {
            "key": self.key,
            "text": self.text,
            "raises": sorted(self.raises),
            "lowers": sorted(self.lowers),
        }


HOST_BUILD = UnmodeledSetting(
    "the initial model copy",
    "the script may build the model in half precision, or never on the host",
    lowers=frozenset((HOST,)),
    terms=frozenset(("initial model copy",)),
)
ACTIVATION_TERMS = frozenset(
    (
        "activations",
        "activation gradients",
        "logits and loss",
        "temporaries",
        "Ulysses all-to-all buffers",
        "inputs",
    )
)
"""Terms that grow with the tokens of a micro batch."""
ASSUMED_LENGTH = UnmodeledSetting(
    "the sequence length",
    "it is not given; pass `--sequence-length`",
    raises=frozenset((RANK,)),
    lowers=frozenset((RANK,)),
    terms=ACTIVATION_TERMS,
)
ASSUMED_IMAGES = UnmodeledSetting(
    "the images of a sequence",
    "their number is not given, and taken as one; pass `--image-tokens`",
    raises=frozenset((RANK,)),
    lowers=frozenset((RANK,)),
    terms=ACTIVATION_TERMS,
)
ASSUMED_MIXERS = UnmodeledSetting(
    "the kernels of linear attention",
    "`mamba-ssm` and `causal-conv1d`, or `flash-linear-attention`, are assumed to be installed; without them layers "
    "keep more activations",
    raises=frozenset((RANK,)),
)
ASSUMED_CHECKPOINTING = UnmodeledSetting(
    "activation checkpointing",
    "it is not given, and taken as off; pass `--checkpointing` or `--no-checkpointing`",
    lowers=frozenset((RANK,)),
    terms=ACTIVATION_TERMS,
)
"""Inputs that neither the user nor a launch file gives."""
SCRIPT_OPTIMIZER = UnmodeledSetting(
    "the optimizer of the script",
    "it may keep fewer states",
    lowers=frozenset((HOST,)),
    terms=frozenset(("optimizer states", "optimizer step temporaries")),
)
"""Assumptions about the script; no host is reported as too small because of them alone."""


class NotModelledError(ValueError):
    """The memory of this config with this model cannot be estimated; the text names the setting in question."""

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"{what}; {help}" if help else what)
        self.what, self.help = what, help
