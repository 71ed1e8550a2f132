"""Expert parallelism (AutoEP): values, group sizes, and conflicts with other features."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import describe_type, join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._effective_values import OPTIMIZER, PARAM, effective_stage, format_remainder, stage_path
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._model_facts import DENSE, has_model, trained_model
from dsconfig.rules._suggest_section import format_key

# The `expert_parallel` section.

EP = "expert_parallel"
TP = "tensor_parallel.autotp_size"


def _require_autoep(ctx: Context) -> None:
    """Skip the rule unless AutoEP is enabled.

    Raises:
        SkipRule: AutoEP is off.
    """
    if EP not in ctx.data or not isinstance(ctx.data[EP], dict) or not ctx.is_on(f"{EP}.enabled"):
        raise SkipRule


def _related_switch() -> tuple[str, str]:
    """Return the AutoEP switch as a related location."""
    return "expert parallelism is switched on here", f"{EP}.enabled"


def _autoep_value(ctx: Context, key: str) -> Json:
    """Return the value of a key of `expert_parallel`."""
    return ctx.value(f"{EP}.{key}")


def _is_invalid_size(value: Json, minimum: int) -> bool:
    """Return whether the engine rejects a size because it is too small or not an integer."""
    return not isinstance(value, int) or value < minimum


def _tensor_parallel_size(ctx: Context) -> int:
    """Return the number of ranks that share each layer; 1 if AutoTP is off."""
    size = ctx.value(TP)
    return max(size, 1) if isinstance(size, int) else 1


# Values that the engine rejects when it starts.

_CONFIG = "module_inject/auto_ep_config.py"
_VALIDATE = f"{_CONFIG}:validate_autoep_config"
_FOLDING = "module_inject/auto_ep_folding.py"


@rule("DSC702", effect="rejected", since="0.19.2", source=f"{_CONFIG}:parse_autoep_config")
def load_balance_coeff_given(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel.load_balance_coeff` is set, but DeepSpeed reserves the key for later use.

    DeepSpeed rejects every value except null, even if expert parallelism is off.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "load_balance_coeff": 0.001}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}
    """
    path = "expert_parallel.load_balance_coeff"
    value = ctx.value(path)
    if value is not None:
        yield ctx.at(
            path,
            f"`load_balance_coeff` is {quote_value(value)}, but DeepSpeed reserves the key and accepts only `null`",
            help="remove it",
            fix=remove_key(("expert_parallel", "load_balance_coeff")),
        )


_ENUMS = (
    "preset_model",
    "score_apply",
    "combine_impl",
    "row_weighting_impl",
    "gate_up_impl",
    "comm_backend",
    "score_func",
    "expert_activation",
)
_SIZES = ("autoep_size", "comm_num_sm", "comm_qp_margin", "comm_max_tokens_per_rank")
_GROUPS = ("num_expert_groups", "num_limited_groups")
_SWITCHES = ("validate_folding_routing", "async_split_plan", "has_shared_experts")
_NAMES = ("expert_w1", "expert_w2", "expert_w3", "num_experts_attr", "top_k_attr")
_PATTERNS = ("router_pattern", "expert_pattern", "shared_experts_pattern", "shared_experts_gate_pattern")
_ATTRIBUTES = (*_NAMES, *_PATTERNS)
"""Keys with the name of an attribute, which the engine passes to `getattr`, or with a pattern for such names."""


def _expected_value(ctx: Context, key: str) -> str | None:
    """Return a phrase for the values that the engine accepts for a key, or None if its value is one of them."""
    value = ctx.raw(f"{EP}.{key}")
    if key in _SIZES:
        may_be_zero = key in ("comm_qp_margin", "comm_max_tokens_per_rank")
        expected = "a non-negative integer" if may_be_zero else "a positive integer"
        return expected if _is_invalid_size(value, 0 if may_be_zero else 1) else None
    if key in _GROUPS:
        too_small = isinstance(value, int | float) and value < 1
        return "a positive integer, or `null`" if too_small or isinstance(value, str) else None
    if key in _SWITCHES:
        is_valid = isinstance(value, bool) or (value is None and key == "has_shared_experts")
        return None if is_valid else "`true` or `false`"
    if key in _ATTRIBUTES and value is not None and (not isinstance(value, str) or not value):
        return "the name of an attribute"
    if key == "routed_scaling_factor" and value != "auto" and not isinstance(value, int | float):
        return 'a number or `"auto"`'
    return None


