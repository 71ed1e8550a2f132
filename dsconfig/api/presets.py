"""Configs to start from, each a function that gives a `Config`: what is laid over it wins.

    config = dsconfig.presets.zero3(offload="cpu") | {"gradient_clipping": 1.0}

Every one takes a `target`, the release that is to read it, and a `consumer`, who is to: for Transformers and
Accelerate, what they fill from their own arguments is "auto". `config` gives any of them as a dict, `text` as
the commented JSON that `dsconfig init` writes, `PRESETS` lists what there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dsconfig.schema.presets import PRESETS, Preset, PresetError, config, text

if TYPE_CHECKING:
    from dsconfig.api.config import Config
    from dsconfig.core.releases import Target

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


def zero1(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """ZeRO stage 1: optimizer state is spread over the GPUs."""
    return _built("zero1", target, consumer)


def zero2(
    offload: Literal["cpu"] | None = None, target: str | Target | None = None, consumer: str | None = None
) -> Config:
    """ZeRO stage 2: gradients are spread too; `offload` keeps the optimizer in host memory."""
    return _built(_offloaded({None: "zero2", "cpu": "zero2-offload"}, offload), target, consumer)


def zero3(
    offload: Literal["cpu", "nvme"] | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
) -> Config:
    """ZeRO stage 3: parameters are spread too; `offload` keeps them and the optimizer off the GPU."""
    names = {None: "zero3", "cpu": "zero3-offload-cpu", "nvme": "zero3-offload-nvme"}
    return _built(_offloaded(names, offload), target, consumer)


def zeropp(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """ZeRO++: stage 3 with less traffic between nodes."""
    return _built("zeropp", target, consumer)


def fp16(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """ZeRO stage 2 in fp16, for GPUs without bfloat16."""
    return _built("fp16", target, consumer)


def muon(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """The Muon optimizer for matrices, Adam for the rest."""
    return _built("muon", target, consumer)


def tensor_parallel(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """Layers split over the GPUs of a node, beside ZeRO stage 1."""
    return _built("tensor-parallel", target, consumer)


def elastic(target: str | Target | None = None, consumer: str | None = None) -> Config:
    """A batch that stays the same while GPUs come and go."""
    return _built("elastic", target, consumer)


def transformers(target: str | Target | None = None) -> Config:
    """For the Trainer of Transformers: what it knows from its arguments is "auto"."""
    return _built("transformers", target, None)


def accelerate(target: str | Target | None = None) -> Config:
    """For scripts with Accelerate."""
    return _built("accelerate", target, None)


def _built(name: str, target: str | Target | None, consumer: str | None) -> Config:
    from dsconfig.api.config import Config

    return Config(**config(name, target, consumer))


def _offloaded(names: dict[str | None, str], offload: str | None) -> str:
    if offload not in names:
        known = " or ".join(f'"{name}"' for name in names if name)
        raise PresetError(f"unknown offload {offload!r}: expected {known}, or None")
    return names[offload]
