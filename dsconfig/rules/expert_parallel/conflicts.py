"""Options that exclude each other, or need one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.expert_parallel._section import EP, TP, requires_autoep, tensor_parallel_size, value_of

_VALIDATE = "module_inject/auto_ep_config.py:validate_autoep_config"


class _Conflict(NamedTuple):
    """Two options that exclude each other: `key` with `value`, where `holds`."""

    key: str
    value: Json
    since: str
    holds: Callable[[Context], bool]
    why: str
    """Its braces take the value of `other`."""
    help: str
    other: str


def _parallel(ctx: Context) -> bool:
    return isinstance(size := value_of(ctx, "autoep_size"), int) and size > 1


_CONFLICTS = (
    _Conflict(
        "gate_up_impl",
        "fused",
        "0.19.8",
        lambda ctx: not value_of(ctx, "use_grouped_mm"),
        "needs `use_grouped_mm`, which is {}",
        'set `use_grouped_mm` to `true`, or use `"separate"`',
        f"{EP}.use_grouped_mm",
    ),
    _Conflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: value_of(ctx, "comm_backend") != "deepep",
        'needs `comm_backend` `"deepep"`, which is {}',
        'remove `row_weighting_impl`, or set `comm_backend` to `"deepep"`, which needs'
        " an `autoep_size` above 1 and `comm_max_tokens_per_rank`",
        f"{EP}.comm_backend",
    ),
    _Conflict(
        "row_weighting_impl",
        "fused",
        "0.19.8",
        lambda ctx: value_of(ctx, "comm_backend") == "deepep" and value_of(ctx, "autoep_size") == 1,
        "needs an `autoep_size` above 1, and it is {}",
        "set `autoep_size` to 2 or more, or remove `row_weighting_impl`",
        f"{EP}.autoep_size",
    ),
    _Conflict(
        "comm_backend",
        "deepep",
        "0.19.7",
        lambda ctx: value_of(ctx, "comm_max_tokens_per_rank") == 0,
        "needs `comm_max_tokens_per_rank`, which is {}",
        "set `comm_max_tokens_per_rank` to a number greater than 0: `train_micro_batch_size_per_gpu` × the"
        " longest padded sequence",
        f"{EP}.comm_max_tokens_per_rank",
    ),
    _Conflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: tensor_parallel_size(ctx) > 1,
        "does not work with `autotp_size` {}",
        "remove `combine_impl`, or set `autotp_size` to 1",
        TP,
    ),
    _Conflict(
        "combine_impl",
        "fused_weighted_sum",
        "0.19.7",
        lambda ctx: value_of(ctx, "comm_backend") == "deepep" and _parallel(ctx),
        "does not work with `comm_backend` {}, which adds the rows up itself",
        'remove `combine_impl`, or set `comm_backend` to `"comm"`',
        f"{EP}.comm_backend",
    ),
    _Conflict(
        "async_split_plan",
        True,
        "0.19.8",
        lambda ctx: _parallel(ctx) and tensor_parallel_size(ctx) > 1,
        "does not work with `autotp_size` {}",
        "remove `async_split_plan`, or set `autotp_size` to 1",
        TP,
    ),
)


@rule("DSC732", effect="crashes", since="0.19.7", source=_VALIDATE)
def expert_parallel_options_conflict(ctx: Context) -> Iterator[Finding]:
    """Two options of `expert_parallel` exclude each other, or one needs another.

    `gate_up_impl` fused needs `use_grouped_mm`; `row_weighting_impl` fused runs only inside DeepEP;
    `comm_backend` deepep needs `comm_max_tokens_per_rank`; `combine_impl` fused_weighted_sum excludes both
    DeepEP and tensor parallelism, and so does `async_split_plan` the latter.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "comm_backend": "deepep"}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {
            "enabled": true, "comm_backend": "deepep", "comm_max_tokens_per_rank": 8192}}
    """
    requires_autoep(ctx)
    for row in _CONFLICTS:
        written = row.key in ctx.data[EP] and value_of(ctx, row.key) == row.value
        if written and ctx.since(row.since) and row.holds(ctx):
            yield ctx.at(
                f"{EP}.{row.key}",
                f"`{row.key}` {quoted(row.value)} {row.why.format(quoted(ctx.value(row.other)))}",
                help=row.help,
                related=[("the other option stands here", row.other)] if ctx.has(row.other) else [],
            )
