"""Conflicts of AutoEP: its own options, tensor parallelism, ZeRO stage 3, and models without experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import OPTIMIZER, PARAM, effective_stage, stage_path
from dsconfig.rules._model_facts import DENSE, has_model, trained_model
from dsconfig.rules.expert_parallel.section import (
    EP,
    TP,
    autoep_value,
    related_switch,
    require_autoep,
    tensor_parallel_size,
)

# Conflicting options.

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"


class _OptionConflict(NamedTuple):
    """Conflict of two options: `key` set to `value`, in a config for which `holds` is true."""

    key: str
    value: Json
    since: str
    holds: Callable[[Context], bool]
    why: str
    """Format string for the reason; its placeholder is the value of `other`."""
    help: str
    other: str


def _is_expert_parallel(ctx: Context) -> bool:
    return isinstance(size := autoep_value(ctx, "autoep_size"), int) and size > 1


_CONFLICTS = (
    _OptionConflict(
        "gate_up_impl",
        "fused",
        "0.19.8",
        lambda ctx: not autoep_value(ctx, "use_grouped_mm"),
        "needs `use_grouped_mm`, but it is {}",
        'set `use_grouped_mm` to `true`, or use `"separate"`',
        f"{EP}.use_grouped_mm",
    ),
    _OptionConflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: autoep_value(ctx, "comm_backend") != "deepep",
        'needs `comm_backend` `"deepep"`, but it is {}',
        'remove `row_weighting_impl`, or set `comm_backend` to `"deepep"`, which needs'
        " an `autoep_size` above 1 and `comm_max_tokens_per_rank`",
        f"{EP}.comm_backend",
    ),
    _OptionConflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: autoep_value(ctx, "comm_backend") == "deepep" and autoep_value(ctx, "autoep_size") == 1,
        "needs an `autoep_size` above 1, but it is {}",
        "set `autoep_size` to 2 or more, or remove `row_weighting_impl`",
        f"{EP}.autoep_size",
    ),
    _OptionConflict(
        "comm_backend",
        "deepep",
        "0.19.7",
        lambda ctx: autoep_value(ctx, "comm_max_tokens_per_rank") == 0,
        "needs `comm_max_tokens_per_rank`, but it is {}",
        "set `comm_max_tokens_per_rank` to a number greater than 0: `train_micro_batch_size_per_gpu` × the"
        " longest padded sequence",
        f"{EP}.comm_max_tokens_per_rank",
    ),
    _OptionConflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: tensor_parallel_size(ctx) > 1,
        "does not work with `autotp_size` {}",
        "remove `combine_impl`, or set `autotp_size` to 1",
        TP,
    ),
    _OptionConflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: autoep_value(ctx, "comm_backend") == "deepep" and _is_expert_parallel(ctx),
        "does not work with `comm_backend` {}, which sums the rows itself",
        'remove `combine_impl`, or set `comm_backend` to `"comm"`',
        f"{EP}.comm_backend",
    ),
    _OptionConflict(
        "async_split_plan",
        True,
        "0.19.8",
        lambda ctx: _is_expert_parallel(ctx) and tensor_parallel_size(ctx) > 1,
        "does not work with `autotp_size` {}",
        "remove `async_split_plan`, or set `autotp_size` to 1",
        TP,
    ),
)


@rule("DSC732", effect="crashes", since="0.19.7", source=_VALIDATE)
def expert_parallel_options_conflict(ctx: Context) -> Iterator[Finding]:
    """Two options of `expert_parallel` conflict, or one requires another.

    `gate_up_impl` "fused" requires `use_grouped_mm`. `row_weighting_impl` "fused" works only with DeepEP.
    `comm_backend` "deepep" requires `comm_max_tokens_per_rank`. `combine_impl` "fused_weighted_sum" does not
    work with DeepEP or tensor parallelism, and `async_split_plan` does not work with tensor parallelism.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "comm_backend": "deepep"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "comm_backend": "deepep", "comm_max_tokens_per_rank": 8192}}
    """
    require_autoep(ctx)
    for row in _CONFLICTS:
        is_set = row.key in ctx.data[EP] and autoep_value(ctx, row.key) == row.value
        if is_set and ctx.since(row.since) and row.holds(ctx):
            yield ctx.at(
                f"{EP}.{row.key}",
                f"`{row.key}` {quote_value(row.value)} {row.why.format(quote_value(ctx.value(row.other)))}",
                help=row.help,
                related=[("the other option is set here", row.other)] if ctx.has(row.other) else [],
            )


# AutoEP combined with tensor parallelism and ZeRO stage 3.

_FOLDING = "module_inject/auto_ep_folding.py:validate_folding_global"


@rule("DSC734", effect="crashes", since="0.19.2", source=_FOLDING)
def expert_parallel_with_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """Expert and tensor parallelism are both on with a feature that does not support the combination.

    DeepSpeed 0.19.2 does not combine them at all. Later releases fold both onto the same ranks if `autoep_size`
    is above 1, and reject DeepCompile, `use_data_before_expert_parallelism`, sequence parallelism and every
    offload section, even with the device "none".

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 2},
         "tensor_parallel": {"autotp_size": 2}, "compile": {"deepcompile": true}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 2},
         "tensor_parallel": {"autotp_size": 2}}
    """
    require_autoep(ctx)
    size = tensor_parallel_size(ctx)
    if size <= 1:
        return
    tensor_parallel_on = "tensor parallelism is switched on here", TP
    if ctx.before("0.19.3"):
        yield ctx.at(
            EP,
            f"expert parallelism does not work with `autotp_size` {size} in DeepSpeed {ctx.release_name}",
            help="set `autotp_size` to 1, or upgrade DeepSpeed to 0.19.3 or later",
            part="key",
            related=[tensor_parallel_on],
        )
    elif autoep_value(ctx, "autoep_size") == 1:
        yield ctx.at(
            f"{EP}.autoep_size",
            f"`autoep_size` is `1`, but must be above 1 together with `autotp_size` {size}",
            help="set `autoep_size` to 2 or more, or set `autotp_size` to 1",
            related=[tensor_parallel_on],
        )
    else:
        for path, feature in _UNSUPPORTED.items():
            if _is_option_used(ctx, path):
                yield ctx.at(
                    path,
                    f"{feature} does not work with expert parallelism and `autotp_size` {size}",
                    help="remove it, or set `autotp_size` to 1",
                    part="key",
                    related=[related_switch(), tensor_parallel_on],
                )


_UNSUPPORTED = {
    "compile.deepcompile": "`deepcompile`",
    "use_data_before_expert_parallelism": "`use_data_before_expert_parallelism`",
    "sequence_parallel_size": "a `sequence_parallel_size` above 1",
    OPTIMIZER: "an `offload_optimizer` section (with any device)",
    PARAM: "an `offload_param` section (with any device)",
}


def _is_option_used(ctx: Context, path: str) -> bool:
    if not ctx.has(path):
        return False
    if path == "sequence_parallel_size":
        size = ctx.value(path)
        return isinstance(size, int) and size > 1
    return ctx.value(path) is not None if path in (OPTIMIZER, PARAM) else ctx.is_on(path)


@rule("DSC735", effect="crashes", since="0.19.3", source=_FOLDING)
def parallel_presets_differ(ctx: Context) -> Iterator[Finding]:
    """`preset_model` differs between tensor parallelism and expert parallelism.

    The engine compares the two if expert parallelism is on, even if tensor parallelism is off.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"preset_model": "mixtral"},
         "expert_parallel": {"enabled": true, "autoep_size": 2, "preset_model": "deepseek_v2"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"preset_model": "mixtral"},
         "expert_parallel": {"enabled": true, "autoep_size": 2, "preset_model": "mixtral"}}
    """
    require_autoep(ctx)
    path = "tensor_parallel.preset_model"
    tensor, expert = ctx.value(path), autoep_value(ctx, "preset_model")
    if tensor is not None and expert is not None and tensor != expert:
        yield ctx.at(
            path,
            f"`{path}` is {quote_value(tensor)}, but `{EP}.preset_model` is {quote_value(expert)}",
            help=f"write {quote_value(expert)}, or remove it",
            related=[("the other preset is set here", f"{EP}.preset_model")],
        )


@rule(
    "DSC736",
    effect="ignored",
    since="0.19.3",
    source="runtime/engine.py:DeepSpeedEngine._validate_zero3_moe_compatibility",
)
def zero_3_option_without_expert_parallel_support(ctx: Context) -> Iterator[Finding]:
    """AutoEP at ZeRO stage 3 does not support an option that is on.

    The engine rejects quantized gradients, hierarchical partitions (`zero_hpz_partition_size`) and sequence
    parallelism if the model has MoE layers. Without MoE layers `expert_parallel` has no effect.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 2},
         "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 2},
         "zero_optimization": {"stage": 2}}
    """
    require_autoep(ctx)
    if effective_stage(ctx) != 3:
        return
    for path, off in (
        ("zero_optimization.zero_quantized_gradients", False),
        ("zero_optimization.zero_hpz_partition_size", 1),
        ("sequence_parallel_size", 1),
    ):
        value = ctx.value(path) if ctx.has(path) else off
        if isinstance(value, int | float) and value > off:
            name = path.rsplit(".", 1)[-1]
            yield ctx.at(
                path,
                f"`{name}` is {quote_value(value)}, but AutoEP rejects it at ZeRO stage 3 if the model has MoE "
                "layers",
                help=f"remove it (the default is {quote_value(off)}), or use stage 2",
                related=[related_switch(), ("the stage is set here", stage_path(ctx))],
                fix=Fix(f"set `{name}` to {quote_value(off)}", (SetValue(ctx.written_path(path), off),)),
            )


# Models without experts.

_CHOICES = ("preset_model", "moe_layer_pattern")


@rule("DSC711", effect="ignored", since="0.19.2", source="module_inject/auto_ep.py:AutoEP.ep_parser")
def expert_parallel_without_experts(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel` is on, but the model has no experts.

    AutoEP logs that it found no MoE layers, and replaces nothing. It raises if `preset_model` or
    `moe_layer_pattern` is set. dsconfig reports this only if it knows the model.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    if not has_model(ctx):
        return
    require_autoep(ctx)
    trained = trained_model(ctx)
    if len(trained.kinds) != 1 or trained.kinds[0] not in DENSE:
        return
    chosen = next((key for key in _CHOICES if autoep_value(ctx, key) is not None), None)
    message = f"expert parallelism is on, but {trained.shown} (model type {trained.kinds[0]}) has no experts"
    yield ctx.at(
        f"{EP}.enabled",
        message if chosen is None else f"{message}, and AutoEP raises because `{chosen}` is set",
        help=f"set `{EP}.enabled` to `false`",
        effect="ignored" if chosen is None else "crashes",
    )
