"""What DeepSpeed does to values outside of ZeRO and precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.evaluation.context import Context
from dsconfig.model.keyinfo import type_named
from dsconfig.resolve.derived.derivation import Derivation, Find, alone, since

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


def _lower(value: Json) -> Json:
    return value.lower() if isinstance(value, str) else value


def _upper(value: Json) -> Json:
    return value.upper() if isinstance(value, str) else value


def _optimizer(ctx: Context, value: Json) -> Json:
    kind = type_named("Optimizer", value)
    return value.lower() if kind is not None and ctx.release in kind.releases else value


def _breakdown(ctx: Context, value: Json) -> Json:
    profiler = ctx.value("flops_profiler.enabled")
    whole = isinstance(value, int) and isinstance(profiler, int)  # booleans among them
    return value | profiler if whole else value


def _as(kind: type, value: Json) -> Json:
    """The value made one of this type; itself where DeepSpeed would fail to make it."""
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return value


def _made(kind: type) -> Find:
    return alone(lambda value: _as(kind, value))


_BATCHING = "data_efficiency.data_sampling.dynamic_batching"
_CONVERTED: tuple[tuple[str, type], ...] = (
    ("enabled", bool),
    ("lr_scaling_method", str),
    ("min_batch_size", int),
    ("max_batch_size", int),
    ("sequence_picking_order", str),
    ("verbose", bool),
)


def _tokens(ctx: Context, value: Json) -> Json:
    return _as(int, value) if ctx.on(f"{_BATCHING}.enabled") and value is not None else value


def _with_type(section: str) -> Find:
    """The params of an optimizer or scheduler, which DeepSpeed looks for only where there is a type."""

    def find(ctx: Context, value: Json) -> Json:
        return value if ctx.value(f"{section}.type") is not None else None

    return find


def _needed(section: str) -> Find:
    """A switch that its section must have: off where there is no section."""
    return lambda ctx, value: value if ctx.has(section) else False


_SPARSE = "compression_training.sparse_pruning.shared_parameters"


def _offset_end(ctx: Context, value: Json) -> Json:
    return ctx.value(f"{_SPARSE}.schedule_offset") if value is None else value


_LTD = "data_efficiency.data_routing.random_ltd"


def _if_ltd(ctx: Context, value: Json) -> Json:
    return value if ctx.on(f"{_LTD}.enabled") else False


_LAYERS = "compression_training.layer_reduction.enabled"


def _half(value: Json) -> Json:
    """The default of a key that only Python code can give: JSON has no word for torch's types."""
    return "torch.float16" if value is None else value


def _or_false(value: Json) -> Json:
    return value or False


def of_switches() -> Iterator[Derivation]:
    """Switches of sections that are looked at only where they are on."""
    yield Derivation(_LAYERS, alone(_or_false), "compression/config.py:get_layer_reduction")
    source, switch = "runtime/data_pipeline/config.py:get_random_ltd", f"{_LTD}.enabled"
    yield Derivation(switch, _if_ltd, source)
    key, why = f"{_LTD}.layer_token_lr_schedule.enabled", "not looked at: `random_ltd` is off"
    yield Derivation(key, _if_ltd, source, (switch,), why=why)


def of_others() -> Iterator[Derivation]:
    """Keys of other sections, and of none."""
    config = "runtime/config.py:DeepSpeedConfig._initialize_params"
    yield Derivation("optimizer.type", _optimizer, config)
    for section in ("optimizer", "scheduler"):
        source = f"runtime/config.py:get_{section}_params"
        why = "not looked at without `type`"
        yield Derivation(f"{section}.params", _with_type(section), source, why=why)
    for section, reader in (("amp", "get_amp_enabled"), ("progressive_layer_drop", "get_pld_enabled")):
        yield Derivation(f"{section}.enabled", _needed(section), f"runtime/config.py:{reader}")
    profiler = ("flops_profiler.enabled",)
    yield Derivation("wall_clock_breakdown", _breakdown, config, profiler, since("0.4.0"))
    source = "runtime/tensor_parallel/config.py:TPTrainingConfig"
    yield Derivation("tensor_parallel.dtype", alone(_half), source)
    operation = "runtime/config.py:get_gradient_allreduce_op"
    yield Derivation("gradient_allreduce_op", alone(_lower), operation)
    sequence = ("seq_parallel_communication_data_type", "seq_parallel_comm_data_type")
    for key in ("communication_data_type", *sequence):
        yield Derivation(key, alone(_lower), "runtime/config.py:get_communication_data_type")
    tag = "runtime/config.py:get_checkpoint_tag_validation_mode"
    yield Derivation("checkpoint.tag_validation", alone(_upper), tag)
    writer = "runtime/model_checkpointing/config.py:get_checkpoint_writer_config"
    for key in ("type", "data_parallel"):
        yield Derivation(f"checkpoint.writer.{key}", alone(_upper), writer)
    source = "compression/config.py:get_sparse_pruning_shared_parameters"
    yield Derivation(f"{_SPARSE}.schedule_offset_end", _offset_end, source, (f"{_SPARSE}.schedule_offset",))
    source = "runtime/data_pipeline/config.py:get_dynamic_batching"
    yield Derivation(f"{_BATCHING}.max_tokens", _tokens, source)
    for key, kind in _CONVERTED:
        yield Derivation(f"{_BATCHING}.{key}", _made(kind), source)
