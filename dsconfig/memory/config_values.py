"""The effective values of a config by dotted key, and the parallelism that they configure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

ZERO = "zero_optimization."
AUTOTP, AUTOEP, ULYSSES = "tensor_parallel.autotp_size", "expert_parallel.enabled", "sequence_parallel_size"
ITEMSIZES = {
    "fp32": 4,
    "float32": 4,
    "bf16": 2,
    "bfloat16": 2,
    "fp16": 2,
    "float16": 2,
    "half": 2,
    "float": 4,
}
LARGEST = 1 << 60
"""Upper limit of element counts in a config."""


class ConfigValues:
    """The effective values of a config by dotted key."""

    def __init__(self, values: Mapping[str, Json], explicit_keys: Collection[str] = ()) -> None:
        self.values, self.explicit_keys = values, explicit_keys

    def flag(self, key: str) -> bool:
        """Return whether a boolean setting is on."""
        return bool(self.values.get(key))

    def is_false(self, key: str) -> bool:
        """Return whether a boolean setting that defaults to true is false."""
        return self.values.get(key) is False

    def count(self, key: str, default: int = 0) -> int:
        """Return the element count that a key sets, capped at `LARGEST`."""
        value = self.values.get(key, default)
        return int(max(0, min(value, LARGEST))) if isinstance(value, (int, float)) else default

    def text(self, key: str) -> str | None:
        """Return the value of a key if it is a string, else None."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def itemsize(self, key: str, default: int) -> int:
        """Return the itemsize, in bytes, of the dtype that a key names."""
        return ITEMSIZES.get(str(self.values.get(key)).lower().removeprefix("torch."), default)

    def has_section(self, section: str) -> bool:
        """Return whether the config sets any key in a section."""
        return any(key.startswith(f"{section}.") for key in self.explicit_keys)

    @property
    def stage(self) -> int:
        """The ZeRO stage."""
        return self.count(f"{ZERO}stage")

    @property
    def half_dtype(self) -> str | None:
        """The half-precision dtype of the model's weights, `bf16` or `fp16`, or None."""
        return next((kind for kind in ("bf16", "fp16") if self.flag(f"{kind}.enabled")), None)

    @property
    def has_zenflow(self) -> bool:
        """Whether the config has a ZenFlow section, even an empty one."""
        return self.has_section(f"{ZERO}zenflow")

    @property
    def tp_size(self) -> int:
        """Number of tensor-parallel ranks (AutoTP)."""
        return max(1, self.count(AUTOTP, 1))

    @property
    def sp_size(self) -> int:
        """Number of sequence-parallel ranks (Ulysses)."""
        return max(1, self.count(ULYSSES, 1))

    @property
    def ep_size(self) -> int:
        """Number of expert-parallel ranks (AutoEP), or 0 if AutoEP is off."""
        return max(1, self.count("expert_parallel.autoep_size", 1)) if self.flag(AUTOEP) else 0
