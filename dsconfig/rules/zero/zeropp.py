"""ZeRO++ and MiCS: secondary partitions, replica groups, and quantized weights and gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._effective_values import (
    ZERO,
    effective_stage,
    format_remainder,
    reduction_dtype,
    related_dtype,
    related_stage,
    tensor_parallel_ranks,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._model_facts import has_model, model_parameters, trained_model

# ZeRO++: secondary partitions and quantized gradients.

_GROUPS = "utils/groups.py:_create_zero_param_parallel_group"


@rule("DSC448", effect="crashes", since="0.10.0", source=_GROUPS)
def secondary_partition_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` does not divide the number of ranks.

    DeepSpeed divides the ranks into groups of this size, and no ranks may be left over: "12 is not divisible by 8".

    Bad, world size 12:

        {"train_batch_size": 12, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 16:

        {"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    """
    if not ctx.has(HPZ) or ctx.world_size is None:
        return
    size, ranks = secondary_partition_size(ctx), ctx.world_size
    if 1 < size < ranks and ranks % size:
        sizes = divisors(ranks)[1:]
        listed = (
            join_alternatives(sizes)
            if len(sizes) <= _MAX_LISTED
            else ", ".join(map(quote_value, sizes[:_MAX_LISTED])) + ", …"
        )
        yield ctx.at(
            HPZ,
            f"`zero_hpz_partition_size` is {size}, which does not divide the {ranks} ranks "
            f"{format_remainder(ranks, size)}",
            help=f"set `zero_hpz_partition_size` to {listed}, or change the number of ranks",
        )


_MAX_LISTED = 8
"""Maximum number of sizes that the help lists."""


