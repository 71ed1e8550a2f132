"""ZeRO buckets and gradient reduction: overlap, layout and norm."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import EffectiveValueIs, KeyEquals, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    PARAM,
    ZERO,
    describe_device,
    describe_stage,
    effective_stage,
    offload_device,
    offload_device_path,
    related_stage,
    uses_bf16_optimizer,
    zero_section,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules.optimizer.muon import requires_reduce_scatter_off

# Buckets and limits that crash, or that waste memory or time.

_STAGES_1_2 = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__"
_OVERLAP = f"{ZERO}.overlap_comm"


@rule("DSC436", effect="crashes", since="0.5.2", source=_STAGES_1_2)
def odd_allgather_bucket(ctx: Context) -> Iterator[Finding]:
    """`allgather_bucket_size` is odd at stage 1 or 2.

    An all-gather has to start at a multiple of 4 bytes, which is two 16-bit elements, so the optimizer
    accepts only even sizes: "allgather_bucket_size must be a multiple of nccl_start_alignment_factor".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 499999999}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 500000000}}
    """
    path = f"{ZERO}.allgather_bucket_size"
    if not ctx.has(path):
        return
    size = ctx.value(path)
    if not isinstance(size, int | float) or size % 2 == 0 or effective_stage(ctx) not in (1, 2):
        return
    if not uses_bf16_optimizer(ctx):
        even = int(size) + 1
        yield ctx.at(
            path,
            f"`allgather_bucket_size` is {size}, an odd number, but stages 1 and 2 accept only even ones",
            help=f"set it to {quote_value(even)}",
            related=related_stage(ctx),
            fix=Fix(f"replace with {quote_value(even)}", (SetValue(ctx.written_path(path), even),)),
        )


_LARGE, _MAX_NUMEL = 1_000_000_000, 2**63  # no tensor has more elements


@rule(
    "DSC441", effect="wasteful", source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets"
)
def overlapping_buckets_of_gigabytes(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is very large, and `overlap_comm` allocates two such buckets.

    With overlap, one bucket is reduced while the next one is filled, so each GPU holds both. Reported for a billion
    elements or more, which is twice the default.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true,
        "reduce_bucket_size": 2000000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true,
        "reduce_bucket_size": 200000000}}
    """
    path = f"{ZERO}.reduce_bucket_size"
    if not ctx.has(path) or not ctx.has(_OVERLAP):
        return
    size = ctx.value(path)
    if not isinstance(size, int | float) or not _LARGE <= size < _MAX_NUMEL or not ctx.is_on(_OVERLAP):
        return
    if effective_stage(ctx) in (1, 2) and ctx.is_on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            path,
            f"`reduce_bucket_size` is {size:,.0f}, and `overlap_comm` allocates two buckets: 2 × {size:,.0f}"
            f" × 2 bytes = {4 * size / 1e9:,.1f} GB of 16-bit gradients on each GPU",
            help="set `reduce_bucket_size` to at most 500000000, the default",
            related=[("`overlap_comm` is set here", _OVERLAP)],
        )


_NEAR_ZERO: dict[str, tuple[int, tuple[int, ...], str]] = {
    "reduce_bucket_size": (10_000, (1, 2, 3), "almost every gradient is reduced separately"),
    "sub_group_size": (1, (3,), "the optimizer steps one parameter at a time"),
    "stage3_max_live_parameters": (1, (3,), "every parameter is released after each use and gathered again"),
    "stage3_max_reuse_distance": (1, (3,), "every parameter is released after each use and gathered again"),
    "stage3_prefetch_bucket_size": (
        1,
        (3,),
        "nothing is prefetched, and computation waits for every all-gather",
    ),
}
"""Size below which a key is reported, the stages that use the key, and the cost."""


