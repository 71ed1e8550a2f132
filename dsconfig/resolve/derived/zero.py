"""ZeRO: the forms of its first releases, and what follows from the stage.

Source: runtime/zero/config.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dsconfig.evaluation.context import Context
from dsconfig.resolve.derived.derivation import Derivation, Find, alone, given, since

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

_ZERO = "zero_optimization"
_STAGE = f"{_ZERO}.stage"


def _stage(ctx: Context, value: Json) -> Json:
    section = ctx.written(_ZERO)
    return int(section) if isinstance(section, bool) else value


def _allgather_bucket(ctx: Context, value: Json) -> Json:
    return ctx.value("allgather_size") if ctx.written(_ZERO) is True and ctx.has("allgather_size") else value


def _overlap(ctx: Context, value: Json) -> Json:
    return bool(_stage(ctx, ctx.value(_STAGE)) == 3) if value is None else value


def _gather(ctx: Context, value: Json) -> Json:
    old = f"{_ZERO}.stage3_gather_fp16_weights_on_model_save"
    return ctx.value(old) if given(ctx, old) else value


def _device(*switches: str) -> Find:
    """The device of an offload section, which DeepSpeed makes where one of its first forms is on."""

    def find(ctx: Context, value: Json) -> Json:
        return "cpu" if any(ctx.key(switch) and ctx.on(switch) for switch in switches) else value

    return find


_ZERO_CONFIG = "runtime/zero/config.py:DeepSpeedZeroConfig"
_DEPRECATED = "runtime/config_utils.py:DeepSpeedConfigModel._process_deprecated_field"
_LEAVES = "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig"


def _as_list(value: Json) -> Json:
    entries = [value] if isinstance(value, str) else value
    return list(dict.fromkeys(entries)) if _all_text(entries) else value


def _all_text(entries: Json) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)


def _path(value: Json) -> Json:
    return str(PurePosixPath(value)) if isinstance(value, str) else value


def of_zero() -> Iterator[Derivation]:
    """Keys of `zero_optimization`."""
    old = "runtime/zero/config.py:read_zero_config_deprecated"
    yield Derivation(_STAGE, _stage, old, (_ZERO,))
    yield Derivation(f"{_ZERO}.allgather_bucket_size", _allgather_bucket, old, ("allgather_size",))
    yield Derivation(f"{_ZERO}.overlap_comm", _overlap, f"{_ZERO_CONFIG}.overlap_comm_valid", (_STAGE,))
    gather = f"{_ZERO}.stage3_gather_fp16_weights_on_model_save"
    yield Derivation(f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", _gather, _DEPRECATED, (gather,))
    optimizer, param = f"{_ZERO}.offload_optimizer", f"{_ZERO}.offload_param"
    switch, switches = f"{_ZERO}.cpu_offload", (f"{_ZERO}.cpu_offload_param", f"{_ZERO}.cpu_offload_params")
    yield Derivation(f"{optimizer}.device", _device(switch), _DEPRECATED, (switch,))
    yield Derivation(f"{param}.device", _device(*switches), _DEPRECATED, switches)
    for section in (optimizer, param):
        source = "runtime/zero/offload_config.py:nvme_path"
        yield Derivation(f"{section}.nvme_path", alone(_path), source, releases=since("0.7.0"))
    for key in ("classes", "names", "name_suffixes"):
        yield Derivation(f"{_ZERO}.leaf_module.{key}", alone(_as_list), f"{_LEAVES}._coerce_container_types")
