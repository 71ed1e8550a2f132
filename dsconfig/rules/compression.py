"""`compression_training`: groups, shared parameters, and settings of the pruning techniques."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import describe_value, join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import related_dtype, training_dtype

# Groups and shared parameters of the techniques.

_FILE = "compression/config.py"
_LAST = "0.19.6"
_ROOT = "compression_training"
_TECHNIQUES = (
    "weight_quantization",
    "activation_quantization",
    "sparse_pruning",
    "row_pruning",
    "head_pruning",
    "channel_pruning",
)
_OUTSIDE = f"{_ROOT}.shared_parameters"


@rule(
    "DSC931",
    effect="rejected",
    since="0.7.0",
    until=_LAST,
    source=f"{_FILE}:get_weight_quantization_different_groups",
)
def compression_group_not_an_object(ctx: Context) -> Iterator[Finding]:
    """A group of a compression technique is not an object.

    `different_groups` maps a user-defined name to an object with `params` and `modules`. DeepSpeed reads every
    group, even if the technique is off.

    Bad:

        {"train_batch_size": 8, "compression_training": {
            "sparse_pruning": {"different_groups": {"sp1": 0.5}}}}

    Good:

        {"train_batch_size": 8, "compression_training": {
            "sparse_pruning": {"different_groups": {"sp1": {"params": {"dense_ratio": 0.5}}}}}}
    """
    for technique in _TECHNIQUES:
        groups = ctx.raw(f"{_ROOT}.{technique}.different_groups")
        for name, group in groups.items() if isinstance(groups, dict) else ():
            if not isinstance(group, dict):
                yield ctx.at(
                    (_ROOT, technique, "different_groups", name),
                    f"group `{name}` is {describe_value(group)} but DeepSpeed expects an object",
                    help="set it to an object with `params` and `modules`, or remove the group",
                )


@rule("DSC935", effect="rejected", since="0.7.0", until=_LAST, source=f"{_FILE}:get_quantize_enabled")
def shared_parameters_outside_technique(ctx: Context) -> Iterator[Finding]:
    """`shared_parameters` is directly in `compression_training`, which makes DeepSpeed fail.

    The key belongs in one of the techniques. When DeepSpeed checks whether weights are quantized, it mistakenly reads
    the key here too, and validates the object as the `shared_parameters` of `weight_quantization`. Up to 0.19.2, if
    `enabled` is true, DeepSpeed then fails on an undefined name.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "compression_training": {"shared_parameters": {"enabled": true}}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "compression_training": {
            "weight_quantization": {"shared_parameters": {"enabled": true}, "different_groups": {}}}}

    Bad:

        {"train_batch_size": 8, "compression_training": {"shared_parameters": {"rounding": "up"}}}

    Good:

        {"train_batch_size": 8, "compression_training": {
            "weight_quantization": {"shared_parameters": {"rounding": "nearest"}, "different_groups": {}}}}
    """
    shared = ctx.raw(_OUTSIDE)
    if shared is MISSING:
        return
    for key, problem in _rejected_keys(shared):
        yield ctx.at(
            f"{_OUTSIDE}{key}",
            f"{problem}: outside a technique, DeepSpeed reads it as a key of `weight_quantization`",
            help="move it to the technique that it belongs to",
        )
    if isinstance(shared, dict) and shared.get("enabled") and ctx.before("0.19.3"):
        yield ctx.at(
            f"{_OUTSIDE}.enabled",
            f"`{_OUTSIDE}.enabled` is {quote_value(shared['enabled'])}: outside a technique, DeepSpeed takes it for"
            " the switch of MoQ, which it no longer supports",
            help=f"move `{_OUTSIDE}` to the technique that it belongs to",
        )


_MEMBERS = {"quantization_type": ("symmetric", "asymmetric"), "rounding": ("nearest", "stochastic")}


def _rejected_keys(shared: Json) -> Iterator[tuple[str, str]]:
    """Yield the keys in the misplaced `shared_parameters` that DeepSpeed rejects, each with the reason."""
    if not isinstance(shared, dict):
        yield "", f"`{_OUTSIDE}` is {json_kind(shared)} instead of an object"
        return
    for key, members in _MEMBERS.items():
        if key in shared and shared[key] not in members:
            yield (
                f".{key}",
                f"`{_OUTSIDE}.{key}` is {quote_value(shared[key])} instead of {join_alternatives(members)}",
            )
    mixed = shared.get("fp16_mixed_quantize", {})
    if not isinstance(mixed, dict):
        yield (
            ".fp16_mixed_quantize",
            f"`{_OUTSIDE}.fp16_mixed_quantize` is {json_kind(mixed)} instead of an object",
        )


@rule(
    "DSC904",
    effect="crashes",
    since="0.7.0",
    until=_LAST,
    source="runtime/engine.py:DeepSpeedEngine._configure_quantization",
)
def optimizer_quantizes_without_fp16(ctx: Context) -> Iterator[Finding]:
    """Weights are quantized in the optimizer step, but the model does not train in fp16.

    Without `quantize_weight_in_forward` the optimizer quantizes the weights, and the engine raises "MoQ
    (quantize in optimization step) weight quantization is only supported for FP16".

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
        "compression_training": {"weight_quantization": {
            "shared_parameters": {"enabled": true}, "different_groups": {}}}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
        "compression_training": {"weight_quantization": {
            "shared_parameters": {"enabled": true, "quantize_weight_in_forward": true},
            "different_groups": {}}}}
    """
    shared = f"{_ROOT}.weight_quantization.shared_parameters"
    if not ctx.is_on(f"{shared}.enabled") or ctx.is_on(f"{shared}.quantize_weight_in_forward"):
        return
    if training_dtype(ctx) != "fp16":
        yield ctx.at(
            f"{shared}.enabled",
            "weights are quantized in the optimizer step, which supports only fp16, but the model trains"
            f" in {training_dtype(ctx)}",
            help=f"set `{shared}.quantize_weight_in_forward` to `true`, or set `{shared}.enabled` to `false`",
            related=related_dtype(ctx),
        )


# Head pruning and snip_momentum.

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
    """Head pruning is on, but `num_heads` is not set.

    DeepSpeed cannot infer from a weight matrix where each head ends, so it requires the number of heads.

    Bad:

        {"train_batch_size": 8, "compression_training": {
            "head_pruning": {"shared_parameters": {"enabled": true}, "different_groups": {}}}}

    Good:

        {"train_batch_size": 8, "compression_training": {
            "head_pruning": {
                "shared_parameters": {"enabled": true, "num_heads": 12}, "different_groups": {}}}}
    """
    if ctx.is_on(f"{_HEADS}.enabled") and not ctx.has(f"{_HEADS}.num_heads"):
        yield ctx.at(
            _HEADS,
            "head pruning is on, but `num_heads` is not set",
            help="add `num_heads`, the number of attention heads per layer",
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
    """`dense_ratio` is not between 0 and 1, as snip_momentum requires.

    The fraction of weights to keep must be greater than 0 and less than 1. DeepSpeed compares the value without
    conversion, so it also rejects true, which equals 1, and quoted numbers. It checks the value even if pruning is off.

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
    if not _condition_holds(lambda: 0 < ratio < 1):
        yield ctx.at(
            path,
            f"`dense_ratio` is {quote_value(ratio)}, but snip_momentum needs a number above 0 and below 1",
            help="set it to the fraction of weights to keep, for example `0.1`",
            related=[("the method is set here", f"{_SPARSE}.method")],
        )


