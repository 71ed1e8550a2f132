"""Verdicts for memory estimates, and the error for configs and models that cannot be estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject


# Verdicts, and the settings or assumptions that can change them.

Verdict = Literal["fits", "tight", "does not fit", "unknown"]
FITS: Final = "fits"
TIGHT: Final = "tight"
"""Verdict if fragmentation, the libraries on the GPU, or an input that is not given decides whether a run fits."""
EXCEEDS: Final = "does not fit"
UNKNOWN: Final = "unknown"
"""Verdict if an unsupported setting, or an ambiguous GPU name, decides whether a run fits."""
WORST_FIRST: Final = (EXCEEDS, UNKNOWN, TIGHT, FITS)
RANK, HOST = "rank", "host"


class UnmodeledSetting(NamedTuple):
    """A setting that changes memory by an unknown amount."""

    key: str
    """Name of the setting with its value, such as `stage: dpo`."""
    text: str
    raises: frozenset[str] = frozenset()
    """Memories (`rank`, `host`) that may need more because of the setting."""
    lowers: frozenset[str] = frozenset()
    """Memories (`rank`, `host`) that may need less because of the setting."""
    terms: frozenset[str] = frozenset()
    """Names of the memory terms that the setting may lower; empty if it may lower any of them."""

    def to_dict(self) -> JsonObject:
        """Return the setting as a JSON object."""
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
"""Memory terms that grow with the number of tokens in a micro batch."""
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
UNMODELED_PART = UnmodeledSetting(
    "a part of the model",
    "its layers are not known, or it may not be loaded, so not all of its parameters and activations are counted",
    raises=frozenset((RANK,)),
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
"""Assumption about an input that neither the user nor a launch file gives."""
SCRIPT_OPTIMIZER = UnmodeledSetting(
    "the optimizer of the script",
    "it may keep fewer states",
    lowers=frozenset((HOST,)),
    terms=frozenset(("optimizer states", "optimizer step temporaries")),
)
"""Assumption about the script; no host is reported as too small because of this alone."""


class NotModelledError(ValueError):
    """Raised if the memory of a config and model cannot be estimated; the message names the setting."""

    def __init__(self, what: str, help: str = "") -> None:
        super().__init__(f"{what}; {help}" if help else what)
        self.what, self.help = what, help
