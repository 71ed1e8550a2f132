"""ZeRO++: weights and gradients that are quantised as they are sent."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import format_place, model_format, sent_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._model_facts import model, weights
from dsconfig.rules._stage import ZERO, stage, stage_set_here
from dsconfig.rules.zero._ranks import ranks_of_known_model, secondary_partition

_WEIGHTS, _GRADIENTS = f"{ZERO}.zero_quantized_weights", f"{ZERO}.zero_quantized_gradients"
_NODE, _LARGEST_NODE = 8, 16
"""GPUs of a node where nobody says how many: the usual number, and the most that are common."""


@rule(
    "DSC412",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/partition_parameters.py:CUDAQuantizer.quantize",
)
def parts_that_are_not_quantized(ctx: Context) -> Iterator[Finding]:
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
def gradients_that_ranks_do_not_share(ctx: Context) -> Iterator[Finding]:
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
