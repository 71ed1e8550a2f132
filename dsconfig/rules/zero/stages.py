"""ZeRO stage: its value, keys of other stages, options of stage 3, and wasted memory."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import compact, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import Absent, Condition, Counts, Is, Needed, NotEmpty, rule
from dsconfig.model.keyinfo import ZERO_STAGES
from dsconfig.rules._consumer import consumer_label
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    STAGE,
    ZERO,
    device,
    stage,
    stage_path,
    stage_set_here,
    stage_words,
    zero_section,
)
from dsconfig.rules._fixes import differs_from_default, removal, renamed, without_effect
from dsconfig.rules._numbers import rounded

# The stage itself: left out, without fp16, or too low to load a checkpoint.

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"


@rule(
    "DSC430",
    effect="ignored",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.stage",
    conditions=(Condition("ZeroOptimization", (NotEmpty(),), Needed("stage")),),
)
def section_without_stage(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` says how, but not at which stage.

    The default stage is 0, so ZeRO stays off, and with it everything else in the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    written = [name for name in zero_section(ctx) if name != "stage"]
    if written and not ctx.has(STAGE):
        names = one_of((f"`{ctx.place(f'{ZERO}.{name}')[-1]}`" for name in written), "and")
        yield ctx.at(
            ZERO,
            "`zero_optimization` has no `stage`, and the default is 0: ZeRO is off, and"
            f" {names if len(written) <= _MOST else f'its {len(written)} keys'}"
            f" {'do' if len(written) > 1 else 'does'} nothing",
            help=f'add `"stage": 1`, `2` or `3`, or {_off(ctx)}',
            part="key",
        ).lacking(ctx.place(STAGE))


def _off(ctx: Context) -> str:
    """How to say that there is no ZeRO; Transformers and Accelerate refuse a config without the section."""
    return 'write `{"stage": 0}`' if ctx.plugged else "remove the section"


_MOST = 3
"""More names than these are counted only."""


@rule(
    "DSC433",
    effect="ignored",
    since="0.10.1",
    source="runtime/engine.py:DeepSpeedEngine._load_zero_checkpoint",
    conditions=(
        Condition(
            "ZeroOptimization",
            (Is("pipeline_loading_checkpoint", (True,)), Counts("stage", (0, 1, 2))),
            Absent("pipeline_loading_checkpoint", "`pipeline_loading_checkpoint` works at stage 3 alone"),
        ),
    ),
)
def pipelined_checkpoint_loading_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`pipeline_loading_checkpoint` is true, and the stage is not 3.

    Training does not look at it. Loading a checkpoint does, and stops at stages 1 and 2 with an
    AssertionError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "pipeline_loading_checkpoint": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "pipeline_loading_checkpoint": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.pipeline_loading_checkpoint"
    if ctx.has(path) and ctx.on(path) and stage(ctx) < 3:
        at_load = ", and `load_checkpoint` stops with an AssertionError" if stage(ctx) > 0 else ""
        yield ctx.at(
            path,
            f"`pipeline_loading_checkpoint` works at stage 3 alone, but {stage_words(ctx)}{at_load}",
            help="remove it, or use stage 3",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(path)),
        )


@rule("DSC401", effect="rejected", until="0.3.16", source=_CHECK)
def zero_without_fp16(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on and `fp16` is not.

    The first releases sharded half-precision training only; 0.3.16 dropped the demand for stages 2 and 3,
    0.4.0 for stage 1 as well.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}
    """
    level = stage(ctx)
    if level > 0 and not ctx.on("fp16.enabled") and (ctx.before("0.3.16") or level < 2):
        yield ctx.at(
            stage_path(ctx),
            f"stage {compact(level)} needs `fp16`, which is not enabled",
            help="enable `fp16`; from 0.4.0 on ZeRO works without it",
            related=[("fp16 is switched here", "fp16.enabled")] if ctx.has("fp16") else [],
        )


