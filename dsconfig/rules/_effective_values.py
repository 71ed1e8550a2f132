"""Effective values that many rules need: ZeRO stage, offload devices, dtypes and parallelism."""

from __future__ import annotations

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.wording import format_number
from dsconfig.evaluation.rule_context import Context, SkipRule

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a JSON number, which a boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_number(value: object) -> float | None:
    """Return `value` if it is a JSON number, else None."""
    return value if is_number(value) else None


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether `value` is a JSON integer, which a boolean is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def parse_integer(value: object) -> int | None:
    """Convert a string of decimal digits to an integer; return None for anything else."""
    if not isinstance(value, str) or not (digits := value.strip()).isdecimal() or len(value) > _LONGEST:
        return None
    return int(digits)  # `int` itself strips fewer kinds of whitespace than `strip`


_LONGEST = 20
"""Maximum length of a string of digits; Python raises on more than 4,300 digits."""


def format_remainder(number: int, divisor: int) -> str:
    """Format the remainder of a division for a message, such as `(remainder 4)`."""
    return f"(remainder {number % divisor})"


def round_down(count: int) -> int:
    """Round a count down to two significant digits."""
    return count // _rounding_unit(count) * _rounding_unit(count)


def round_up(count: int) -> int:
    """Round a count up to two significant digits."""
    return (count // _rounding_unit(count) + 1) * _rounding_unit(count)


def _rounding_unit(count: int) -> int:
    return int(10 ** max(0, len(str(count)) - 2))


# The effective ZeRO stage and its location.

ZERO = "zero_optimization"
STAGE = f"{ZERO}.stage"


def effective_stage(ctx: Context) -> float:
    """Return the effective ZeRO stage, or 0 if ZeRO is off.

    Raises:
        SkipRule: the stage is not a number, or the consumer resolves it.
    """
    return ctx.cached(_compute_stage)


def _compute_stage(ctx: Context) -> float:
    section = ctx.value(ZERO)
    value = int(section) if isinstance(section, bool) else ctx.value(STAGE)
    if not isinstance(value, int | float):
        raise SkipRule
    return value


def describe_device(device: str) -> str:
    """Return the name of an offload device for messages, such as "the CPU" or "NVMe"."""
    return {"cpu": "the CPU", "nvme": "NVMe"}.get(device, device)


def stage_path(ctx: Context) -> str:
    """Return the path of the key that determines the ZeRO stage."""
    return STAGE if isinstance(ctx.raw(ZERO), dict) else ZERO


def describe_stage(ctx: Context) -> str:
    """Describe the ZeRO stage for messages, such as "the stage is 1" or "ZeRO is off"."""
    return (
        f"the stage is {format_number(effective_stage(ctx))}" if effective_stage(ctx) > 0 else "ZeRO is off"
    )


def related_stage(ctx: Context) -> list[tuple[str, str]]:
    """Return the ZeRO stage as a related location; empty if the config does not set it."""
    return [("the stage is set here", stage_path(ctx))] if ctx.has(stage_path(ctx)) else []


def zero_section(ctx: Context) -> JsonObject:
    """Return the values of `zero_optimization` by canonical key name.

    Raises:
        SkipRule: the section is absent, empty, or not an object.
    """
    section = ctx.value(ZERO)
    if not isinstance(section, dict) or not section:
        raise SkipRule
    return section


def related_stage_key(ctx: Context) -> list[tuple[str, str]]:
    """Return the key `stage` as a related location; empty if the config does not have it."""
    return [("the stage is set here", STAGE)] if ctx.has(STAGE) else []


def stage_if_configured(ctx: Context) -> float:
    """Return the ZeRO stage, or 0 if the config has no `zero_optimization`."""
    return effective_stage(ctx) if ctx.has("zero_optimization") else 0


# Effective offload devices and their locations.

OPTIMIZER, PARAM = f"{ZERO}.offload_optimizer", f"{ZERO}.offload_param"
_SWITCHES = {
    OPTIMIZER: (f"{ZERO}.cpu_offload",),
    PARAM: (f"{ZERO}.cpu_offload_param", f"{ZERO}.cpu_offload_params"),
}
"""Legacy switches of the offload sections; DeepSpeed converts them to the device "cpu"."""


def offload_device(ctx: Context, section: str) -> str:
    """Return the device to which an offload section or its legacy switch offloads, or "none".

    Raises:
        SkipRule: the device is rejected, or the consumer resolves it.
    """
    if isinstance(ctx.value(section), dict):
        name = ctx.value(f"{section}.device")
        if not isinstance(name, str):
            raise SkipRule
        return name
    return "cpu" if any(ctx.value(switch) is True for switch in _SWITCHES[section]) else "none"


def offload_device_path(ctx: Context, section: str) -> str:
    """Return the path of the key that determines the offload device."""
    if isinstance(ctx.value(section), dict):
        return f"{section}.device"
    return next((switch for switch in _SWITCHES[section] if ctx.has(switch)), section)


def offload_keys(ctx: Context, section: str) -> list[str]:
    """Return the keys by which the config requests an offload: the section and legacy switches."""
    return [path for path in (section, *_SWITCHES[section]) if ctx.has(path)]


def related_offload(ctx: Context) -> list[tuple[str, str]]:
    """Return the key that requests optimizer offload, as a related location."""
    return [("the optimizer is offloaded here", offload_device_path(ctx, OPTIMIZER))]


def uses_cpu_optimizer(ctx: Context) -> bool:
    """Return whether the engine uses DeepSpeed's CPU optimizers.

    Source: runtime/engine.py, `zero_use_cpu_optimizer`. Before 0.7.2, `zero_cpu_offload` also treated the device "none"
    as offload.
    """
    if not ctx.has("zero_optimization"):
        return False
    if offload_device(ctx, OPTIMIZER) != "none":
        return True
    return isinstance(ctx.value(OPTIMIZER), dict) and ctx.before("0.7.2")


# Data types: the dtype of the model, and the optimizer wrapper that follows from a choice of dtypes.

_NAMES = {
    "fp16": ("fp16", "float16", "half", "torch.float16"),
    "bf16": ("bf16", "bfloat16", "torch.bfloat16"),
    "fp32": ("fp32", "float32", "float", "torch.float32"),
    "int8": ("int8", "torch.int8"),
}
_DTYPES = {name: dtype for dtype, names in _NAMES.items() for name in names}
"""Dtype by each name of `DtypeEnum` (runtime/config.py); the names are case-sensitive."""
_SECTION = "data_types"
_ACCUMULATION = f"{_SECTION}.grad_accum_dtype"


def normalize_dtype(name: Json) -> str | None:
    """Return the short name of a dtype, such as `fp16` for "torch.float16", or None if DeepSpeed does not know it."""
    return _DTYPES.get(name) if isinstance(name, str) else None


def enabled_bf16_path(ctx: Context, key: str = "enabled") -> str | None:
    """Return the path of the switch `key` if it is on in `bf16` or `bfloat16`, else None."""
    for section in ("bf16", "bfloat16"):
        if ctx.is_on(f"{section}.{key}"):
            return f"{section}.{key}"
    return None


def training_dtype(ctx: Context) -> str:
    """Return the training dtype of the model: `fp16`, `bf16` or `fp32`."""
    if ctx.is_on("fp16.enabled"):
        return "fp16"
    return "bf16" if enabled_bf16_path(ctx) else "fp32"


def related_dtype(ctx: Context) -> list[tuple[str, str]]:
    """Return the key that sets the training dtype, as a related location."""
    path = "fp16.enabled" if ctx.is_on("fp16.enabled") else enabled_bf16_path(ctx)
    return [("the model's dtype is set here", path)] if path else []


def uses_bf16_optimizer(ctx: Context) -> bool:
    """Return whether `BF16_Optimizer` replaces the usual optimizer of ZeRO stage 1.

    Source: runtime/engine.py, `DeepSpeedEngine._do_optimizer_sanity_check`: since 0.8.1; since 0.10.1 not if the
    optimizer is offloaded to the CPU.
    """
    return (
        ctx.has(_ACCUMULATION)
        and normalize_dtype(ctx.value(_ACCUMULATION)) == "fp32"
        and enabled_bf16_path(ctx) is not None
        and effective_stage(ctx) == 1
        and ctx.since("0.8.1")
        and (ctx.before("0.10.1") or offload_device(ctx, OPTIMIZER) != "cpu")
    )


def reduction_dtype(ctx: Context) -> tuple[str, str | None]:
    """Return the dtype of gradient reduction, and the key that sets it (None if it is the model's dtype).

    Source: runtime/engine.py, `DeepSpeedEngine.communication_data_type`. With sequence parallelism,
    `_configure_distributed_model` replaces it by `seq_parallel_communication_data_type`.
    """
    key, dtypes = "communication_data_type", ("fp32", "bf16", "fp16")
    ranks = ctx.value("sequence_parallel_size") if builds_device_mesh(ctx) else 1
    if isinstance(ranks, int) and ranks > 1:
        key = "seq_parallel_communication_data_type"
    elif not ctx.has(key):
        return training_dtype(ctx), None
    dtype = ctx.value(key)
    dtype = dtype.lower() if isinstance(dtype, str) else dtype
    return (dtype, key) if dtype in dtypes else (training_dtype(ctx), None)


# Whether `torch_autocast` is on.

_ENABLED = "torch_autocast.enabled"


def has_autocast(ctx: Context) -> bool:
    """Return whether the config has an enabled `torch_autocast` section."""
    return isinstance(ctx.data.get("torch_autocast"), dict) and ctx.is_on(_ENABLED)


# Degrees of parallelism at the top level.

_SEQUENCE = "sequence_parallel_size"
_DATA = "data_parallel_size"


def builds_device_mesh(ctx: Context) -> bool:
    """Return whether DeepSpeed builds a device mesh because of the config.

    Source: __init__.py, `initialize`. Up to 0.18.5, for a config file, `initialize` looks for the two keys in its path
    instead of its content.
    """
    return ctx.has(_SEQUENCE) and ctx.has(_DATA) and (not ctx.from_file or ctx.since("0.18.6"))


_COUNTABLE = 2**53
"""Bound below which the true division of two integers neither overflows nor underflows."""


def positive_size(ctx: Context, path: str) -> int | None:
    """Return a batch size or parallel degree if it is a positive integer of plausible size, else None."""
    value = ctx.value(path) if ctx.has(path) else None
    return value if is_integer(value) and 0 < value < _COUNTABLE else None


# Tensor parallelism.

AUTOTP = "tensor_parallel.autotp_size"


def tensor_parallel_ranks(ctx: Context) -> int:
    """Return the number of ranks that share each layer, which is 0 or 1 without AutoTP."""
    section = ctx.data.get("tensor_parallel")
    size = ctx.value(AUTOTP) if isinstance(section, dict) and "autotp_size" in section else 0
    return size if isinstance(size, int) else 0