@rule("DSC730", effect="crashes", since="0.19.2", source=_VALIDATE)
def unsupported_expert_parallel_value(ctx: Context) -> Iterator[Finding]:
    """A key of `expert_parallel` has a value that the engine rejects on start.

    DeepSpeed does not validate the section when it loads the config. The engine validates enum values, sizes, switches
    and attribute names when it is created, and only if `enabled` is true. It converts no values: `1.0` and `"2"` are
    not valid sizes.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "relu"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "sigmoid"}}

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "experts.gate"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "gate_proj"}}
    """
    _require_autoep(ctx)
    for event in ctx.walk.rejected:
        key = event.path[-1]
        if event.path[0] == EP and key in _ENUMS:
            yield _report_rejected_value(ctx, str(key), describe_type(event.verdict.expected))
    for key in ctx.data[EP]:
        if ctx.key(f"{EP}.{key}") is None:
            continue
        if expectation := _expected_value(ctx, key):
            yield _report_rejected_value(ctx, key, expectation)
        elif key in _ATTRIBUTES and "." in str(value := ctx.raw(f"{EP}.{key}")):
            yield _report_dotted_name(ctx, key, str(value))


def _report_rejected_value(ctx: Context, key: str, expectation: str) -> Finding:
    value = ctx.raw(f"{EP}.{key}")
    kind = "" if value is None or isinstance(value, str) else f"{json_kind(value)}, "
    return ctx.at(
        f"{EP}.{key}",
        f"{format_key((EP, key))} is {kind}{quote_value(value)}, but the engine expects {expectation}",
        help=f"set it to {expectation}",
        related=[_related_switch()],
    )


def _report_dotted_name(ctx: Context, key: str, value: str) -> Finding:
    name = value.rpartition(".")[2]
    return ctx.at(
        f"{EP}.{key}",
        f"{format_key((EP, key))} is {quote_value(value)}, but the engine does not follow dotted paths",
        help="set it to the name of one attribute" + (f", such as {quote_value(name)}" if name else ""),
        related=[_related_switch()],
    )


# Group sizes.


@rule("DSC731", effect="crashes", since="0.19.2", source=f"{_FOLDING}:build_folding_spec")
def expert_parallel_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """The world size is not a multiple of the size of an expert-parallel group.

    An expert-parallel group has `autoep_size` × `expert_tensor_parallel_size` ranks, which must divide the
    ranks of a pipeline stage, and therefore the world size. The second factor is reserved: DeepSpeed accepts
    only 1.

    Bad, world size 6:

        {"train_batch_size": 12, "expert_parallel": {"enabled": true, "autoep_size": 4}}

    Good, world size 6:

        {"train_batch_size": 12, "expert_parallel": {"enabled": true, "autoep_size": 3}}

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_tensor_parallel_size": 2}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_tensor_parallel_size": 1}}

    Fixed:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}
    """
    _require_autoep(ctx)
    size = _autoep_value(ctx, "autoep_size")
    reserved = _autoep_value(ctx, "expert_tensor_parallel_size") if ctx.since("0.19.3") else 1
    if type(reserved) is not int or reserved != 1:
        yield ctx.at(
            f"{EP}.expert_tensor_parallel_size",
            f"`expert_tensor_parallel_size` is {quote_value(reserved)}, but the key is reserved and must be `1`",
            help="remove it",
            related=[_related_switch()],
            fix=remove_key((EP, "expert_tensor_parallel_size")),
        )
    elif ctx.world_size and not _is_invalid_size(size, 1) and ctx.world_size % size:
        yield ctx.at(
            f"{EP}.autoep_size",
            f"`autoep_size` {quote_value(size)} does not divide the world size {ctx.world_size} "
            f"{format_remainder(ctx.world_size, size)}",
            help=f"set `autoep_size` to {join_alternatives(divisors(ctx.world_size))}, or change the number of ranks",
        )