@rule("DSC442", effect="wasteful", source="runtime/zero/config.py:DeepSpeedZeroConfig")
def sizes_of_nearly_zero(ctx: Context) -> Iterator[Finding]:
    """A bucket or limit is so small that ZeRO processes parameters one by one.

    DeepSpeed accepts 0 for most numbers of elements. This saves memory at the cost of very many small
    messages.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 0}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000}}
    """
    small: dict[str, list[str]] = {}
    for name, value in zero_section(ctx).items():
        if name in _NEAR_ZERO and isinstance(value, int | float) and 0 <= value < _NEAR_ZERO[name][0]:
            small.setdefault(_NEAR_ZERO[name][2], []).append(f"{ZERO}.{name}")
    for cost, paths in small.items():
        name = paths[0].rpartition(".")[2]
        if effective_stage(ctx) in _NEAR_ZERO[name][1] and not uses_bf16_optimizer(ctx):
            values = [f"`{ctx.written_path(path)[-1]}` is {quote_value(ctx.value(path))}" for path in paths]
            yield ctx.at(
                paths[0],
                f"{' and '.join(values)}: {cost}",
                help=f"remove {'it' if len(paths) == 1 else 'them'}, unless memory matters more than speed:"
                f" the default is {ctx.default(paths[0])}",
            )


@rule(
    "DSC447",
    effect="crashes",
    until="0.11.2",
    source="runtime/utils.py:all_gather_dp_groups",
)
def allgather_bucket_of_zero(ctx: Context) -> Iterator[Finding]:
    """`allgather_bucket_size` is 0 at stage 1 or 2.

    DeepSpeed divides the size of a partition by it to compute the number of shards to gather, so the first step fails
    with a ZeroDivisionError. Since 0.10, a single rank needs no all-gather.

    Bad, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 0}}

    Good, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 500000000}}

    Fixed, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.allgather_bucket_size"
    if ctx.has(path) and ctx.value(path) == 0 and effective_stage(ctx) in (1, 2):
        if ctx.since("0.10.0") and (ctx.world_size is None or ctx.world_size < 2):
            return
        yield ctx.at(
            path,
            "`allgather_bucket_size` is 0, but DeepSpeed divides by it in the first step",
            help=f"remove it: the default is {ctx.default(path)}",
            fix=remove_key(ctx.written_path(path)),
        )


# `overlap_comm`, and gradient accumulation that the script manages.

_CHECK = "runtime/engine.py:DeepSpeedEngine._do_sanity_check"


@rule(
    "DSC440",
    effect="altered",
    since="0.7.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.overlap_comm_valid",
)
def overlap_left_to_the_stage(ctx: Context) -> Iterator[Finding]:
    """`overlap_comm` is null, so its value depends on the stage.

    Null is treated like an absent key: true at stage 3, false below.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": null}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}
    """
    if ctx.raw(_OVERLAP) is None:
        effective = effective_stage(ctx) == 3
        yield ctx.at(
            _OVERLAP,
            f"`overlap_comm` is `null`, which is treated as {quote_value(effective)}: the default is `true` at stage"
            " 3, and `false` below",
            help=f"set it to {quote_value(effective)}",
            related=related_stage(ctx),
            fix=Fix(
                f"replace with {quote_value(effective)}",
                (SetValue(ctx.written_path(_OVERLAP), effective),),
                safe=True,
            ),
        )


@rule("DSC438", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_overlap(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false, but `overlap_comm` is true below stage 2.

    DeepSpeed checks this even at stage 0, where nothing overlaps: "managed_gradient_accumulation=False
    supports ZeRO overlap_comm only with ZeRO stage 2". It accepts stage 3.

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 1, "overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "managed_gradient_accumulation": false, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.overlap_comm"
    if not ctx.has("managed_gradient_accumulation") or ctx.is_on("managed_gradient_accumulation"):
        return
    if ctx.has(path) and ctx.is_on(path) and effective_stage(ctx) < 2:
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, which supports `overlap_comm` only at stage 2 and"
            f" above, but {describe_stage(ctx)}",
            help="remove `overlap_comm`, or use stage 2",
            related=[("the script manages accumulation because of this", "managed_gradient_accumulation")],
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC439", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_deepcompile(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false together with DeepCompile.

    DeepCompile schedules communication at accumulation boundaries, which only the script knows then:
    "managed_gradient_accumulation=False is not supported with DeepCompile".

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}
    """
    path = "managed_gradient_accumulation"
    if ctx.has(path) and not ctx.is_on(path) and ctx.is_on("compile.deepcompile"):
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, which `compile.deepcompile` does not support",
            help="remove it, or set `compile.deepcompile` to `false`",
            related=[("DeepCompile is enabled here", "compile.deepcompile")],
            fix=remove_key((path,)),
        )


