"""ZeRO buckets, limits and leaf modules for a known model."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName, Fix, SetValue
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.consumer_versions import version_includes_change
from dsconfig.launch import repository_files
from dsconfig.rules._effective_values import (
    STAGE,
    ZERO,
    effective_stage,
    has_autocast,
    normalize_dtype,
    reduction_dtype,
    related_stage,
    round_down,
    round_up,
    training_dtype,
    uses_bf16_optimizer,
)
from dsconfig.rules._model_facts import (
    BLOCKS,
    FUSED,
    NamedParameter,
    has_model,
    largest_linear,
    largest_parameter,
    model_architecture,
    parameter_count,
    sparse_block_of,
    string_list,
    trained_model,
    transformers_version,
)

# Buckets and limits of the ZeRO stages compared with a known model.

_REDUCE = f"{ZERO}.reduce_bucket_size"
_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_PREFETCH = f"{ZERO}.stage3_prefetch_bucket_size"
_MAX_NUMEL = 2**63


@rule(
    "DSC405",
    effect="wasteful",
    since="0.5.2",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_larger_than_model(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is larger than the model, but the whole bucket is allocated.

    DeepSpeed copies gradients into a buffer of this size before it reduces them. It allocates the full size
    whatever the model needs: in each backward pass at stages 1 and 2, and for the whole run at stage 3.
    Reported only when the model is known and gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000},
        "$dsconfig": {"model": "gpt2"}}
    """
    if not has_model(ctx) or not ctx.has(ZERO) or effective_stage(ctx) not in (1, 2, 3):
        return
    size = ctx.value(_REDUCE)
    if (
        not isinstance(size, int | float)
        or size >= _MAX_NUMEL
        or not ctx.is_on(f"{ZERO}.contiguous_gradients")
    ):
        return
    if uses_bf16_optimizer(ctx) or size <= (numel := parameter_count(ctx)):
        return
    itemsize = 4 if training_dtype(ctx) == "fp32" else 2
    unused = itemsize * (size - numel) / 1e9
    duration = "for the whole run" if effective_stage(ctx) == 3 else "in each backward pass"
    yield ctx.at(
        _REDUCE,
        f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, but"
        f" {trained_model(ctx).shown} has {numel:,} parameters: {unused:,.2f} GB of the bucket is allocated"
        f" {duration} and never used",
        help=f"set `{_REDUCE}` to {round_down(numel)}",
        related=related_stage(ctx),
    )


@rule(
    "DSC869",
    effect="crashes",
    since="0.15.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.prefetch_bucket_size",
)
def auto_prefetch_bucket_with_fraction(ctx: Context) -> Iterator[Finding]:
    """`stage3_prefetch_bucket_size` is "auto", for which an old Transformers or Accelerate computes a fraction.

    Transformers before 4.45 and Accelerate before 0.31 fill in 0.9 × `hidden_size`², such as 15099494.4 for a hidden
    size of 4096. From 0.15.0 on DeepSpeed requires an integer, and raises "Input should be a valid integer, got a
    number with a fractional part". Reported only when the model and the version of the consumer are known.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 15099494}}
    """
    if ctx.raw(_PREFETCH) != "auto" or ctx.consumer not in HUGGING_FACE or not has_model(ctx):
        return
    if version_includes_change("whole_bucket", ctx.consumer, ctx.version):
        return
    hidden = model_architecture(ctx).hidden_size
    bucket = 0.9 * hidden * hidden
    if not bucket.is_integer():
        yield ctx.at(
            _PREFETCH,
            f'"auto" becomes {bucket!r} with {ctx.consumer.capitalize()} {ctx.version} and the hidden size {hidden} of'
            f" {trained_model(ctx).shown}, and DeepSpeed requires an integer",
            help=f"set it to {int(bucket)}, or upgrade {ctx.consumer.capitalize()}",
        )