@rule("DSC733", effect="crashes", since="0.19.2", source=_VALIDATE)
def more_limited_groups_than_groups(ctx: Context) -> Iterator[Finding]:
    """`num_limited_groups` is larger than `num_expert_groups`.

    A token cannot be routed to more expert groups than exist.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "num_expert_groups": 2, "num_limited_groups": 4}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "num_expert_groups": 4, "num_limited_groups": 2}}
    """
    _require_autoep(ctx)
    groups, limited = (_autoep_value(ctx, key) for key in _GROUPS)
    numbers = isinstance(groups, int | float) and isinstance(limited, int | float)
    if numbers and groups >= 1 and limited > groups:
        yield ctx.at(
            f"{EP}.num_limited_groups",
            f"`num_limited_groups` is {quote_value(limited)}, more than the {quote_value(groups)} "
            "of `num_expert_groups`",
            help=f"set `num_limited_groups` to at most {quote_value(groups)}",
            related=[("the number of groups is set here", f"{EP}.num_expert_groups")],
        )


@rule("DSC737", effect="wasteful", since="0.19.2", source=_VALIDATE)
def expert_parallel_of_size_one(ctx: Context) -> Iterator[Finding]:
    """Expert parallelism is on with an `autoep_size` of 1, which saves no memory.

    AutoEP replaces the MoE layers, but every rank keeps all experts.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 4}}
    """
    _require_autoep(ctx)
    if _autoep_value(ctx, "autoep_size") == 1 and _tensor_parallel_size(ctx) <= 1:
        yield ctx.at(
            f"{EP}.autoep_size",
            "`autoep_size` is `1`"
            + ("" if ctx.has(f"{EP}.autoep_size") else " (the default)")
            + ", so every rank keeps all experts",
            help=_suggest_larger_sizes(ctx.world_size),
            related=[_related_switch()],
        )


def _suggest_larger_sizes(ranks: int | None) -> str:
    """Suggest group sizes with fewer experts per rank; for a single rank, suggest disabling AutoEP."""
    if ranks is None:
        return "set it to a number greater than 1 that divides both the number of experts and the number of ranks"
    sizes = [size for size in divisors(ranks) if size > 1]
    if not sizes:
        return f"set `{EP}.enabled` to `false`; a single rank cannot share experts"
    return f"use {join_alternatives(sizes[:12])}; it must divide the number of experts too"


# Conflicting options.


class _OptionConflict(NamedTuple):
    """The conflict of a `value` of `key` with any config for which `holds` returns true."""

    key: str
    value: Json
    since: str
    holds: Callable[[Context], bool]
    why: str
    """Format string for the reason; its placeholder is the value of `other`."""
    help: str
    other: str


def _is_expert_parallel(ctx: Context) -> bool:
    return isinstance(size := _autoep_value(ctx, "autoep_size"), int) and size > 1