@rule(
    "DSC934",
    effect="rejected",
    since="0.9.3",
    until=_LAST,
    source=f"{_FILE}:get_sparse_pruning_shared_parameters",
)
def snip_momentum_ends_before_it_begins(ctx: Context) -> Iterator[Finding]:
    """`schedule_offset_end` is before `schedule_offset`, which snip_momentum does not allow.

    `schedule_offset` defaults to 1000, and `schedule_offset_end` to `schedule_offset`. If only the end is set, it
    must be at least 1000.

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
    if _condition_holds(lambda: begin <= end):
        return
    relation = "is before" if _condition_holds(lambda: end < begin) else "cannot be compared with"
    wrong = last if ctx.has(last) else first
    yield ctx.at(
        wrong,
        f"`schedule_offset_end` ({quote_value(end)}) {relation} `{first}` ({quote_value(begin)}"
        + (")" if ctx.has(first) else " by default)"),
        help=_suggest_order(begin, end, first, last),
        related=[("pruning starts here", first)] if wrong is last else (),
    )


def _suggest_order(begin: Json, end: Json, first: str, last: str) -> str:
    """Suggest an integer for the begin or end, or for both, with which the two are in order."""
    if isinstance(begin, int):
        return f"set `{last}` to {begin} or more"
    if isinstance(end, int):
        return f"set `{first}` to at most {end}"
    return f"set `{first}` to an integer, and `{last}` to an integer that is at least as large"


def _condition_holds(condition: Json) -> bool:
    """Evaluate a condition that DeepSpeed asserts; return False for a TypeError."""
    try:
        return bool(condition())
    except TypeError:
        return False
