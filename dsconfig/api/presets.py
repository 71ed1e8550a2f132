"""Presets: functions that return a `Config` to start from.

    config = dsconfig.presets.zero3(offload="cpu") | {"gradient_clipping": 1.0}

Each preset takes a `target`, the DeepSpeed release, and a `consumer`, the library that loads the config: keys that
Transformers or Accelerate resolve from their arguments are "auto". `config` returns a preset as a dict, `text` as
the commented JSON of `dsconfig init`, and `PRESETS` lists all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dsconfig.schema.presets import PRESETS, PresetError
from dsconfig.schema.presets import ConfigPreset as Preset
from dsconfig.schema.presets import preset_config as config
from dsconfig.schema.presets import preset_text as text

if TYPE_CHECKING:
    from dsconfig.api.config import Config
    from dsconfig.core.releases import ReleaseTarget

__all__ = [
    "PRESETS",
    "Preset",
    "PresetError",
    "accelerate",
    "config",
    "elastic",
    "fp16",
    "muon",
    "tensor_parallel",
    "text",
    "transformers",
    "zero1",
    "zero2",
    "zero3",
    "zeropp",
]


def zero1(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config for ZeRO stage 1, which partitions optimizer states over the GPUs."""
    return _build_preset("zero1", target, consumer)


def zero2(
    offload: Literal["cpu"] | None = None,
    target: str | ReleaseTarget | None = None,
    consumer: str | None = None,
) -> Config:
    """Return a config for ZeRO stage 2, which also partitions gradients.

    `offload` keeps the optimizer in host memory.
    """
    return _build_preset(
        _offload_preset_name({None: "zero2", "cpu": "zero2-offload"}, offload), target, consumer
    )


def zero3(
    offload: Literal["cpu", "nvme"] | None = None,
    target: str | ReleaseTarget | None = None,
    consumer: str | None = None,
) -> Config:
    """Return a config for ZeRO stage 3, which also partitions parameters.

    `offload` keeps the parameters and the optimizer off the GPU.
    """
    names = {None: "zero3", "cpu": "zero3-offload-cpu", "nvme": "zero3-offload-nvme"}
    return _build_preset(_offload_preset_name(names, offload), target, consumer)


def zeropp(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config for ZeRO++, which is stage 3 with less communication between nodes."""
    return _build_preset("zeropp", target, consumer)


def fp16(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config for ZeRO stage 2 in fp16, for GPUs without bfloat16."""
    return _build_preset("fp16", target, consumer)


def muon(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config with the Muon optimizer for matrices and Adam for other parameters."""
    return _build_preset("muon", target, consumer)


def tensor_parallel(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config for tensor parallelism within a node, with ZeRO stage 1."""
    return _build_preset("tensor-parallel", target, consumer)


def elastic(target: str | ReleaseTarget | None = None, consumer: str | None = None) -> Config:
    """Return a config for elastic training with a batch size that is independent of the number of GPUs."""
    return _build_preset("elastic", target, consumer)


def transformers(target: str | ReleaseTarget | None = None) -> Config:
    """Return a config for the Transformers Trainer, with "auto" for the keys that the Trainer resolves."""
    return _build_preset("transformers", target, None)


def accelerate(target: str | ReleaseTarget | None = None) -> Config:
    """Return a config for scripts that use Accelerate."""
    return _build_preset("accelerate", target, None)


def _build_preset(name: str, target: str | ReleaseTarget | None, consumer: str | None) -> Config:
    from dsconfig.api.config import Config

    return Config(**config(name, target, consumer))


def _offload_preset_name(names: dict[str | None, str], offload: str | None) -> str:
    if offload not in names:
        choices = " or ".join(f'"{name}"' for name in names if name)
        raise PresetError(f"unknown offload {offload!r}: expected {choices}, or None")
    return names[offload]