@rule("DSC420", effect="crashes", since="0.19.4", until="0.19.7", source=_CHECK)
def unmanaged_accumulation_with_partner(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false together with `amp`, or in 0.19.4 with offloading.

    DeepSpeed accepts the config, but engine initialization fails with "managed_gradient_accumulation=False is
    not supported with Apex AMP". Since 0.19.5, it works with offloading of the optimizer or the parameters.

    Bad, release 0.19.4:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good, release 0.19.5:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    path = "managed_gradient_accumulation"
    if not ctx.has(path) or ctx.is_on(path):
        return
    conflicts = (
        []
        if ctx.since("0.19.5")
        else [each for each in (OPTIMIZER, PARAM) if offload_device(ctx, each) != "none"]
    )
    if isinstance(ctx.data.get("amp"), dict) and ctx.is_on("amp.enabled"):
        conflicts.append("amp.enabled")
    for key in conflicts:
        name = key.removesuffix(".enabled")
        yield ctx.at(
            path,
            f"`{path}` is `false`, which does not work with `{name}` in DeepSpeed {ctx.release_name}",
            help="remove it" if name == "amp" else "remove it, or upgrade DeepSpeed to 0.19.5 or later",
            related=[("the conflicting setting is here", key)],
            fix=remove_key((path,)),
        )


# How stages 1 and 2 reduce and store gradients.

_SCALING = (("prescale_gradients", False), ("gradient_predivide_factor", 1))
"""Top-level keys that stage 2 supports only without `reduce_scatter`, and their defaults."""


@rule(
    "DSC443",
    effect="wasteful",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.average_tensor",
)
def all_reduce_at_stage_2(ctx: Context) -> Iterator[Finding]:
    """`reduce_scatter` is false at stage 2.

    Every rank then receives all gradients by an all-reduce and discards those that it does not own, which
    doubles the traffic. Models with mixture-of-experts layers fail with an assertion.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.reduce_scatter"
    if (
        ctx.has(path)
        and not ctx.is_on(path)
        and effective_stage(ctx) == 2
        and not requires_reduce_scatter_off(ctx)
    ):
        dependents = [key for key, default in _SCALING if ctx.value(key) != default]
        yield ctx.at(
            path,
            "`reduce_scatter` is `false`: at stage 2 gradients are all-reduced to every rank, which doubles"
            " the traffic",
            help="remove it" + "".join(f", and remove `{key}`, which requires it" for key in dependents),
            related=related_stage(ctx),
            fix=None if dependents else remove_key(ctx.written_path(path)),
        )


@rule("DSC444", effect="altered", source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__")
def contiguous_gradients_off_beside_offload(ctx: Context) -> Iterator[Finding]:
    """`contiguous_gradients` is false, but offloading the optimizer sets it to true.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": false,
        "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    path = f"{ZERO}.contiguous_gradients"
    if not ctx.has(path) or ctx.is_on(path):
        return
    if effective_stage(ctx) in (1, 2) and (target := offload_device(ctx, OPTIMIZER)) != "none":
        yield ctx.at(
            path,
            "`contiguous_gradients` is `false`, but is treated as `true` because the optimizer is offloaded to"
            f" {describe_device(target)}",
            help="remove it",
            related=[("the optimizer is offloaded here", offload_device_path(ctx, OPTIMIZER))],
            fix=remove_key(ctx.written_path(path)),
        )


@rule(
    "DSC445",
    effect="ignored",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.complete_grad_norm_calculation_for_cpu_offload",
)
def unused_parameters_unchecked(ctx: Context) -> Iterator[Finding]:
    """`ignore_unused_parameters` is false, but DeepSpeed never looks for unused parameters.

    DeepSpeed looks for them only when it computes the gradient norm on the CPU, that is, with optimizer
    offloading at stage 1 or 2.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.ignore_unused_parameters"
    if (
        ctx.has(path)
        and not ctx.is_on(path)
        and effective_stage(ctx) in (1, 2)
        and offload_device(ctx, OPTIMIZER) == "none"
    ):
        yield ctx.at(
            path,
            "`ignore_unused_parameters` is `false`, but DeepSpeed looks for unused parameters only if the"
            " optimizer is offloaded",
            help="remove it",
            fix=remove_key(ctx.written_path(path)),
        )


@rule(
    "DSC446",
    effect="wasteful",
    since="0.4.4",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._round_robin_reorder",
)
def round_robin_without_offload(ctx: Context) -> Iterator[Finding]:
    """`round_robin_gradients` is true, but the optimizer is not offloaded.

    The key reorders gradients so that ranks copy them to host memory in parallel. Without offloading there is
    nothing to copy, but checkpoints are stored in the changed order.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.round_robin_gradients"
    if (
        ctx.has(path)
        and ctx.is_on(path)
        and effective_stage(ctx) in (1, 2)
        and offload_device(ctx, OPTIMIZER) == "none"
    ):
        yield ctx.at(
            path,
            "`round_robin_gradients` speeds up copying gradients to host memory, but the optimizer is not"
            " offloaded",
            help="remove it, unless a checkpoint was saved with it",
            fix=remove_key(ctx.written_path(path)),
        )


# `compute_grad_norm`: where the gradient norm is required.


@rule(
    "DSC402",
    effect="rejected",
    since="0.19.7",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.compute_grad_norm_valid",
    conditions=(
        SchemaCondition(
            "ZeroOptimization",
            (KeyEquals("compute_grad_norm", (False,)), EffectiveValueIs("stage", (0, 3))),
            KeyMustBeAbsent(
                "compute_grad_norm", "`compute_grad_norm` may be false only at ZeRO stage 1 or 2"
            ),
        ),
    ),
)
def gradient_norm_skipped_at_wrong_stage(ctx: Context) -> Iterator[Finding]:
    """`compute_grad_norm` is false, but the stage is neither 1 nor 2.

    Only the optimizer of stages 1 and 2 can skip the norm.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "compute_grad_norm": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}
    """
    path = "zero_optimization.compute_grad_norm"
    if ctx.has(path) and not ctx.is_on(path) and effective_stage(ctx) not in (1, 2):
        yield ctx.at(
            path,
            f"`compute_grad_norm` may be `false` only at ZeRO stage 1 or 2, but {describe_stage(ctx)}",
            help="remove the key, or use stage 1 or 2",
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC437", effect="crashes", since="0.19.7", source=_STAGES_1_2)
def gradient_norm_skipped_though_needed(ctx: Context) -> Iterator[Finding]:
    """`compute_grad_norm` is false, but another setting requires the gradient norm.

    Clipping needs it, and `gradient_clipping` is 1.0 by default. So do optimizer offloading, ZenFlow, and the
    optimizer that stage 1 uses for bf16 with fp32 gradient accumulation. Engine initialization fails with
    "compute_grad_norm=false requires gradient_clipping=0", or "does not support …".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 0,
        "zero_optimization": {"stage": 2, "compute_grad_norm": false}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.compute_grad_norm"
    if not ctx.has(path) or ctx.is_on(path) or effective_stage(ctx) not in (1, 2):
        return
    for reason, place in _keys_that_use_the_norm(ctx):
        yield ctx.at(
            path,
            f"`compute_grad_norm` is `false`, but {reason}",
            help="remove it" + (', or add `"gradient_clipping": 0`' if "clipping" in place else ""),
            related=[("the norm is needed because of this", place)] if ctx.has(place) else [],
            fix=remove_key(ctx.written_path(path)),
        )
        return


def _keys_that_use_the_norm(ctx: Context) -> Iterator[tuple[str, str]]:
    if offload_device(ctx, OPTIMIZER) != "none":
        yield "optimizer offloading needs the gradient norm", offload_device_path(ctx, OPTIMIZER)
    if ctx.value(f"{ZERO}.zenflow") is not None:
        yield "ZenFlow needs the gradient norm", f"{ZERO}.zenflow"
    if uses_bf16_optimizer(ctx):
        yield (
            "stage 1 with bf16 and fp32 gradient accumulation needs the gradient norm",
            "data_types.grad_accum_dtype",
        )
    clipping = ctx.value("gradient_clipping")
    if isinstance(clipping, int | float) and clipping > 0:
        default = "" if ctx.has("gradient_clipping") else " by default"
        yield f"`gradient_clipping` is {clipping}{default} and needs the gradient norm", "gradient_clipping"
