"""Sizes of expert-parallel groups."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import division
from dsconfig.rules.batch.world_sizes import divisors
from dsconfig.rules.expert_parallel._section import (
    EP,
    bad_integer,
    on_here,
    requires_autoep,
    tensor_parallel_size,
    value_of,
)

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"
_FOLDING = "module_inject/auto_ep_folding.py"
_GROUPS = ("num_expert_groups", "num_limited_groups")


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
    requires_autoep(ctx)
    size = value_of(ctx, "autoep_size")
    reserved = value_of(ctx, "expert_tensor_parallel_size") if ctx.since("0.19.3") else 1
    if type(reserved) is not int or reserved != 1:
        yield ctx.at(
            f"{EP}.expert_tensor_parallel_size",
            f"`expert_tensor_parallel_size` is {quoted(reserved)}, but it is reserved: the engine takes only "
            "`1`",
            help="remove it",
            related=[on_here()],
            fix=removal((EP, "expert_tensor_parallel_size")),
        )
    elif ctx.world_size and not bad_integer(size, 1) and ctx.world_size % size:
        yield ctx.at(
            f"{EP}.autoep_size",
            f"`autoep_size` {quoted(size)} does not divide the world size {ctx.world_size}: "
            f"{division(ctx.world_size, size)}",
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
    requires_autoep(ctx)
    groups, limited = (value_of(ctx, key) for key in _GROUPS)
    numbers = isinstance(groups, int | float) and isinstance(limited, int | float)
    if numbers and groups >= 1 and limited > groups:
        yield ctx.at(
            f"{EP}.num_limited_groups",
            f"`num_limited_groups` {quoted(limited)} is more than `num_expert_groups` {quoted(groups)}",
            help=f"give at most {quoted(groups)}",
            related=[("there are this many groups", f"{EP}.num_expert_groups")],
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
    requires_autoep(ctx)
    if value_of(ctx, "autoep_size") == 1 and tensor_parallel_size(ctx) <= 1:
        yield ctx.at(
            f"{EP}.autoep_size",
            "`autoep_size` is `1`"
            + ("" if ctx.has(f"{EP}.autoep_size") else ", its default,")
            + " and every rank keeps all experts",
            help=_larger(ctx.world_size),
            related=[on_here()],
        )


def _larger(ranks: int | None) -> str:
    """The sizes that leave a rank fewer experts; one rank alone has none to share with."""
    if ranks is None:
        return "give a number greater than 1 that divides both the experts and the ranks"
    sizes = [size for size in divisors(ranks) if size > 1]
    if not sizes:
        return f"set `{EP}.enabled` to `false`; one rank has nobody to share them with"
    return f"use {one_of(sizes[:12])}; it must divide the number of experts too"