@rule(
    "DSC406",
    effect="wasteful",
    since="0.5.9",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_without_effect(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` has no effect, because stage 3 gathers the whole model on each GPU.

    The limit only stops prefetching. A parameter that is used again within `stage3_max_reuse_distance` stays
    gathered. Between the forward and the backward pass of the first layer, twice the parameters of the model
    are used. If the distance is at least that, nothing is released in between. Reported only when the model
    is known.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 10000000,
        "stage3_max_reuse_distance": 10000000}, "$dsconfig": {"model": "gpt2"}}
    """
    if not has_model(ctx) or not ctx.has(_LIVE) or effective_stage(ctx) != 3 or ctx.world_size == 1:
        return
    live, reuse = ctx.value(_LIVE), ctx.value(_REUSE)
    if not isinstance(live, int | float) or not isinstance(reuse, int | float):
        return
    if reuse < 2 * (numel := parameter_count(ctx)):
        return
    suggested = round_down(numel // 10)
    yield ctx.at(
        _LIVE,
        f"`stage3_max_live_parameters` is {live:,.0f}, but all {numel:,} parameters of {trained_model(ctx).shown} are"
        f" gathered on each GPU anyway, because `stage3_max_reuse_distance` is {reuse:,.0f}",
        help=f"set `{_REUSE}` and `{_LIVE}` to {suggested}",
        related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
    )


@rule(
    "DSC411",
    effect="crashes",
    since="0.17.2",
    until="0.18.1",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads, "
    "runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage",
)
def bucket_too_small_for_another_format(ctx: Context) -> Iterator[Finding]:
    """Gradients that are reduced in a dtype other than their own do not fit in `reduce_bucket_size`.

    From 0.17.2 to 0.18.1, DeepSpeed registers a parameter larger than the bucket under its own dtype and
    looks it up by the dtype that is sent, which for linear layers is that of `torch_autocast`. The first
    backward pass fails with "start (0) + length (525336576) exceeds dimension size (500000000)". With
    `communication_data_type` up to 0.18.0, a full bucket is enough to fail: "KeyError: torch.bfloat16".
    Reported only when the model is known.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}, "zero_optimization":
        {"stage": 2, "reduce_bucket_size": 600000000}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    if (
        not has_model(ctx)
        or ctx.facts.adapters
        or effective_stage(ctx) not in (1, 2)
        or uses_bf16_optimizer(ctx)
    ):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float):
        return
    problem = _autocast_problem(ctx, size) if has_autocast(ctx) else _communication_problem(ctx, size)
    if problem is not None:
        reason, help_ = problem
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, but {reason}",
            help=help_,
            related=related_stage(ctx),
        )


def _autocast_problem(ctx: Context, size: float) -> tuple[str, str] | None:
    """Return the reason and help if linear layers reduce gradients in their autocast dtype, else None."""
    path = "torch_autocast.dtype"
    dtype = normalize_dtype(ctx.value(path)) if ctx.has(path) else "fp16"
    if dtype not in ("fp16", "bf16") or ctx.has("torch_autocast.lower_precision_safe_modules"):
        return None
    return _describe_oversized_weight(ctx, largest_linear(ctx), size, dtype)


def _communication_problem(ctx: Context, size: float) -> tuple[str, str] | None:
    """Return the reason and help if `communication_data_type` is not the model's dtype, else None."""
    dtype, key = reduction_dtype(ctx)
    if key is None or dtype == training_dtype(ctx):
        return None
    if ctx.since("0.18.1"):
        return _describe_oversized_weight(ctx, largest_parameter(ctx), size, dtype)
    if (numel := parameter_count(ctx)) <= size:
        return None
    reason = (
        f"the {numel:,} gradients of {trained_model(ctx).shown} fill it more than once: they are sent as {dtype}, and"
        " up to 0.18.0 DeepSpeed looks for the full bucket under the wrong dtype"
    )
    return reason, f'set `{key}` to "{training_dtype(ctx)}", or upgrade DeepSpeed to 0.18.2 or later'


def _describe_oversized_weight(
    ctx: Context, weight: NamedParameter | None, size: float, dtype: str
) -> tuple[str, str] | None:
    if weight is None or weight.numel <= size or not ctx.is_on(f"{ZERO}.contiguous_gradients"):
        return None
    reason = (
        f"`{weight.name}` in {trained_model(ctx).shown} has {weight.numel:,} elements: its gradient is sent as"
        f" {dtype}, and up to 0.18.1 a gradient sent in another dtype must fit in the bucket"
    )
    return (
        reason,
        f"set `{_REDUCE}` to {round_up(weight.numel)}, or upgrade DeepSpeed to 0.18.2 or later",
    )


# Expert blocks and leaf modules of stage 3 with a known model.

_LEAF = f"{ZERO}.leaf_module"
_CLASSES = f"{_LEAF}.classes"


@rule("DSC407", effect="crashes", source="utils/z3_leaf_module.py:set_z3_leaf_modules")
def experts_without_leaf(ctx: Context) -> Iterator[Finding]:
    """A model with experts trains at stage 3, but its expert block is not a leaf module.

    In Transformers 4, a rank calls only the experts to which its tokens are routed, so ranks gather different
    parameters. With NCCL they wait for each other forever, and with gloo they raise. As a leaf module, the
    block is gathered as a whole.

    Since 0.18.0, `leaf_module` lists such blocks, and those of Mixtral, Qwen2-MoE and Qwen3-MoE are leaf
    modules by default. Before 0.18.0, a script has to call `deepspeed.utils.set_z3_leaf_modules`, which exists since
    0.13.0 and works in training since 0.13.2.

    Reported only when the model is known and neither a script in the repository nor its program
    (LLaMA-Factory, Axolotl, ms-swift) sets leaf modules. It is an info unless Transformers is known to be
    older than 5.

    Bad, read by transformers==4.57:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "leaf_module": {"classes":
        ["Qwen3MoeSparseMoeBlock"]}, "stage3_gather_16bit_weights_on_model_save": true},
        "$dsconfig": {"model": "mixtral-8x7b"}}

    Good, read by transformers==4.57:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}, "$dsconfig": {"model": "mixtral-8x7b"}}
    """
    if not has_model(ctx) or not ctx.has(ZERO) or effective_stage(ctx) != 3 or ctx.world_size == 1:
        return
    known_model = trained_model(ctx)
    block = sparse_block_of(known_model)
    if (
        block is None
        or _may_be_leaf_module(ctx, block)
        or ctx.facts.program in repository_files.LEAF_MODULE_PROGRAMS
    ):
        return
    version = transformers_version(ctx)
    if (version is not None and version >= FUSED) or repository_files.repository_sets_leaf_modules(
        ctx.document.name
    ):
        return
    message = (
        f"{known_model.shown} has experts in `{block}`, which is not a leaf module: ranks that skip an expert"
        " and ranks that use it wait for each other forever"
    )
    effect: EffectName = "crashes" if version is not None else "wasteful"
    message += "" if version is not None else " with Transformers before 5"
    if ctx.since("0.18.0"):
        classes = [*(string_list(ctx, _CLASSES) if ctx.has(_CLASSES) else []), block]
        fix = Fix(f"make `{block}` a leaf module", (SetValue(ctx.written_path(_CLASSES), classes),))
        advice = f"add `{block}` to `{_CLASSES}`, unless the script makes it a leaf module"
        yield ctx.at(_CLASSES if ctx.has(_CLASSES) else STAGE, message, help=advice, effect=effect, fix=fix)
    else:
        call = f"call `deepspeed.utils.set_z3_leaf_modules(model, [{block}])` in the script"
        advice = (
            f"{call}, unless it already does"
            if ctx.since("0.13.2")
            else f"use DeepSpeed 0.13.2 or later, and {call}"
        )
        yield ctx.at(STAGE, message, help=advice, effect=effect)


def _may_be_leaf_module(ctx: Context, block: str) -> bool:
    """Return whether the config makes, or may make, a block a leaf module."""
    if ctx.before("0.18.0"):
        return False
    if string_list(ctx, f"{_LEAF}.names") or string_list(ctx, f"{_LEAF}.name_suffixes"):
        return True
    other_blocks = {each for each in BLOCKS.values() if each != block}
    return any(name.rpartition(".")[2] not in other_blocks for name in string_list(ctx, _CLASSES))


@rule(
    "DSC408", effect="ignored", since="0.18.0", source="utils/z3_leaf_module.py:apply_zero_leaf_module_config"
)
def leaf_module_not_in_model(ctx: Context) -> Iterator[Finding]:
    """`leaf_module.classes` lists only blocks of models other than the trained one.

    DeepSpeed logs that no module matched and applies its hooks as usual. Reported only when the model is
    known and each class is the expert block of another model.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "leaf_module": {"classes":
        ["Qwen3MoeSparseMoeBlock"]}}, "$dsconfig": {"model": "llama-3-8b"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "$dsconfig": {"model": "llama-3-8b"}}
    """
    if not has_model(ctx) or not ctx.has(_CLASSES) or effective_stage(ctx) != 3:
        return
    if string_list(ctx, f"{_LEAF}.names") or string_list(ctx, f"{_LEAF}.name_suffixes"):
        raise SkipRule
    known_model, classes = trained_model(ctx), string_list(ctx, _CLASSES)
    if not classes or classes == ctx.default(_CLASSES) or sparse_block_of(known_model) is not None:
        return
    model_types = {block: model_type for model_type, block in BLOCKS.items()}
    owners = [model_types.get(name.rpartition(".")[2]) for name in classes]
    if None not in owners and not set(owners) & set(known_model.kinds) and known_model.kinds:
        yield ctx.at(
            _CLASSES,
            f"`classes` lists blocks of {', '.join(dict.fromkeys(map(str, owners)))}, but"
            f" {known_model.shown} is a {known_model.kinds[0]} model: no module matches",
            help="remove it",
        )
