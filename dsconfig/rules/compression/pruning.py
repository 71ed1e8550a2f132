"""Head pruning and snip_momentum."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule

_FILE = "compression/config.py"
_LAST = "0.19.6"
_ROOT = "compression_training"
_SPARSE = f"{_ROOT}.sparse_pruning.shared_parameters"
_HEADS = f"{_ROOT}.head_pruning.shared_parameters"


@rule(
    "DSC932",
    effect="rejected",
    since="0.7.0",
    until=_LAST,
    source=f"{_FILE}:get_head_pruning_shared_parameters",
)
def head_pruning_without_num_heads(ctx: Context) -> Iterator[Finding]:
    """Head pruning is on, and `num_heads` is not given.

    DeepSpeed cannot see in a weight matrix where one head ends, so the number of heads must be said.

    Bad:

        {"train_batch_size": 8, "compression_training": {
            "head_pruning": {"shared_parameters": {"enabled": true}, "different_groups": {}}}}

    Good:

        {"train_batch_size": 8, "compression_training": {
            "head_pruning": {
                "shared_parameters": {"enabled": true, "num_heads": 12}, "different_groups": {}}}}
    """
    if ctx.on(f"{_HEADS}.enabled") and not ctx.has(f"{_HEADS}.num_heads"):
        yield ctx.at(
            _HEADS,
            "head pruning is on, but `num_heads` is not given",
            help="add `num_heads`, the number of attention heads of a layer",
            part="key",
            related=[("head pruning is switched on here", f"{_HEADS}.enabled")],
        )


@rule(
    "DSC933",
    effect="rejected",
    since="0.9.3",
    until=_LAST,
    source=f"{_FILE}:get_sparse_pruning_shared_parameters",
)
def snip_momentum_dense_ratio_out_of_bounds(ctx: Context) -> Iterator[Finding]:
    """`dense_ratio` is not between 0 and 1, and `method` is snip_momentum.

    The share of weights that stay must be greater than 0 and less than 1. DeepSpeed compares what is written:
    true, which is 1, and numbers in quotes are refused too. It does so whether pruning is on or off.

    Bad:

        {"train_batch_size": 8, "compression_training": {"sparse_pruning": {
            "shared_parameters": {"method": "snip_momentum", "dense_ratio": 10}, "different_groups": {}}}}

    Good:

        {"train_batch_size": 8, "compression_training": {"sparse_pruning": {
            "shared_parameters": {"method": "snip_momentum", "dense_ratio": 0.1}, "different_groups": {}}}}
    """
    path = f"{_SPARSE}.dense_ratio"
    if ctx.value(f"{_SPARSE}.method") != "snip_momentum" or not ctx.has(path):
        return
    ratio = ctx.value(path)
    if not _holds(lambda: 0 < ratio < 1):
        yield ctx.at(
            path,
            f"`dense_ratio` is {quoted(ratio)}, but snip_momentum needs a number above 0 and below 1",
            help="give the share of weights that stay, for example `0.1`",
            related=[("the method is chosen here", f"{_SPARSE}.method")],
        )


@rule(
    "DSC934",
    effect="rejected",
    since="0.9.3",
    until=_LAST,
    source=f"{_FILE}:get_sparse_pruning_shared_parameters",
)
def snip_momentum_ends_before_it_begins(ctx: Context) -> Iterator[Finding]:
    """`schedule_offset_end` lies before `schedule_offset`, and `method` is snip_momentum.

    Left out, `schedule_offset` is 1000 and the end is the same step, so an end alone must be at least 1000.

    Bad:

        {"train_batch_size": 8, "compression_training": {"sparse_pruning": {
            "shared_parameters": {"method": "snip_momentum", "schedule_offset_end": 500},
            "different_groups": {}}}}

    Good:

        {"train_batch_size": 8, "compression_training": {"sparse_pruning": {
            "shared_parameters": {
                "method": "snip_momentum", "schedule_offset": 100, "schedule_offset_end": 500},
            "different_groups": {}}}}
    """
    if ctx.value(f"{_SPARSE}.method") != "snip_momentum":
        return
    first, last = f"{_SPARSE}.schedule_offset", f"{_SPARSE}.schedule_offset_end"
    begin = ctx.value(first)
    end = ctx.value(last) if ctx.has(last) else begin
    if _holds(lambda: begin <= end):
        return
    relation = "comes before" if _holds(lambda: end < begin) else "cannot be compared with"
    wrong = last if ctx.has(last) else first
    yield ctx.at(
        wrong,
        f"`schedule_offset_end`, {quoted(end)}, {relation} `{first}`, {quoted(begin)}"
        + ("" if ctx.has(first) else ", its default"),
        help=_order(begin, end, first, last),
        related=[("pruning begins here", first)] if wrong is last else (),
    )


def _order(begin: Json, end: Json, first: str, last: str) -> str:
    """What brings the two in order: an integer beside one that is there, else two."""
    if isinstance(begin, int):
        return f"set `{last}` to an integer of at least {begin}"
    if isinstance(end, int):
        return f"set `{first}` to an integer of at most {end}"
    return f"set `{first}` to an integer and set `{last}` to an integer that is no less"


def _holds(condition: Json) -> bool:
    """Whether what DeepSpeed asserts is true; a comparison that Python refuses is not."""
    try:
        return bool(condition())
    except TypeError:
        return False