@rule("DSC449", effect="altered", since="0.10.0", source=_GROUPS)
def secondary_partition_beyond_ranks(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` is larger than the number of ranks, or 0.

    A larger size is treated as the number of ranks, and 0 as 1. Neither creates a secondary partition.

    Bad, world size 4:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 8:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 0}}
    """
    if not ctx.has(HPZ):
        return
    size = secondary_partition_size(ctx)
    if size == 0:
        yield ctx.at(
            HPZ,
            "`zero_hpz_partition_size` is 0 and is treated as 1: there is no secondary partition",
            help="set it to the number of GPUs per node, or remove the key",
            fix=remove_key(ctx.written_path(HPZ), safe=True),
        )
    elif ctx.world_size is not None and size > max(ctx.world_size, 1):
        yield ctx.at(
            HPZ,
            f"`zero_hpz_partition_size` is {size} and is treated as {ctx.world_size}, the number of ranks:"
            " the secondary partition is the same as the primary one",
            help="set it to the number of GPUs per node, or remove the key",
        )


@rule(
    "DSC416",
    effect="crashes",
    since="0.13.5",
    until="0.19.4",
    source="runtime/zero/partition_parameters.py:Init._partition_param_sec",
)
def parameter_shorter_than_secondary_parts(ctx: Context) -> Iterator[Finding]:
    """A rank's part of a secondary partition starts past the end of a parameter.

    DeepSpeed pads parameters to a multiple of the number of ranks, and the ranks of a node share the padded
    parameter. If a parameter is shorter than the padding, nothing is left for the last ranks, and up to
    0.19.4 `torch.narrow` raises. Attention head norms have only 64 or 128 elements. Reported only when the
    model and the world size are known.

    Bad, world size 256:

        {"train_batch_size": 256, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}

    Good, world size 128:

        {"train_batch_size": 128, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}
    """
    ranks, group = partitioning_ranks(ctx), secondary_partition_size(ctx)
    if ranks is None or not 1 < group <= ranks or ranks % group:
        return
    from dsconfig.memory import find_shard_past_parameter_end

    parameter = find_shard_past_parameter_end(
        ((weight.name, weight.numel) for weight in model_parameters(ctx)), ranks, group
    )
    if parameter is not None:
        yield ctx.at(
            HPZ,
            f"`{parameter.name}` in {trained_model(ctx).shown} has only {parameter.numel:,} elements, but the last"
            f" of {group} ranks would get those from {parameter.start:,} on, so DeepSpeed raises",
            help="remove it, change the number of GPUs, or upgrade DeepSpeed to 0.19.5 or later",
            fix=remove_key(ctx.written_path(HPZ)),
        )


@rule(
    "DSC450",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def quantized_gradients_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is true at stage 3, but `reduce_scatter` is false.

    Quantized gradients are exchanged by an all-to-all that replaces the reduce-scatter: "when enable
    all_to_all_reduce, reduce_scatter should also be enabled".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true,
        "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}
    """
    path, scatter = f"{ZERO}.zero_quantized_gradients", f"{ZERO}.reduce_scatter"
    if not (ctx.has(path) and ctx.has(scatter)):
        return
    if ctx.is_on(path) and not ctx.is_on(scatter) and effective_stage(ctx) == 3:
        yield ctx.at(
            scatter,
            "`reduce_scatter` is `false`, but `zero_quantized_gradients` requires it to be `true`",
            help="remove it, or set `zero_quantized_gradients` to `false`",
            related=[("quantized gradients are enabled here", path)],
            fix=remove_key(ctx.written_path(scatter)),
        )


# Ranks that partition the parameters at stage 3.

HPZ = f"{ZERO}.zero_hpz_partition_size"


def secondary_partition_size(ctx: Context) -> int:
    """Return the size of a secondary partition at stage 3; 1 means that there is none."""
    size = ctx.value(HPZ) if ctx.has(HPZ) else 1
    return size if isinstance(size, int) and effective_stage(ctx) == 3 else 1


def partitioning_ranks(ctx: Context) -> int | None:
    """Return the number of ranks that partition a known model at stage 3, or None if unknown."""
    if not has_model(ctx) or effective_stage(ctx) != 3:
        return None
    has_other_parallelism = tensor_parallel_ranks(ctx) > 1 or ctx.is_on("expert_parallel.enabled")
    return None if has_other_parallelism else ctx.world_size


# ZeRO++: weights and gradients that are quantized for communication.

_WEIGHTS, _GRADIENTS = f"{ZERO}.zero_quantized_weights", f"{ZERO}.zero_quantized_gradients"
_GPUS_PER_NODE, _MAX_GPUS_PER_NODE = 8, 16
"""Usual and largest common number of GPUs per node, for jobs that do not set it."""


@rule(
    "DSC412",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/partition_parameters.py:CUDAQuantizer.quantize",
)
def shard_not_quantizable(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_weights` is on, but a rank's part of a module is not a multiple of eight elements.

    DeepSpeed quantizes the parts before it gathers them, in groups of eight: "Qantized weight requires the
    number of weights be a multiple of 8". The parts of short norms and biases are small on many ranks. With
    `zero_hpz_partition_size`, the parts of the copy within a node are gathered first. Reported only when the
    model and the world size are known.

    Bad, world size 1024:

        {"train_batch_size": 1024, "zero_optimization": {"stage": 3, "zero_quantized_weights": true},
        "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 512:

        {"train_batch_size": 512, "zero_optimization": {"stage": 3, "zero_quantized_weights": true},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    ranks = partitioning_ranks(ctx)
    if ranks is None or ranks == 1 or not ctx.is_on(_WEIGHTS):
        return
    from dsconfig.memory import QUANTIZER_ALIGNMENT, find_uneven_shard

    group = min(secondary_partition_size(ctx), ranks)
    sizes = ((weight.name, weight.numel) for weight in model_parameters(ctx))
    part = find_uneven_shard(sizes, ranks, group if group > 1 else ranks)
    if part is not None:
        yield ctx.at(
            _WEIGHTS,
            f"`zero_quantized_weights` needs a multiple of {QUANTIZER_ALIGNMENT} elements on each rank, but one of"
            f" {ranks:,} ranks has {part.numel:,} elements of `{part.module}` in {trained_model(ctx).shown}",
            help="remove it, or change the number of GPUs",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(_WEIGHTS)),
        )


@rule(
    "DSC413",
    effect="altered",
    since="0.10.0",
    until="0.19.5",
    source="csrc/quantization/pt_binding.cpp:quantize_kernel",
)
def weights_quantized_as_fp16(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_weights` is on, but the model is not in fp16.

    Up to 0.19.5, DeepSpeed passes the weights unconverted to a kernel that reads them as fp16, so bf16 and fp32 weights
    are misread. Since 0.19.6 it converts them (`CUDAQuantizer.quantize`).

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_weights": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_weights": true}}
    """
    if (
        not ctx.is_on(_WEIGHTS)
        or effective_stage(ctx) != 3
        or ctx.world_size == 1
        or training_dtype(ctx) == "fp16"
    ):
        return
    yield ctx.at(
        _WEIGHTS,
        f"`zero_quantized_weights` reads weights as fp16, but they are {training_dtype(ctx)}: the model is"
        " trained with wrong weights",
        help="remove it, or upgrade DeepSpeed to 0.19.6 or later",
        related=related_dtype(ctx),
        fix=remove_key(ctx.written_path(_WEIGHTS)),
    )


@rule(
    "DSC414",
    effect="altered",
    since="0.10.0",
    source="csrc/quantization/pt_binding.cpp:ds_swizzle_quant",
)
def gradients_quantized_as_fp16(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is on, but gradients are not sent in fp16.

    On several nodes, DeepSpeed passes the gradients unconverted to a kernel that reads them as fp16
    (`runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce`), so bf16 and fp32 gradients are misread. No error
    is raised. With `communication_data_type`, DeepSpeed converts them first.

    Bad:

        {"train_batch_size": 16, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}}

    Good:

        {"train_batch_size": 16, "bf16": {"enabled": true}, "communication_data_type": "fp16",
        "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}

    Good:

        {"train_batch_size": 16, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}}
    """
    if not ctx.is_on(_GRADIENTS) or effective_stage(ctx) != 3 or _is_on_one_node(ctx, _GPUS_PER_NODE):
        return
    dtype, key = reduction_dtype(ctx)
    if dtype == "fp16":
        return
    yield ctx.at(
        _GRADIENTS,
        f"`zero_quantized_gradients` reads gradients as fp16, but they are {dtype}: on several nodes, the"
        " model is trained with wrong gradients",
        help="set `communication_data_type` to `fp16`, or remove `zero_quantized_gradients`",
        related=[("the communication dtype is set here", key)] if key else related_dtype(ctx),
        fix=remove_key(ctx.written_path(_GRADIENTS)),
    )


@rule(
    "DSC415",
    effect="crashes",
    since="0.10.0",
    source="runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce",
)
def quantization_groups_not_divisible(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is on, but the ranks cannot share the groups of a gradient evenly.

    On several nodes, DeepSpeed quantizes a matrix in as many groups as its longer side has elements, and
    sends their scales in equal parts: "Tensor's dim 0 does not divide equally across group size". It does not
    quantize gradients whose number of elements is not a multiple of twice the number of ranks. Reported only
    when the model and the world size are known.

    Bad, world size 24:

        {"train_batch_size": 24, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}, "$dsconfig": {"model": "llama-3.2-3b"}}

    Good, world size 32:

        {"train_batch_size": 32, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}, "$dsconfig": {"model": "llama-3.2-3b"}}
    """
    ranks = partitioning_ranks(ctx)
    if (
        ranks is None
        or not ctx.is_on(_GRADIENTS)
        or ctx.facts.adapters
        or _is_on_one_node(ctx, _MAX_GPUS_PER_NODE)
    ):
        return
    from dsconfig.memory import find_indivisible_groups

    gradient = find_indivisible_groups(
        ((weight.name, weight.shape) for weight in model_parameters(ctx)), ranks
    )
    if gradient is not None:
        yield ctx.at(
            _GRADIENTS,
            f"`zero_quantized_gradients` quantizes the gradient of `{gradient.name}` in {trained_model(ctx).shown} in"
            f" {gradient.groups:,} groups, which do not divide evenly among {ranks:,} ranks",
            help="remove it, or change the number of GPUs",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(_GRADIENTS)),
        )


def _is_on_one_node(ctx: Context, default: int) -> bool:
    """Return whether all ranks are on one node, which has `default` GPUs if the job does not say otherwise."""
    return ctx.world_size is not None and ctx.world_size <= (ctx.facts.gpus_per_node or default)


# MiCS: a full copy of the model in each group of ranks.

_SHARD = f"{ZERO}.mics_shard_size"


@rule(
    "DSC499",
    effect="crashes",
    since="0.9.2",
    until="0.19.6",
    source="runtime/zero/mics_utils.py:_generate_mics_config",
)
def mics_shard_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization.mics_shard_size` does not divide the number of ranks.

    MiCS keeps a full copy of the model in each group of this many ranks, and the groups have to cover all
    ranks. Engine initialization fails with "dp group size is not dividable by dp_shard_size".

    Bad, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 3}}

    Good, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 4}}
    """
    ranks = ctx.world_size
    if ranks is None or not ctx.has(_SHARD) or effective_stage(ctx) != 3:
        return
    size = ctx.value(_SHARD)
    if isinstance(size, int) and size > 0 and ranks % size:
        yield ctx.at(
            _SHARD,
            f"`mics_shard_size` is {size}, which does not divide the {ranks} ranks {format_remainder(ranks, size)}",
            help=f"use a divisor of {ranks}: {join_alternatives(divisors(ranks)[:8])}",
        )
