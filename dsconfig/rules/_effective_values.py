"""Effective ZeRO stage, offload devices, dtypes and degrees of parallelism of a config."""

from __future__ import annotations

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.wording import compact
from dsconfig.evaluation.context import Context, SkipRule
from dsconfig.rules._numbers import is_integer

# The ZeRO stage that a config ends up with, and where it says so.

ZERO = "zero_optimization"
STAGE = f"{ZERO}.stage"


def stage(ctx: Context) -> float:
    """The ZeRO stage that the release ends up with; 0 where ZeRO is off.

    Raises:
        SkipRule: the stage is not a number, or the consumer fills it.
    """
    return ctx.cached(_stage)


def _stage(ctx: Context) -> float:
    section = ctx.value(ZERO)
    value = int(section) if isinstance(section, bool) else ctx.value(STAGE)
    if not isinstance(value, int | float):
        raise SkipRule
    return value


def stage_place(ctx: Context) -> str:
    """Where the stage is said."""
    return STAGE if isinstance(ctx.raw(ZERO), dict) else ZERO


def stage_words(ctx: Context) -> str:
    """The stage, for messages: `the stage is 1`, or that there is none."""
    return f"the stage is {compact(stage(ctx))}" if stage(ctx) > 0 else "ZeRO is off"


def stage_set_here(ctx: Context) -> list[tuple[str, str]]:
    """The place of the stage as a related one, where it is written."""
    return [("the stage is set here", stage_place(ctx))] if ctx.has(stage_place(ctx)) else []


def zero(ctx: Context) -> JsonObject:
    """The section's values by canonical names.

    Raises:
        SkipRule: there is no such object.
    """
    section = ctx.value(ZERO)
    if not isinstance(section, dict) or not section:
        raise SkipRule
    return section


def stage_place_if_written(ctx: Context) -> list[tuple[str, str]]:
    """Where the stage is said, as a related place."""
    return [("the stage is set here", STAGE)] if ctx.has(STAGE) else []


def zero_stage(ctx: Context) -> float:
    """The stage; 0 where the section is not written, without asking further."""
    return stage(ctx) if ctx.has("zero_optimization") else 0


# Where an offload section puts things, and where it says so.

OPTIMIZER, PARAM = f"{ZERO}.offload_optimizer", f"{ZERO}.offload_param"
_SWITCHES = {
    OPTIMIZER: (f"{ZERO}.cpu_offload",),
    PARAM: (f"{ZERO}.cpu_offload_param", f"{ZERO}.cpu_offload_params"),
}
"""The first forms of the offload sections; DeepSpeed turns them into the device "cpu"."""


def device(ctx: Context, section: str) -> str:
    """Where an offload section (`OPTIMIZER`, `PARAM`) or its first form puts things; "none" without one.

    Raises:
        SkipRule: the device is refused, or the consumer fills it.
    """
    if isinstance(ctx.value(section), dict):
        found = ctx.value(f"{section}.device")
        if not isinstance(found, str):
            raise SkipRule
        return found
    return "cpu" if any(ctx.value(switch) is True for switch in _SWITCHES[section]) else "none"


def device_place(ctx: Context, section: str) -> str:
    """Where the device is said."""
    if isinstance(ctx.value(section), dict):
        return f"{section}.device"
    return next((switch for switch in _SWITCHES[section] if ctx.has(switch)), section)


def asked_for(ctx: Context, section: str) -> list[str]:
    """The keys that ask for it, the section and its first forms: without them nothing is offloaded."""
    return [path for path in (section, *_SWITCHES[section]) if ctx.has(path)]


