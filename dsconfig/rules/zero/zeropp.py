"""ZeRO++ and MiCS: secondary partitions, replica groups, quantized weights and gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._effective_values import (
    ZERO,
    format_place,
    model_format,
    sent_format,
    stage,
    stage_set_here,
    tensor_parallel,
)
from dsconfig.rules._fixes import removal
from dsconfig.rules._model_facts import has_model, model, weights
from dsconfig.rules._numbers import division

# ZeRO++: secondary partitions and quantised gradients.

_GROUPS = "utils/groups.py:_create_zero_param_parallel_group"


@rule("DSC448", effect="crashes", since="0.10.0", source=_GROUPS)
def secondary_partition_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` does not divide the number of ranks.

    The ranks are cut into groups of that size, and none may be left over: "12 is not divisible by 8".

    Bad, world size 12:

        {"train_batch_size": 12, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 16:

        {"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    """
    if not ctx.has(HPZ) or ctx.world_size is None:
        return
    size, ranks = secondary_partition(ctx), ctx.world_size
    if 1 < size < ranks and ranks % size:
        fits = divisors(ranks)[1:]
        shown = one_of(fits) if len(fits) <= _MOST else ", ".join(map(quoted, fits[:_MOST])) + ", …"
        yield ctx.at(
            HPZ,
            f"`zero_hpz_partition_size` is {size}, which does not divide the {ranks} ranks: "
            f"{division(ranks, size)}",
            help=f"use {shown}, or another number of ranks",
        )


_MOST = 8
"""Numbers listed before the rest is left out."""