# Keys that the stage at hand does not read.

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule("DSC431", effect="ignored", source=_WRAP)
def key_of_another_stage(ctx: Context) -> Iterator[Finding]:
    """A key of `zero_optimization` belongs to another stage than the one in use.

    The optimizer of stages 1 and 2 and that of stage 3 each take keys of their own, and stage 0 takes none.
    A key that is written with its default is not reported.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "sub_group_size": 100000000,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 100000000,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "allgather_bucket_size": 200000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 200000000}}
    """
    values, level = zero_section(ctx), stage(ctx)
    unread = [
        f"{ZERO}.{name}"
        for name in values
        if level not in ZERO_STAGES.get(name, (level,)) and differs_from_default(ctx, f"{ZERO}.{name}")
    ]
    unread = [path for path in unread if not _taken_at_stage_0(ctx, path)] if level == 0 else unread
    if unread and ctx.has(f"{ZERO}.stage"):
        them = "them" if len(unread) > 1 else "it"
        readers = [set(ZERO_STAGES[path.rpartition(".")[2]]) for path in unread]
        wanted, shared = set().union(*readers), sorted({1, 2, 3}.intersection(*readers))
        stages = _stages(sorted(wanted))
        off = f"{stage_words(ctx)}, and nothing reads {them}"
        yield without_effect(
            ctx,
            unread,
            f"{stage_words(ctx)}, and only {stages} {_reads(wanted)} {them}" if level else off,
            help=(f"use {_stages(shared, 'or')}, or " if shared else "") + f"remove {them}",
            related=stage_set_here(ctx),
        )


def _reads(stages: set[int]) -> str:
    return "read" if len(stages) > 1 else "reads"


def _stages(numbers: list[int], conjunction: str = "and") -> str:
    plural = "s" if len(numbers) > 1 and conjunction == "and" else ""
    *first, last = map(str, numbers)
    return f"stage{plural} {', '.join(first)}{f' {conjunction} ' if first else ''}{last}"


def _taken_at_stage_0(ctx: Context, path: str) -> bool:
    """Whether the key does something without ZeRO.

    The optimizer around bf16 gathers by the one (runtime/engine.py,
    `DeepSpeedEngine._configure_bf16_optimizer`); the other is the matter of
    `unmanaged-accumulation-with-overlap`.
    """
    if path.endswith(".allgather_bucket_size"):
        return ctx.on("bf16.enabled") or ctx.on("bfloat16.enabled")
    return path.endswith(".overlap_comm") and ctx.value("managed_gradient_accumulation") is False


# Stage 3 alone: fetching ahead, names without prefix, and what is saved.