def offload_place(ctx: Context) -> list[tuple[str, str]]:
    """Where offloading is asked for, as a related place."""
    return [("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))]


def offloaded(ctx: Context) -> bool:
    """Whether the engine takes the optimizers that DeepSpeed has for the CPU.

    Source: runtime/engine.py, `zero_use_cpu_optimizer`; before 0.7.2 `zero_cpu_offload`, to which the device
    "none" was offloading too.
    """
    if not ctx.has("zero_optimization"):
        return False
    if device(ctx, OPTIMIZER) != "none":
        return True
    return isinstance(ctx.value(OPTIMIZER), dict) and ctx.before("0.7.2")


# Number formats: that of the model, and the optimizer that a choice of formats brings.

_WORDS = {
    "fp16": ("fp16", "float16", "half", "torch.float16"),
    "bf16": ("bf16", "bfloat16", "torch.bfloat16"),
    "fp32": ("fp32", "float32", "float", "torch.float32"),
    "int8": ("int8", "torch.int8"),
}
_FORMATS = {word: short for short, group in _WORDS.items() for word in group}
"""The words of `DtypeEnum` (runtime/config.py), which are looked up as they are spelt."""
_SECTION = "data_types"
_ACCUMULATION = f"{_SECTION}.grad_accum_dtype"


def format_of(word: Json) -> str | None:
    """`"torch.float16"` as `fp16`; None where DeepSpeed knows no such format."""
    return _FORMATS.get(word) if isinstance(word, str) else None


def bf16_place(ctx: Context, key: str = "enabled") -> str | None:
    """Where the key is switched on, in `bf16` or in `bfloat16`, which is read where the other is absent."""
    for section in ("bf16", "bfloat16"):
        if ctx.is_on(f"{section}.{key}"):
            return f"{section}.{key}"
    return None


def model_format(ctx: Context) -> str:
    """The format that the model trains in: `fp16`, `bf16` or `fp32`."""
    if ctx.is_on("fp16.enabled"):
        return "fp16"
    return "bf16" if bf16_place(ctx) else "fp32"


def format_place(ctx: Context) -> list[tuple[str, str]]:
    """Where the model's format is said, as a related place."""
    there = "fp16.enabled" if ctx.is_on("fp16.enabled") else bf16_place(ctx)
    return [("the model's format is set here", there)] if there else []


def bf16_optimizer(ctx: Context) -> bool:
    """Whether DeepSpeed trains ZeRO stage 1 with its BF16_Optimizer instead of the one of stages 1 and 2.

    Source: runtime/engine.py, `DeepSpeedEngine._do_optimizer_sanity_check`: stage 1 hands over from 0.8.1 on,
    and keeps an optimizer that is offloaded to the CPU from 0.10.1 on.
    """
    return (
        ctx.has(_ACCUMULATION)
        and format_of(ctx.value(_ACCUMULATION)) == "fp32"
        and bf16_place(ctx) is not None
        and stage(ctx) == 1
        and ctx.since("0.8.1")
        and (ctx.before("0.10.1") or device(ctx, OPTIMIZER) != "cpu")
    )


def sent_format(ctx: Context) -> tuple[str, str | None]:
    """The format that gradients are sent in, and the key that says so; None where it is the model's.

    Source: runtime/engine.py, `DeepSpeedEngine.communication_data_type`; `_configure_distributed_model` puts
    the key of sequence parallelism in its place.
    """
    key, words = "communication_data_type", ("fp32", "bf16", "fp16")
    ranks = ctx.value("sequence_parallel_size") if device_mesh(ctx) else 1
    if isinstance(ranks, int) and ranks > 1:
        key = "seq_parallel_communication_data_type"
    elif not ctx.has(key):
        return model_format(ctx), None
    word = ctx.value(key)
    word = word.lower() if isinstance(word, str) else word
    return (word, key) if word in words else (model_format(ctx), None)


# Whether `torch_autocast` is on.

_ENABLED = "torch_autocast.enabled"


def autocasts(ctx: Context) -> bool:
    """Whether the section is there and enabled."""
    return isinstance(ctx.data.get("torch_autocast"), dict) and ctx.is_on(_ENABLED)


# Degrees of parallelism at the top level.

_SEQUENCE = "sequence_parallel_size"
_DATA = "data_parallel_size"


def device_mesh(ctx: Context) -> bool:
    """Whether the config makes DeepSpeed build a device mesh; of a file it only asks the path up to 0.18.5.

    Source: __init__.py, initialize.
    """
    return ctx.has(_SEQUENCE) and ctx.has(_DATA) and (not ctx.from_file or ctx.since("0.18.6"))


_COUNTABLE = 2**53
"""Up to here, a true division of integers neither overflows nor comes to nothing."""


def size_of(ctx: Context, path: str) -> int | None:
    """A batch or degree of parallelism that is written as a positive integer, small enough to divide by."""
    value = ctx.value(path) if ctx.has(path) else None
    return value if is_integer(value) and 0 < value < _COUNTABLE else None


# How many ranks share each layer.

AUTOTP = "tensor_parallel.autotp_size"


def tensor_parallel(ctx: Context) -> int:
    """Ranks that share each layer; 0 or 1 where AutoTP is off."""
    section = ctx.data.get("tensor_parallel")
    size = ctx.value(AUTOTP) if isinstance(section, dict) and "autotp_size" in section else 0
    return size if isinstance(size, int) else 0
