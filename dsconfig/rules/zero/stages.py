"""The ZeRO stage: its value, keys of other stages, stage 3 options, and wasted memory."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import format_number, join_alternatives, quote_value
from dsconfig.evaluation.rule import (
    EffectiveValueIs,
    KeyEquals,
    KeyIsRequired,
    KeyMustBeAbsent,
    SchemaCondition,
    SectionIsNotEmpty,
    rule,
)
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.model.key_table import ZERO_STAGES
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    STAGE,
    ZERO,
    describe_stage,
    effective_stage,
    offload_device,
    related_stage,
    round_down,
    stage_path,
    zero_section,
)
from dsconfig.rules._fixes import differs_from_default, remove_key, rename_key, report_keys_without_effect
from dsconfig.rules._job_programs import consumer_label

# The stage itself: absent, without fp16, or too low to load a checkpoint.

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"


@rule(
    "DSC430",
    effect="ignored",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.stage",
    conditions=(SchemaCondition("ZeroOptimization", (SectionIsNotEmpty(),), KeyIsRequired("stage")),),
)
def section_without_stage(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` has settings but no `stage`.

    The default stage is 0, so ZeRO and all other settings of the section are off.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    keys = [name for name in zero_section(ctx) if name != "stage"]
    if keys and not ctx.has(STAGE):
        names = join_alternatives((f"`{ctx.written_path(f'{ZERO}.{name}')[-1]}`" for name in keys), "and")
        yield ctx.at(
            ZERO,
            "`zero_optimization` has no `stage`, and the default is 0: ZeRO is off, and"
            f" {names if len(keys) <= _MAX_LISTED else f'its {len(keys)} keys'}"
            f" {'have' if len(keys) > 1 else 'has'} no effect",
            help=f'add `"stage": 1`, `2` or `3`, or {_how_to_disable(ctx)}',
            part="key",
        ).about_missing(ctx.written_path(STAGE))


def _how_to_disable(ctx: Context) -> str:
    """Return advice on how to disable ZeRO for the config's consumer."""
    return 'use `{"stage": 0}`' if ctx.uses_plugin else "remove the section"


_MAX_LISTED = 3
"""Maximum number of names that messages list; more names are only counted."""