@rule("DSC449", effect="altered", since="0.10.0", source=_GROUPS)
def secondary_partition_beyond_ranks(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` is larger than the number of ranks, or 0.

    More ranks than there are count as all of them, 0 as 1: either way there is no second partition.

    Bad, world size 4:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 8:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 0}}
    """
    if not ctx.has(HPZ):
        return
    size = secondary_partition(ctx)
    if size == 0:
        yield ctx.at(
            HPZ,
            "`zero_hpz_partition_size` is 0 and counts as 1: there is no secondary partition",
            help="write the number of GPUs in a node, or remove the key",
            fix=removal(ctx.place(HPZ), safe=True),
        )
    elif ctx.world_size is not None and size > max(ctx.world_size, 1):
        yield ctx.at(
            HPZ,
            f"`zero_hpz_partition_size` is {size} and counts as {ctx.world_size}, the number of ranks: the"
            " secondary partition is the first one over again",
            help="write the number of GPUs in a node, or remove the key",
        )


@rule(
    "DSC416",
    effect="crashes",
    since="0.13.5",
    until="0.19.4",
    source="runtime/zero/partition_parameters.py:Init._partition_param_sec",
)
def parameter_shorter_than_secondary_parts(ctx: Context) -> Iterator[Finding]:
    """Some rank's part of a secondary partition would start past the end of a parameter.

    Parameters are padded to a multiple of all ranks, and a node shares that: what is shorter than the padding
    leaves the last ranks nothing, and up to 0.19.4 `torch.narrow` raises there. Norms of heads have 64 or 128
    elements, and ranks are many. Reported where model and world size are known.

    Bad, world size 256:

        {"train_batch_size": 256, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}

    Good, world size 128:

        {"train_batch_size": 128, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}
    """
    ranks, node = ranks_of_known_model(ctx), secondary_partition(ctx)
    if ranks is None or not 1 < node <= ranks or ranks % node:
        return
    from dsconfig.memory.quantized_gather import behind

    found = behind(((weight.name, weight.elements) for weight in weights(ctx)), ranks, node)
    if found is not None:
        yield ctx.at(
            HPZ,
            f"`{found.name}` in {model(ctx).shown} has {found.elements:,} elements, and the part of the last"
            f" of {node} ranks would start at {found.start:,}: DeepSpeed stops",
            help="remove it, change the number of GPUs, or upgrade DeepSpeed to 0.19.5 or later",
            fix=removal(ctx.place(HPZ)),
        )


@rule(
    "DSC450",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def quantized_gradients_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is true at stage 3, and `reduce_scatter` is false.

    Quantised gradients travel by an all-to-all that stands in for the reduce-scatter: "when enable
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
    if ctx.on(path) and not ctx.on(scatter) and stage(ctx) == 3:
        yield ctx.at(
            scatter,
            "`reduce_scatter` is `false`, but `zero_quantized_gradients` stands in for the reduce-scatter and"
            " needs it",
            help="remove it, or set `zero_quantized_gradients` to `false`",
            related=[("gradients are quantised here", path)],
            fix=removal(ctx.place(scatter)),
        )


# Ranks that share parameters at stage 3.

HPZ = f"{ZERO}.zero_hpz_partition_size"


def secondary_partition(ctx: Context) -> int:
    """The ranks of a secondary partition as written, where stage 3 makes them; else 1, which is off."""
    size = ctx.value(HPZ) if ctx.has(HPZ) else 1
    return size if isinstance(size, int) and stage(ctx) == 3 else 1


def ranks_of_known_model(ctx: Context) -> int | None:
    """The ranks that share the parameters at stage 3, where both model and ranks are known."""
    if not has_model(ctx) or stage(ctx) != 3:
        return None
    apart = tensor_parallel(ctx) > 1 or ctx.on("expert_parallel.enabled")
    return None if apart else ctx.world_size


# ZeRO++: weights and gradients that are quantised as they are sent.

_WEIGHTS, _GRADIENTS = f"{ZERO}.zero_quantized_weights", f"{ZERO}.zero_quantized_gradients"
_NODE, _LARGEST_NODE = 8, 16
"""GPUs of a node where nobody says how many: the usual number, and the most that are common."""


@rule(
    "DSC412",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/partition_parameters.py:CUDAQuantizer.quantize",
)
def shard_not_quantizable(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_weights` is on, and a rank's part of some module is no multiple of eight elements.

    Parts are quantised before they are gathered, in groups of eight: "Qantized weight requires the number of
    weights be a multiple of 8". Norms and biases are short, and ranks are many. With
    `zero_hpz_partition_size` it is the parts of the copy in a node that are gathered at first. Reported where
    model and world size are known.

    Bad, world size 1024:

        {"train_batch_size": 1024, "zero_optimization": {"stage": 3, "zero_quantized_weights": true},
        "$dsconfig": {"model": "llama-3-8b"}}

    Good, world size 512:

        {"train_batch_size": 512, "zero_optimization": {"stage": 3, "zero_quantized_weights": true},
        "$dsconfig": {"model": "llama-3-8b"}}
    """
    ranks = ranks_of_known_model(ctx)
    if ranks is None or ranks == 1 or not ctx.on(_WEIGHTS):
        return
    from dsconfig.memory.quantized_gather import EIGHT, uneven

    node = min(secondary_partition(ctx), ranks)
    sizes = ((weight.name, weight.elements) for weight in weights(ctx))
    found = uneven(sizes, ranks, node if node > 1 else ranks)
    if found is not None:
        yield ctx.at(
            _WEIGHTS,
            f"one of {ranks:,} ranks has {found.elements:,} elements of `{found.module}` in"
            f" {model(ctx).shown}, and what is quantised has to be a multiple of {EIGHT}",
            help="remove it, or change the number of GPUs",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(_WEIGHTS)),
        )


@rule(
    "DSC413",
    effect="altered",
    since="0.10.0",
    until="0.19.5",
    source="csrc/quantization/pt_binding.cpp:quantize_kernel",
)
def weights_quantized_as_fp16(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_weights` is on, and the model is not in fp16.

    Up to 0.19.5 weights are handed as they are to a kernel that reads fp16: the bits of bf16 and fp32 stand
    for other numbers there. From 0.19.6 on they are converted (`CUDAQuantizer.quantize`).

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_weights": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_weights": true}}
    """
    if not ctx.on(_WEIGHTS) or stage(ctx) != 3 or ctx.world_size == 1 or model_format(ctx) == "fp16":
        return
    yield ctx.at(
        _WEIGHTS,
        f"`zero_quantized_weights` reads weights as fp16, but they are {model_format(ctx)}: the model is"
        " trained with other weights than its own",
        help="remove it, or upgrade DeepSpeed to 0.19.6 or later",
        related=format_place(ctx),
        fix=removal(ctx.place(_WEIGHTS)),
    )


@rule(
    "DSC414",
    effect="altered",
    since="0.10.0",
    source="csrc/quantization/pt_binding.cpp:ds_swizzle_quant",
)
def gradients_quantized_as_fp16(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is on, and gradients are not sent in fp16.

    Where ranks are on several nodes, gradients are handed as they are to a kernel that reads fp16
    (`runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce`): the bits of bf16 and fp32 stand for
    other numbers there, and nothing is raised. With `communication_data_type` they are converted before.

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
    if not ctx.on(_GRADIENTS) or stage(ctx) != 3 or _in_one_node(ctx, _NODE):
        return
    sent, key = sent_format(ctx)
    if sent == "fp16":
        return
    yield ctx.at(
        _GRADIENTS,
        f"`zero_quantized_gradients` reads gradients as fp16, but they are {sent}: where ranks are on several"
        " nodes, the model is trained with other gradients than its own",
        help="set `communication_data_type` to `fp16`, or remove `zero_quantized_gradients`",
        related=[("gradients are sent in this format", key)] if key else format_place(ctx),
        fix=removal(ctx.place(_GRADIENTS)),
    )


@rule(
    "DSC415",
    effect="crashes",
    since="0.10.0",
    source="runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce",
)
def quantization_groups_not_divisible(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is on, and some gradient has groups that ranks do not share evenly.

    Where ranks are on several nodes, a matrix is quantised in as many groups as its longer side has elements,
    and their scales are sent in equal parts: "Tensor's dim 0 does not divide equally across group size".
    Gradients whose elements are no multiple of twice the ranks are not quantised at all. Reported where model
    and world size are known.

    Bad, world size 24:

        {"train_batch_size": 24, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}, "$dsconfig": {"model": "llama-3.2-3b"}}

    Good, world size 32:

        {"train_batch_size": 32, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "zero_quantized_gradients": true}, "$dsconfig": {"model": "llama-3.2-3b"}}
    """
    ranks = ranks_of_known_model(ctx)
    if ranks is None or not ctx.on(_GRADIENTS) or ctx.known.adapters or _in_one_node(ctx, _LARGEST_NODE):
        return
    from dsconfig.memory.quantized_gather import divided

    found = divided(((weight.name, weight.shape) for weight in weights(ctx)), ranks)
    if found is not None:
        yield ctx.at(
            _GRADIENTS,
            f"the gradient of `{found.name}` in {model(ctx).shown} is quantised in {found.groups:,} groups,"
            f" which {ranks:,} ranks do not share evenly",
            help="remove it, or change the number of GPUs",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(_GRADIENTS)),
        )


def _in_one_node(ctx: Context, node: int) -> bool:
    """Whether all ranks are known to be in a node of so many GPUs, where nobody says how many it has."""
    return ctx.world_size is not None and ctx.world_size <= (ctx.known.gpus_per_node or node)


# MiCS: a whole copy of the model in each group of ranks.

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

    MiCS keeps a whole copy of the model in each group of so many ranks, and the groups must tile all ranks.
    The engine says "dp group size is not dividable by dp_shard_size" and stops.

    Bad, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 3}}

    Good, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 4}}
    """
    ranks = ctx.world_size
    if ranks is None or not ctx.has(_SHARD) or stage(ctx) != 3:
        return
    size = ctx.value(_SHARD)
    if isinstance(size, int) and size > 0 and ranks % size:
        yield ctx.at(
            _SHARD,
            f"`mics_shard_size` {size} does not divide {ranks} ranks: {division(ranks, size)}",
            help=f"use a divisor of {ranks}: {', '.join(str(number) for number in divisors(ranks)[:8])}",
        )
