"""Expert parallelism (AutoEP): values of the section, and expert-parallel group sizes."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import describe_type, join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._effective_values import format_division
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._suggest_section import format_key

# The `expert_parallel` section.

EP = "expert_parallel"
TP = "tensor_parallel.autotp_size"


def require_autoep(ctx: Context) -> None:
    """Skip the rule unless AutoEP is on.

    Raises:
        SkipRule: AutoEP is off.
    """
    if EP not in ctx.data or not isinstance(ctx.data[EP], dict) or not ctx.is_on(f"{EP}.enabled"):
        raise SkipRule


def related_switch() -> tuple[str, str]:
    """Return the location of the AutoEP switch, as a related location."""
    return "expert parallelism is switched on here", f"{EP}.enabled"


def autoep_value(ctx: Context, key: str) -> Json:
    """Return the value of a key of `expert_parallel`."""
    return ctx.value(f"{EP}.{key}")


def is_invalid_size(value: Json, minimum: int) -> bool:
    """Whether the engine rejects `value` as a size because it is no integer or below `minimum`."""
    return not isinstance(value, int) or value < minimum


def tensor_parallel_size(ctx: Context) -> int:
    """Return the number of ranks that share each layer; 1 if AutoTP is off."""
    size = ctx.value(TP)
    return max(size, 1) if isinstance(size, int) else 1


# Values that the engine rejects when it starts.

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"


@rule(
    "DSC702", effect="rejected", since="0.19.2", source="module_inject/auto_ep_config.py:parse_autoep_config"
)
def load_balance_coeff_given(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel.load_balance_coeff` is set, but DeepSpeed reserves the key.

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
_DIRECT = (
    "expert_w1",
    "expert_w2",
    "expert_w3",
    "num_experts_attr",
    "top_k_attr",
    "router_pattern",
    "expert_pattern",
    "shared_experts_pattern",
    "shared_experts_gate_pattern",
)
"""Keys that name a direct attribute of a module, which cannot contain a dot."""


def _problem_with_value(ctx: Context, key: str) -> tuple[str, str] | None:
    """Return the problem with the value of `key` and what the engine expects, or None if it accepts the value."""
    value = ctx.raw(f"{EP}.{key}")
    if key in _SIZES:
        minimum = 0 if key in ("comm_qp_margin", "comm_max_tokens_per_rank") else 1
        return ("", f"an integer of at least {minimum}") if is_invalid_size(value, minimum) else None
    if key in _GROUPS:
        too_small = isinstance(value, int | float) and value < 1
        return ("", "an integer of at least 1, or `null`") if too_small or isinstance(value, str) else None
    if key in _SWITCHES:
        is_valid = isinstance(value, bool) or (value is None and key == "has_shared_experts")
        return None if is_valid else ("", "`true` or `false`")
    if key in _DIRECT and value is not None:
        if not isinstance(value, str) or not value:
            return "", "the name of an attribute"
        return (" with a dot", "the name of a direct attribute, without dots") if "." in value else None
    if key == "routed_scaling_factor" and value != "auto" and not isinstance(value, int | float):
        return "", 'a number or `"auto"`'
    return None


@rule("DSC730", effect="crashes", since="0.19.2", source=_VALIDATE)
def unsupported_expert_parallel_value(ctx: Context) -> Iterator[Finding]:
    """A key of `expert_parallel` has a value that the engine rejects when it starts.

    DeepSpeed does not validate the section when it loads the config. The engine validates enum values, sizes,
    switches and attribute names when it is created, and only if `enabled` is true. It converts nothing: `1.0`
    and `"2"` are not sizes.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "relu"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "sigmoid"}}

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "experts.gate"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "gate_proj"}}
    """
    require_autoep(ctx)
    for event in ctx.walk.rejected:
        key = event.path[-1]
        if event.path[0] == EP and key in _ENUMS:
            yield _report_rejected_value(ctx, str(key), "", describe_type(event.verdict.expected))
    for key in ctx.data[EP]:
        problem = _problem_with_value(ctx, key) if ctx.key(f"{EP}.{key}") else None
        if problem:
            yield _report_rejected_value(ctx, key, *problem)


def _report_rejected_value(ctx: Context, key: str, detail: str, expectation: str) -> Finding:
    value = ctx.raw(f"{EP}.{key}")
    formatted = (
        quote_value(value)
        if value is None or isinstance(value, str)
        else f"{json_kind(value)}, {quote_value(value)}"
    )
    return ctx.at(
        f"{EP}.{key}",
        f"{format_key((EP, key))} is {formatted}{detail}, but the engine expects {expectation}",
        help=f"set it to {expectation}",
        related=[related_switch()],
    )


# Group sizes.

_FOLDING = "module_inject/auto_ep_folding.py"


@rule("DSC731", effect="crashes", since="0.19.2", source=f"{_FOLDING}:build_folding_spec")
def expert_parallel_size_misfit(ctx: Context) -> Iterator[Finding]:
    """The world size is not divisible into expert-parallel groups of `autoep_size` ranks.

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
    require_autoep(ctx)
    size = autoep_value(ctx, "autoep_size")
    reserved = autoep_value(ctx, "expert_tensor_parallel_size") if ctx.since("0.19.3") else 1
    if type(reserved) is not int or reserved != 1:
        yield ctx.at(
            f"{EP}.expert_tensor_parallel_size",
            f"`expert_tensor_parallel_size` is {quote_value(reserved)}, but the key is reserved: the engine accepts "
            "only `1`",
            help="remove it",
            related=[related_switch()],
            fix=remove_key((EP, "expert_tensor_parallel_size")),
        )
    elif ctx.world_size and not is_invalid_size(size, 1) and ctx.world_size % size:
        yield ctx.at(
            f"{EP}.autoep_size",
            f"`autoep_size` {quote_value(size)} does not divide the world size {ctx.world_size}: "
            f"{format_division(ctx.world_size, size)}",
            help=f"use {join_alternatives(divisors(ctx.world_size))}, or another number of ranks",
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
    require_autoep(ctx)
    groups, limited = (autoep_value(ctx, key) for key in _GROUPS)
    numbers = isinstance(groups, int | float) and isinstance(limited, int | float)
    if numbers and groups >= 1 and limited > groups:
        yield ctx.at(
            f"{EP}.num_limited_groups",
            f"`num_limited_groups` is {quote_value(limited)}, more than the {quote_value(groups)} "
            "of `num_expert_groups`",
            help=f"set it to at most {quote_value(groups)}",
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
    require_autoep(ctx)
    if autoep_value(ctx, "autoep_size") == 1 and tensor_parallel_size(ctx) <= 1:
        yield ctx.at(
            f"{EP}.autoep_size",
            "`autoep_size` is `1`"
            + ("" if ctx.has(f"{EP}.autoep_size") else " (the default)")
            + ", so every rank keeps all experts",
            help=_suggest_larger_sizes(ctx.world_size),
            related=[related_switch()],
        )


def _suggest_larger_sizes(ranks: int | None) -> str:
    """Suggest sizes that leave each rank fewer experts, or to disable AutoEP on a single rank."""
    if ranks is None:
        return "set it to a number greater than 1 that divides both the experts and the ranks"
    sizes = [size for size in divisors(ranks) if size > 1]
    if not sizes:
        return f"set `{EP}.enabled` to `false`; a single rank cannot share experts"
    return f"use {join_alternatives(sizes[:12])}; it must divide the number of experts too"