@rule(
    "DSC451",
    effect="altered",
    since="0.18.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def prefetch_beside_sequential_gather(ctx: Context) -> Iterator[Finding]:
    """`stage3_prefetch_bucket_size` is written, and `stage3_allgather_sequential` sets it to 1.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true,
        "stage3_prefetch_bucket_size": 50000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}
    """
    path, sequential = f"{ZERO}.stage3_prefetch_bucket_size", f"{ZERO}.stage3_allgather_sequential"
    if not (ctx.has(path) and ctx.has(sequential)):
        return
    if ctx.on(sequential) and ctx.value(path) != 1 and stage(ctx) == 3:
        yield ctx.at(
            path,
            f"`{ctx.place(path)[-1]}` is {quoted(ctx.value(path))} and counts as 1, because"
            f" `{ctx.place(sequential)[-1]}` is on",
            help="remove it, or set `stage3_allgather_sequential` to `false`",
            related=[("parameters are gathered one by one here", sequential)],
            fix=removal(ctx.place(path)),
        )


@rule(
    "DSC452",
    effect="rejected",
    since="0.7.0",
    source="accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process",
)
def auto_without_stage3_prefix(ctx: Context) -> Iterator[Finding]:
    """A stage-3 key is "auto" under its name without `stage3_`, which the consumer does not fill.

    DeepSpeed reads `prefetch_bucket_size` like `stage3_prefetch_bucket_size`. Transformers and Accelerate
    know the long names only, and raise for every "auto" that is left.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "prefetch_bucket_size": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}
    """
    if not ctx.plugged:
        return
    for name in zero_section(ctx):
        path = f"{ZERO}.{name}"
        if not name.startswith("stage3_") or ctx.place(path)[-1] == name or ctx.written(path) != "auto":
            continue
        bare = ctx.place(path)[-1]
        yield ctx.at(
            path,
            f'`{bare}` is `"auto"`, which {consumer_label(ctx)} fills only under `{name}`: it raises that '
            f"`{ZERO}.{bare}` is not found in kwargs",
            help=f"rename it to `{name}`",
            fix=renamed(ctx, ctx.place(path), name, "auto", title=f"rename it `{name}`"),
        )


@rule(
    "DSC453",
    effect="altered",
    since="0.6.0",
    source="runtime/engine.py:DeepSpeedEngine.save_16bit_model,"
    " accelerate accelerator.py:Accelerator.get_state_dict",
)
def model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """At stage 3 nothing gathers the weights when the consumer saves the model.

    Each rank holds a share of every weight. Unless `stage3_gather_16bit_weights_on_model_save` is true, the
    model that Transformers' Trainer saves has no weights in it, and they have to be put together from the
    ZeRO checkpoint by `zero_to_fp32.py`. Accelerate's `get_state_dict` and `save_model` raise instead, at the
    end of the training. What its launch file says in a block is DSC828.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}
    """
    path = f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    old = f"{ZERO}.stage3_gather_fp16_weights_on_model_save"
    if ctx.consumer not in HUGGING_FACE or not zero_section(ctx):
        return
    if not ctx.on(path) and not ctx.on(old) and stage(ctx) == 3:
        said = f"is {quoted(ctx.value(path))}" if ctx.has(path) else "is absent, and so `false`"
        trainer = ctx.consumer == "transformers"
        yield ctx.at(
            path,
            f"`stage3_gather_16bit_weights_on_model_save` {said}: "
            + ("the Trainer saves a ZeRO checkpoint, but no model weights" if trainer else _RAISES),
            help="write `true`, or put the weights together with `zero_to_fp32.py` afterwards",
            fix=Fix("gather the weights on save", (Set(ctx.place(path), True),)),
        )


_RAISES = "Accelerate's `get_state_dict` and `save_model` raise when the model is to be saved"


# What a config holds in memory to no purpose, as engines were seen to (`python -m tests.parity.memory`).

_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_REDUCE = f"{ZERO}.reduce_bucket_size"
_RATIO, _SUB_GROUP = f"{OPTIMIZER}.ratio", f"{ZERO}.sub_group_size"
_LARGE, _MOST_ELEMENTS = 1_000_000_000, 2**63
_FEW = 1_000_000
"""A limit below it is a mistake of another kind."""


def _number(ctx: Context, path: str) -> float | None:
    value = ctx.value(path)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@rule(
    "DSC470",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_kept_by_reuse(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` is lowered, and `stage3_max_reuse_distance` is not.

    The limit only stops fetching ahead. What will be used again within the reuse distance stays gathered
    whatever the limit says: a model of fewer parameters than half that distance is whole on each GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000,
        "stage3_max_reuse_distance": 100000000}}
    """
    live, reuse = _number(ctx, _LIVE), _number(ctx, _REUSE)
    if not ctx.has(_LIVE) or live is None or reuse is None or stage(ctx) != 3:
        return
    if _FEW <= live < min(_LARGE, reuse) and not _gathered_whole(ctx, reuse):
        yield ctx.at(
            _LIVE,
            f"`stage3_max_live_parameters` is {live:,.0f}, and what is used again within"
            f" `stage3_max_reuse_distance`, {reuse:,.0f}, stays gathered all the same",
            help=f"set `{_REUSE}` to {live:.0f}",
            related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
        )


def _gathered_whole(ctx: Context, reuse: float) -> bool:
    """Whether the model is known, and so small that DSC406 says it all."""
    if ctx.known.model is None or ctx.world_size == 1:
        return False
    from dsconfig.rules._model_facts import numel_if_known

    return reuse >= 2 * (numel_if_known(ctx) or reuse)


@rule(
    "DSC471",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_kept_by_stage_3(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is very large at stage 3, which keeps the bucket for the whole run.

    At stages 1 and 2 it is there in the backward pass alone. Reported from a billion elements on, twice the
    default, where gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 2000000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 200000000}}
    """
    size = _number(ctx, _REDUCE)
    if not ctx.has(_REDUCE) or size is None or not _LARGE <= size < _MOST_ELEMENTS or stage(ctx) != 3:
        return
    if ctx.on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}, and stage 3 holds {2 * size / 1e9:,.1f} GB for it from the"
            " first step to the last, with gradients of 16 bits",
            help="give at most 500000000, the default",
            related=stage_set_here(ctx),
        )


@rule(
    "DSC474",
    effect="wasteful",
    since="0.12.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def ratio_of_one_sub_group(ctx: Context) -> Iterator[Finding]:
    """`ratio` splits whole sub-groups between GPU and host, and there is likely one only.

    A rank has as many sub-groups as `sub_group_size` fits into the parameters that it holds. Of one, any
    `ratio` above 0 sends all to the host. Reported where a sub-group has a billion elements, the default,
    which no rank of most runs holds; where model and world size are known, if it is so.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 50000000,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
    """
    ratio, size = _number(ctx, _RATIO), _number(ctx, _SUB_GROUP)
    if not ctx.has(_RATIO) or ratio is None or size is None or not 0 < ratio < 1:
        return
    shard = _shard(ctx)
    if (size >= (shard or _LARGE)) and stage(ctx) == 3 and device(ctx, OPTIMIZER) == "cpu":
        few = 50_000_000 if shard is None else rounded(max(1, shard // 10))
        why = "it splits a rank of ten times as many well"
        yield ctx.at(
            _RATIO,
            f"`ratio` is {ratio:g}, and all is offloaded "
            + (
                f"unless a rank holds above {size:,.0f} parameters:"
                if shard is None
                else f"of the {shard:,} parameters that a rank holds:"
            )
            + " whole sub-groups are, of `sub_group_size`",
            help=f"set `{_SUB_GROUP}` to {few}{f'; {why}' if shard is None else ''}",
            related=[("sub-groups have this size", _SUB_GROUP)] if ctx.has(_SUB_GROUP) else [],
        )


def _shard(ctx: Context) -> int | None:
    """The parameters that a rank holds, each cut for itself; None where that is not known."""
    if ctx.known.model is None or ctx.world_size is None:
        return None
    from dsconfig.rules._model_facts import numel_if_known, weights

    if numel_if_known(ctx) is None:
        return None
    return sum(-(-weight.elements // ctx.world_size) for weight in weights(ctx))


@rule(
    "DSC472",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def weights_in_fp32_twice(ctx: Context) -> Iterator[Finding]:
    """ZeRO trains in torch's autocast, and keeps a second copy of the weights.

    Weights stay in fp32 there, and ZeRO clones its part of them as master weights, though they are of the
    same type; stage 3 of 0.18.2 alone shares them, on the rank. `bf16` keeps the weights in 2 bytes, and
    masters in 4.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    path = "torch_autocast.enabled"
    shares = stage(ctx) == 3 and ctx.since("0.18.2") and ctx.before("0.18.3")
    shares = shares and device(ctx, OPTIMIZER) not in ("cpu", "nvme")
    if ctx.has(path) and ctx.on(path) and stage(ctx) in (1, 2, 3) and not shares:
        yield ctx.at(
            path,
            "torch's autocast leaves the weights in fp32, and ZeRO clones its part of them as master weights:"
            " 4 bytes more for each of them",
            help="remove `torch_autocast` and set `bf16.enabled` to true; nothing runs in fp32 then",
            related=stage_set_here(ctx),
        )