_CONFLICTS = (
    _OptionConflict(
        "gate_up_impl",
        "fused",
        "0.19.8",
        lambda ctx: not _autoep_value(ctx, "use_grouped_mm"),
        "needs `use_grouped_mm`, but it is {}",
        'set `use_grouped_mm` to `true`, or use `"separate"`',
        f"{EP}.use_grouped_mm",
    ),
    _OptionConflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: _autoep_value(ctx, "comm_backend") != "deepep",
        'needs `comm_backend` `"deepep"`, but it is {}',
        'remove `row_weighting_impl`, or set `comm_backend` to `"deepep"`, which needs'
        " an `autoep_size` above 1 and `comm_max_tokens_per_rank`",
        f"{EP}.comm_backend",
    ),
    _OptionConflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: _autoep_value(ctx, "comm_backend") == "deepep" and _autoep_value(ctx, "autoep_size") == 1,
        "needs an `autoep_size` above 1, but it is {}",
        "set `autoep_size` to 2 or more, or remove `row_weighting_impl`",
        f"{EP}.autoep_size",
    ),
    _OptionConflict(
        "comm_backend",
        "deepep",
        "0.19.7",
        lambda ctx: _autoep_value(ctx, "comm_max_tokens_per_rank") == 0,
        "needs `comm_max_tokens_per_rank`, but it is {}",
        "set `comm_max_tokens_per_rank` to a positive integer: `train_micro_batch_size_per_gpu` × the length of"
        " the longest padded sequence",
        f"{EP}.comm_max_tokens_per_rank",
    ),
    _OptionConflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: _tensor_parallel_size(ctx) > 1,
        "does not work with `autotp_size` {}",
        "remove `combine_impl`, or set `autotp_size` to 1",
        TP,
    ),
    _OptionConflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: _autoep_value(ctx, "comm_backend") == "deepep" and _is_expert_parallel(ctx),
        "does not work with `comm_backend` {}, which sums the rows itself",
        'remove `combine_impl`, or set `comm_backend` to `"comm"`',
        f"{EP}.comm_backend",
    ),
    _OptionConflict(
        "async_split_plan",
        True,
        "0.19.8",
        lambda ctx: _is_expert_parallel(ctx) and _tensor_parallel_size(ctx) > 1,
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
    _require_autoep(ctx)
    for row in _CONFLICTS:
        is_set = row.key in ctx.data[EP] and _autoep_value(ctx, row.key) == row.value
        if is_set and ctx.since(row.since) and row.holds(ctx):
            yield ctx.at(
                f"{EP}.{row.key}",
                f"`{row.key}` {quote_value(row.value)} {row.why.format(quote_value(ctx.value(row.other)))}",
                help=row.help,
                related=[("the other option is set here", row.other)] if ctx.has(row.other) else [],
            )


# AutoEP combined with tensor parallelism and ZeRO stage 3.


@rule("DSC734", effect="crashes", since="0.19.2", source=f"{_FOLDING}:validate_folding_global")
def expert_parallel_with_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """Expert and tensor parallelism are both on, with a feature that does not support the combination.

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
    _require_autoep(ctx)
    size = _tensor_parallel_size(ctx)
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
    elif _autoep_value(ctx, "autoep_size") == 1:
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
                    related=[_related_switch(), tensor_parallel_on],
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


@rule("DSC735", effect="crashes", since="0.19.3", source=f"{_FOLDING}:validate_folding_global")
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
    _require_autoep(ctx)
    path = "tensor_parallel.preset_model"
    tensor, expert = ctx.value(path), _autoep_value(ctx, "preset_model")
    if tensor is not None and expert is not None and tensor != expert:
        yield ctx.at(
            path,
            f"`{path}` is {quote_value(tensor)}, but `{EP}.preset_model` is {quote_value(expert)}; "
            "they must be equal",
            help=f"set `{path}` to {quote_value(expert)}, or remove it",
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
    _require_autoep(ctx)
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
                related=[_related_switch(), ("the stage is set here", stage_path(ctx))],
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
    _require_autoep(ctx)
    trained = trained_model(ctx)
    if len(trained.kinds) != 1 or trained.kinds[0] not in DENSE:
        return
    chosen = next((key for key in _CHOICES if _autoep_value(ctx, key) is not None), None)
    message = f"expert parallelism is on, but {trained.shown} (model type {trained.kinds[0]}) has no experts"
    yield ctx.at(
        f"{EP}.enabled",
        message if chosen is None else f"{message}, and AutoEP raises because `{chosen}` is set",
        help=f"set `{EP}.enabled` to `false`",
        effect="ignored" if chosen is None else "crashes",
    )