@rule(
    "DSC433",
    effect="ignored",
    since="0.10.1",
    source="runtime/engine.py:DeepSpeedEngine._load_zero_checkpoint",
    conditions=(
        SchemaCondition(
            "ZeroOptimization",
            (KeyEquals("pipeline_loading_checkpoint", (True,)), EffectiveValueIs("stage", (0, 1, 2))),
            KeyMustBeAbsent(
                "pipeline_loading_checkpoint", "`pipeline_loading_checkpoint` works only at stage 3"
            ),
        ),
    ),
)
def pipelined_checkpoint_loading_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`pipeline_loading_checkpoint` is true, but the stage is not 3.

    Training does not read it. Loading a checkpoint does, and fails at stages 1 and 2 with an AssertionError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "pipeline_loading_checkpoint": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "pipeline_loading_checkpoint": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.pipeline_loading_checkpoint"
    if ctx.has(path) and ctx.is_on(path) and effective_stage(ctx) < 3:
        consequence = (
            ", and `load_checkpoint` fails with an AssertionError" if effective_stage(ctx) > 0 else ""
        )
        yield ctx.at(
            path,
            f"`pipeline_loading_checkpoint` works only at stage 3, but {describe_stage(ctx)}{consequence}",
            help="remove it, or use stage 3",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC401", effect="rejected", until="0.3.16", source=_CHECK)
def zero_without_fp16(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on, but `fp16` is not enabled.

    The first releases sharded only half-precision training. 0.3.16 removed the requirement for stages 2 and
    3, and 0.4.0 for stage 1.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}
    """
    level = effective_stage(ctx)
    if level > 0 and not ctx.is_on("fp16.enabled") and (ctx.before("0.3.16") or level < 2):
        yield ctx.at(
            stage_path(ctx),
            f"stage {format_number(level)} requires `fp16`, which is not enabled",
            help="enable `fp16`, or upgrade DeepSpeed to 0.4.0 or later",
            related=[("`fp16` is set here", "fp16.enabled")] if ctx.has("fp16") else [],
        )


# Keys that the stage does not read.

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule("DSC431", effect="ignored", source=_WRAP)
def key_of_another_stage(ctx: Context) -> Iterator[Finding]:
    """A key of `zero_optimization` applies only to a stage other than the configured one.

    The optimizer of stages 1 and 2 and that of stage 3 read different keys, and stage 0 reads none. Keys set
    to their default are not reported.

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
    values, level = zero_section(ctx), effective_stage(ctx)
    unread = [
        f"{ZERO}.{name}"
        for name in values
        if level not in ZERO_STAGES.get(name, (level,)) and differs_from_default(ctx, f"{ZERO}.{name}")
    ]
    unread = [path for path in unread if not _is_read_at_stage_0(ctx, path)] if level == 0 else unread
    if unread and ctx.has(f"{ZERO}.stage"):
        them = "them" if len(unread) > 1 else "it"
        readers = [set(ZERO_STAGES[path.rpartition(".")[2]]) for path in unread]
        stages_reading, shared = set().union(*readers), sorted({1, 2, 3}.intersection(*readers))
        stages = _format_stages(sorted(stages_reading))
        off = f"{describe_stage(ctx)}, and nothing reads {them}"
        yield report_keys_without_effect(
            ctx,
            unread,
            f"{describe_stage(ctx)}, and only {stages} {_require_or_requires(stages_reading)} {them}"
            if level
            else off,
            help=(f"use {_format_stages(shared, 'or')}, or " if shared else "") + f"remove {them}",
            related=related_stage(ctx),
        )


def _require_or_requires(stages: set[int]) -> str:
    return "read" if len(stages) > 1 else "reads"


def _format_stages(numbers: list[int], conjunction: str = "and") -> str:
    plural = "s" if len(numbers) > 1 and conjunction == "and" else ""
    *first, last = map(str, numbers)
    return f"stage{plural} {', '.join(first)}{f' {conjunction} ' if first else ''}{last}"


def _is_read_at_stage_0(ctx: Context, path: str) -> bool:
    """Return whether a key has an effect even without ZeRO.

    The bf16 optimizer uses `allgather_bucket_size` (runtime/engine.py,
    `DeepSpeedEngine._configure_bf16_optimizer`). The rule `unmanaged-accumulation-with-overlap` covers
    `overlap_comm`.
    """
    if path.endswith(".allgather_bucket_size"):
        return ctx.is_on("bf16.enabled") or ctx.is_on("bfloat16.enabled")
    return path.endswith(".overlap_comm") and ctx.value("managed_gradient_accumulation") is False


# Stage 3 only: prefetching, key names without the prefix, and saving the model.


@rule(
    "DSC451",
    effect="altered",
    since="0.18.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def prefetch_beside_sequential_gather(ctx: Context) -> Iterator[Finding]:
    """`stage3_prefetch_bucket_size` is set, but `stage3_allgather_sequential` changes it to 1.

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
    if ctx.is_on(sequential) and ctx.value(path) != 1 and effective_stage(ctx) == 3:
        yield ctx.at(
            path,
            f"`{ctx.written_path(path)[-1]}` is {quote_value(ctx.value(path))}, but DeepSpeed uses 1 because"
            f" `{ctx.written_path(sequential)[-1]}` is `true`",
            help="remove it, or set `stage3_allgather_sequential` to `false`",
            related=[("sequential gathering is set here", sequential)],
            fix=remove_key(ctx.written_path(path)),
        )


@rule(
    "DSC452",
    effect="rejected",
    since="0.7.0",
    source="accelerate utils/dataclasses.py:DeepSpeedPlugin.deepspeed_config_process",
)
def auto_without_stage3_prefix(ctx: Context) -> Iterator[Finding]:
    """A stage 3 key is "auto" under its name without `stage3_`, which the consumer does not resolve.

    DeepSpeed reads `prefetch_bucket_size` as `stage3_prefetch_bucket_size`. Transformers and Accelerate know
    only the long names, and raise for every unresolved "auto".

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "prefetch_bucket_size": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}
    """
    if not ctx.uses_plugin:
        return
    for name in zero_section(ctx):
        path = f"{ZERO}.{name}"
        if not name.startswith("stage3_") or ctx.written_path(path)[-1] == name or ctx.raw(path) != "auto":
            continue
        short_name = ctx.written_path(path)[-1]
        yield ctx.at(
            path,
            f'`{short_name}` is `"auto"`, which {consumer_label(ctx)} resolves only under the name `{name}`: it'
            f' raises "`{ZERO}.{short_name}` not found in kwargs"',
            help=f"rename it to `{name}`",
            fix=rename_key(ctx, ctx.written_path(path), name, "auto", title=f"rename to `{name}`"),
        )


@rule(
    "DSC453",
    effect="altered",
    since="0.6.0",
    source="runtime/engine.py:DeepSpeedEngine.save_16bit_model,"
    " accelerate accelerator.py:Accelerator.get_state_dict",
)
def model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """Stage 3 does not gather the weights when the consumer saves the model.

    Each rank holds only a partition of every weight. Unless `stage3_gather_16bit_weights_on_model_save` is true, the
    model that Transformers' Trainer saves contains no weights: `zero_to_fp32.py` must consolidate them from the ZeRO
    checkpoint. Accelerate's `get_state_dict` and `save_model` raise instead, at the end of the training. DSC828 covers
    the same setting in an Accelerate launch file.

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
    if not ctx.is_on(path) and not ctx.is_on(old) and effective_stage(ctx) == 3:
        value = f"is {quote_value(ctx.value(path))}" if ctx.has(path) else "is absent, so it is `false`"
        consequence = (
            "the Trainer saves a ZeRO checkpoint, but no model weights"
            if ctx.consumer == "transformers"
            else "Accelerate's `get_state_dict` and `save_model` raise when they save the model"
        )
        yield ctx.at(
            path,
            f"`stage3_gather_16bit_weights_on_model_save` {value}: {consequence}",
            help="set it to `true`, or consolidate the weights with `zero_to_fp32.py` afterwards",
            fix=Fix("gather the weights on save", (SetValue(ctx.written_path(path), True),)),
        )


# Settings that waste memory, as measured with real engines (`python -m tests.parity.memory`).

_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_REDUCE = f"{ZERO}.reduce_bucket_size"
_RATIO, _SUB_GROUP = f"{OPTIMIZER}.ratio", f"{ZERO}.sub_group_size"
_LARGE, _MAX_NUMEL = 1_000_000_000, 2**63
_MIN_LIMIT = 1_000_000
"""Lowest limit that the rule reports; lower limits are another kind of mistake."""


def _numeric_value(ctx: Context, path: str) -> float | None:
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
    """`stage3_max_live_parameters` is lowered, but `stage3_max_reuse_distance` is not.

    The limit only stops prefetching. A parameter that is used again within the reuse distance stays gathered
    whatever the limit is: each GPU holds all parameters of a model with fewer than half that distance.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000,
        "stage3_max_reuse_distance": 100000000}}
    """
    live, reuse = _numeric_value(ctx, _LIVE), _numeric_value(ctx, _REUSE)
    if not ctx.has(_LIVE) or live is None or reuse is None or effective_stage(ctx) != 3:
        return
    if _MIN_LIMIT <= live < min(_LARGE, reuse) and not _is_gathered_whole(ctx, reuse):
        yield ctx.at(
            _LIVE,
            f"`stage3_max_live_parameters` is {live:,.0f}, but parameters that are used again within"
            f" `stage3_max_reuse_distance`, {reuse:,.0f}, stay gathered anyway",
            help=f"set `{_REUSE}` to {live:.0f}",
            related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
        )


def _is_gathered_whole(ctx: Context, reuse: float) -> bool:
    """Return whether the model is known to be so small that the rule DSC406 applies instead."""
    if ctx.facts.model is None or ctx.world_size == 1:
        return False
    from dsconfig.rules._model_facts import parameter_count_if_known

    return reuse >= 2 * (parameter_count_if_known(ctx) or reuse)


@rule(
    "DSC471",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_kept_by_stage_3(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is very large at stage 3, which keeps the bucket for the whole run.

    At stages 1 and 2, the bucket exists only in the backward pass. Reported for a billion elements or more, which is
    twice the default, if gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 2000000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 200000000}}
    """
    size = _numeric_value(ctx, _REDUCE)
    if not ctx.has(_REDUCE) or size is None or not _LARGE <= size < _MAX_NUMEL or effective_stage(ctx) != 3:
        return
    if ctx.is_on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}: stage 3 keeps {2 * size / 1e9:,.1f} GB (in 16 bits) "
            "allocated for it during the whole run",
            help="set it to at most 500000000, the default",
            related=related_stage(ctx),
        )


@rule(
    "DSC474",
    effect="wasteful",
    since="0.12.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def ratio_of_one_sub_group(ctx: Context) -> Iterator[Finding]:
    """`ratio` splits whole sub-groups between GPU and host, but there is probably only one.

    A rank divides the parameters that it holds into sub-groups of `sub_group_size`. With a single sub-group,
    any `ratio` above 0 offloads everything.

    If the model or the world size is unknown, this is reported for sub-groups of a billion elements or more,
    the default, which is more than a rank holds in most runs. If both are known, it is reported if a rank has
    a single sub-group.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 50000000,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
    """
    ratio, size = _numeric_value(ctx, _RATIO), _numeric_value(ctx, _SUB_GROUP)
    if not ctx.has(_RATIO) or ratio is None or size is None or not 0 < ratio < 1:
        return
    shard = _shard_numel(ctx)
    if (size >= (shard or _LARGE)) and effective_stage(ctx) == 3 and offload_device(ctx, OPTIMIZER) == "cpu":
        suggested = 50_000_000 if shard is None else round_down(max(1, shard // 10))
        consequence = (
            f"everything is offloaded unless a rank holds more than {size:,.0f} parameters"
            if shard is None
            else f"all of the {shard:,} parameters that a rank holds are offloaded"
        )
        yield ctx.at(
            _RATIO,
            f"`ratio` is {ratio:g}, but {consequence}: DeepSpeed offloads whole"
            " sub-groups of `sub_group_size`",
            help=f"set `{_SUB_GROUP}` to {suggested}"
            + ("; this works well for ranks with ten times as many parameters" if shard is None else ""),
            related=[("the sub-group size is set here", _SUB_GROUP)] if ctx.has(_SUB_GROUP) else [],
        )


def _shard_numel(ctx: Context) -> int | None:
    """Return the number of parameters that a rank holds, or None if unknown."""
    if ctx.facts.model is None or ctx.world_size is None:
        return None
    from dsconfig.rules._model_facts import model_parameters, parameter_count_if_known

    if parameter_count_if_known(ctx) is None:
        return None
    return sum(-(-weight.numel // ctx.world_size) for weight in model_parameters(ctx))


@rule(
    "DSC472",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def weights_in_fp32_twice(ctx: Context) -> Iterator[Finding]:
    """ZeRO with torch autocast keeps a second copy of the weights.

    With autocast, the weights stay in fp32. ZeRO still clones its partition of them as master weights,
    although they have the same dtype. Only stage 3 of 0.18.2 shares them, if the optimizer is not offloaded.
    `bf16` keeps the weights in 2 bytes and the master weights in 4.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    path = "torch_autocast.enabled"
    shares_weights = effective_stage(ctx) == 3 and ctx.since("0.18.2") and ctx.before("0.18.3")
    shares_weights = shares_weights and offload_device(ctx, OPTIMIZER) not in ("cpu", "nvme")
    if ctx.has(path) and ctx.is_on(path) and effective_stage(ctx) in (1, 2, 3) and not shares_weights:
        yield ctx.at(
            path,
            "torch autocast keeps the weights in fp32, and ZeRO clones its partition of them as master"
            " weights: 4 more bytes for each weight",
            help="remove `torch_autocast` and set `bf16.enabled` to `true`; no operation runs in fp32 then",
            related=related_stage(ctx),
        )
