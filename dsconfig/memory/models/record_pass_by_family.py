"""Select the module that records the forward pass of a model family."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.memory.autograd_graph import ForwardTape, Module, TensorParallelSettings
from dsconfig.memory.features import autotp
from dsconfig.memory.layers import activation, add_residual, linear
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.unsupported_settings import reject_model

NO_TENSOR_PARALLEL = TensorParallelSettings()


def record_forward_pass(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create a model and record its forward pass.

    Raises:
        NotModelledError: the model cannot be estimated with this kind of parallelism.
    """
    reject_model(arch, batch)
    if batch.tensor_parallel.size > 1:
        return _record_tensor_parallel(arch, batch)
    if arch.family == "gpt2":
        from dsconfig.memory.models.gpt_decoders import build_gpt2 as build
    elif arch.family == "falcon":
        from dsconfig.memory.models.gpt_decoders import build_falcon as build
    elif arch.family == "vit":
        from dsconfig.memory.models.encoders import build_vit as build
    elif arch.family == "bert":
        from dsconfig.memory.models.encoders import build_bert as build
    elif arch.family == "gpt_neox":
        from dsconfig.memory.models.gpt_decoders import build_gpt_neox as build
    elif arch.family == "opt":
        from dsconfig.memory.models.gpt_decoders import build_opt as build
    elif arch.family == "plain":
        build = _build_synthetic_mlp
    elif arch.family == "generic":
        from dsconfig.memory.models.generic_transformer import build
    elif arch.family == "sized":
        build = _build_parameters_only
    else:
        from dsconfig.memory.models.decoder import build
    return build(arch, batch)


@lru_cache(maxsize=4)
def weights_of(
    arch: Architecture,
    itemsize: int,
    autocast: bool,
    tensor: TensorParallelSettings = NO_TENSOR_PARALLEL,
    experts: int = 0,
) -> ForwardTape:
    """Create the modules and parameters of a model without recording a pass."""
    return record_forward_pass(
        arch,
        MicroBatch(1, 1, itemsize, autocast, tensor_parallel=tensor, ep_size=experts, records_pass=False),
    )


def _record_tensor_parallel(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create and record a model whose linear layers are sharded over ranks."""
    ranks = batch.tensor_parallel.size
    tape = record_forward_pass(
        autotp.rank_architecture(arch, batch.tensor_parallel),
        batch._replace(tensor_parallel=TensorParallelSettings()),
    )
    tape.apply_tensor_parallel(ranks, batch.tensor_parallel.shards_lm_head(arch.has_qk_norms))
    tape.collectives = autotp.tensor_parallel_collectives(arch, batch)
    return tape


# Models without the layers of a model family.


def _build_parameters_only(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create a model whose layers are unknown: one module per weight of each block.

    The pass gathers and differentiates the weights in order, and has no activations.
    """
    tape = batch.new_tape()
    root = tape.module("", inputs_require_grad=False)
    blocks: list[tuple[Module, list[Module]]] = []
    for block in arch.weight_blocks:
        for index in range(block.repeats):
            name = f"{block.name}.{index}"
            parent = tape.module(name, inputs_require_grad=bool(blocks))
            children = [
                tape.projection(f"{name}.{child}", rows, columns, inputs_require_grad=bool(blocks))
                if child.endswith("_proj")
                else tape.module(f"{name}.{child}", (rows, columns), inputs_require_grad=bool(blocks))
                for child, rows, columns in block.weights
            ]
            blocks.append((parent, children))
    if not batch.records_pass:
        return tape
    x = tape.tensor(0)
    with tape.record_module(root):
        for parent, children in blocks:
            with tape.record_module(parent, x):
                for child in children:
                    x = linear(tape, child, x, 0, 0)
    tape.op([x], tape.tensor(1, 4), shares_grad=True)
    return tape


def _build_synthetic_mlp(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create the synthetic model that was measured: blocks of two linear layers with GELU and a residual."""
    tape = batch.new_tape()
    rows, hidden, intermediate_size = (
        batch.micro_batch_size * batch.sequence_length,
        arch.hidden_size,
        arch.intermediate_size,
    )
    root = tape.module("", inputs_require_grad=False)
    blocks = []
    for index in range(arch.num_layers):
        requires_grad = index < arch.trained_fraction * arch.num_layers
        block = tape.module(str(index), inputs_require_grad=index > 0)
        up = tape.module(
            f"{index}.up",
            (intermediate_size, hidden),
            intermediate_size,
            inputs_require_grad=index > 0,
            requires_grad=requires_grad,
            casts=True,
        )
        down = tape.module(
            f"{index}.down", (hidden, intermediate_size), hidden, requires_grad=requires_grad, casts=True
        )
        blocks.append((block, up, down))
    if not batch.records_pass:
        return tape
    tape.input_bytes = rows * hidden * batch.itemsize
    x = tape.tensor(0, requires_grad=False)  # the script holds the batch
    with tape.record_module(root):
        for block, up, down in blocks:
            with tape.record_module(block, x):
                y = activation(tape, None, linear(tape, up, x, rows, intermediate_size))
                x = add_residual(tape, linear(tape, down, y, rows, hidden), x)
    x_fp32 = x if x.itemsize == 4 else tape.op([x], tape.tensor(rows * hidden, 4))
    square = tape.op(
        [x_fp32], tape.tensor(rows * hidden, 4), [x_fp32], backward_temporary=2 * 4 * rows * hidden
    )
    loss = tape.op([square], tape.tensor(1, 4))
    tape.op([loss], tape.tensor(1, 4), shares_grad=True)
    return tape
