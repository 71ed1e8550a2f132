"""AutoEP: what the engine checks of `expert_parallel` when it starts, and then only if the section is on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.batch.world_sizes import divisors
from dsconfig.diagnostic import Fix, Remove
from dsconfig.dialect import Refused
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.words import expected, kind, one_of, quoted

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"
_FOLDING = "module_inject/auto_ep_folding.py"
_EP = "expert_parallel"


def enabled(ctx: Context) -> None:
    """Go on only where AutoEP is switched on.

    Raises:
        SkipRule: it is not.
    """
    if _EP not in ctx.data or not isinstance(ctx.data[_EP], dict) or not ctx.on(f"{_EP}.enabled"):
        raise SkipRule


def on_here() -> tuple[str, str]:
    """The switch, as a related place."""
    return "expert parallelism is switched on here", f"{_EP}.enabled"


def value(ctx: Context, key: str) -> Any:
    """The value of a key of the section."""
    return ctx.value(f"{_EP}.{key}")


_WORDS = (
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
"""Names of attributes of one object, so that a dot in them leads nowhere."""


def _bad_integer(value: Any, least: int) -> bool:
    return not isinstance(value, int) or value < least


def _wrong(ctx: Context, key: str) -> tuple[str, str] | None:
    """What is wrong with a key, and what it takes; None where the engine accepts it."""
    value = ctx.written(f"{_EP}.{key}")
    if key in _SIZES:
        least = 0 if key in ("comm_qp_margin", "comm_max_tokens_per_rank") else 1
        return ("", f"an integer of at least {least}") if _bad_integer(value, least) else None
    if key in _GROUPS:
        few = isinstance(value, int | float) and value < 1
        return ("", "an integer of at least 1, or `null`") if few or isinstance(value, str) else None
    if key in _SWITCHES:
        fine = isinstance(value, bool) or (value is None and key == "has_shared_experts")
        return None if fine else ("", "`true` or `false`")
    if key in _DIRECT and value is not None:
        if not isinstance(value, str) or not value:
            return "", "the name of an attribute"
        return (" with a dot", "the name of a direct attribute, without dots") if "." in value else None
    if key == "routed_scaling_factor" and value != "auto" and not isinstance(value, int | float):
        return "", 'a number or `"auto"`'
    return None


@rule("DSC730", effect="crashes", since="0.19.2", source=_VALIDATE)
def unsupported_expert_parallel_value(ctx: Context) -> Iterator[Finding]:
    """A key of `expert_parallel` has a value that the engine refuses when it starts.

    DeepSpeed reads the section without looking at it, and checks words, sizes, switches and names of
    attributes when the engine is made, and then only if `enabled` is true. Nothing is converted: `1.0` and
    `"2"` are no sizes.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "relu"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "score_func": "sigmoid"}}

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "experts.gate"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "expert_w1": "gate_proj"}}
    """
    enabled(ctx)
    for event in ctx.walk.refused:
        word = event.path[-1]
        if event.path[0] == _EP and word in _WORDS and isinstance(event.verdict, Refused):
            yield _refused(ctx, str(word), "", expected(event.verdict.expected))
    for word in ctx.data[_EP]:
        wrong = _wrong(ctx, word) if ctx.key(f"{_EP}.{word}") else None
        if wrong:
            yield _refused(ctx, word, *wrong)


def _refused(ctx: Context, word: str, how: str, takes: str) -> Finding:
    value = ctx.written(f"{_EP}.{word}")
    shown = quoted(value) if value is None or isinstance(value, str) else f"{kind(value)}, {quoted(value)}"
    return ctx.at(
        f"{_EP}.{word}",
        f"`{word}` is {shown}{how}, and the engine takes {takes}",
        help=f"give {takes}",
        related=[on_here()],
    )


@rule("DSC731", effect="crashes", since="0.19.2", source=f"{_FOLDING}:build_folding_spec")
def expert_parallel_size_misfit(ctx: Context) -> Iterator[Finding]:
    """The ranks cannot be shared out to groups of `autoep_size`.

    Every group of experts takes `autoep_size` × `expert_tensor_parallel_size` ranks, and these have to divide
    the ranks of a pipeline stage; so they divide the world size too. The second factor is reserved: nothing
    but 1 works.

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
    enabled(ctx)
    size = value(ctx, "autoep_size")
    reserved = value(ctx, "expert_tensor_parallel_size") if ctx.since("0.19.3") else 1
    if type(reserved) is not int or reserved != 1:
        path = f"{_EP}.expert_tensor_parallel_size"
        yield ctx.at(
            path,
            f"`expert_tensor_parallel_size` is {quoted(reserved)}, but it is reserved: the engine takes only "
            "`1`",
            help="remove it",
            related=[on_here()],
            fix=Fix("remove `expert_tensor_parallel_size`", (Remove((_EP, path.rsplit(".", 1)[1])),)),
        )
    elif ctx.world_size and not _bad_integer(size, 1) and ctx.world_size % size:
        yield ctx.at(
            f"{_EP}.autoep_size",
            f"`autoep_size` {quoted(size)} does not divide the world size {ctx.world_size}: "
            f"{ctx.world_size} = {ctx.world_size // size} × {size} + {ctx.world_size % size}",
            help=f"use one of {one_of(divisors(ctx.world_size))}, or another number of ranks",
        )


@rule("DSC733", effect="crashes", since="0.19.2", source=_VALIDATE)
def more_limited_groups_than_groups(ctx: Context) -> Iterator[Finding]:
    """A token may choose from more groups of experts than there are.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "num_expert_groups": 2, "num_limited_groups": 4}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "num_expert_groups": 4, "num_limited_groups": 2}}
    """
    enabled(ctx)
    groups, limited = (value(ctx, key) for key in _GROUPS)
    numbers = isinstance(groups, int | float) and isinstance(limited, int | float)
    if numbers and groups >= 1 and limited > groups:
        yield ctx.at(
            f"{_EP}.num_limited_groups",
            f"`num_limited_groups` {quoted(limited)} is more than `num_expert_groups` {quoted(groups)}",
            help=f"give at most {quoted(groups)}",
            related=[("there are this many groups", f"{_EP}.num_expert_groups")],
        )


@rule("DSC737", effect="wasteful", since="0.19.2", source=_VALIDATE)
def expert_parallel_of_size_one(ctx: Context) -> Iterator[Finding]:
    """Expert parallelism is on, and `autoep_size` is 1.

    The MoE layers are replaced, but every rank keeps all experts: no memory is saved.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "autoep_size": 4}}
    """
    enabled(ctx)
    if value(ctx, "autoep_size") == 1:
        yield ctx.at(
            f"{_EP}.autoep_size",
            "`autoep_size` is `1`"
            + ("" if ctx.has(f"{_EP}.autoep_size") else ", its default,")
            + " and every rank keeps all experts",
            help="raise it to a number that divides both the experts and the ranks",
            related=[on_here()],
        )
