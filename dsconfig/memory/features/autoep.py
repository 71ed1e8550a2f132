"""AutoEP: experts are distributed over ranks, which exchange tokens (DeepSpeed's `auto_ep_layer.py`).

The number of tokens that a rank receives is known only in training. The estimate assumes the number that it sends,
times `expert_imbalance`.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, ModelCollective, Module
from dsconfig.memory.engines.base_engine import BUILT, Feature
from dsconfig.memory.layers import cast_tensor, saved_inputs

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture, MicroBatch

DISPATCHED = "MoE dispatch buffers"
ROW_ALIGNMENT = 8
"""Multiple to which the rows of an expert are padded (`TOKEN_GROUP_ALIGN_SIZE_M`)."""


class AutoEPBlock(NamedTuple):
    """The modules with which AutoEP replaces an MoE block."""

    router: Module
    gate: Module
    experts: Module


def autoep_block(tape: ForwardTape, arch: Architecture, batch: MicroBatch, prefix: str) -> AutoEPBlock:
    """Create the router and the three weight tensors of this rank's experts."""
    count = arch.num_experts // batch.ep_size * arch.hidden_size * arch.moe_intermediate_size
    router = tape.module(f"{prefix}.router")
    gate = tape.module(f"{prefix}.router.gate", arch.num_experts * arch.hidden_size, casts=True)
    experts = tape.module(f"{prefix}.experts", count, count, count, casts=True)
    gate.weights[0].created_after_init = True
    for weight in experts.weights:
        weight.is_linear, weight.is_expert = False, True
    tape.ep_size = batch.ep_size
    return AutoEPBlock(router, gate, experts)


def dispatch_tokens(
    tape: ForwardTape,
    arch: Architecture,
    batch: MicroBatch,
    layer: AutoEPBlock,
    y: ActivationTensor,
    rows: int,
) -> ActivationTensor:
    """Send the tokens to the ranks of their experts, apply the experts, and send the outputs back."""
    num_routed, hidden, itemsize = rows * arch.num_experts_per_tok, arch.hidden_size, tape.itemsize
    top_scores = _route_tokens(tape, arch, layer, y, rows)
    sort_order, token_indices, tokens_per_expert = (
        tape.op([], tape.tensor(num_routed, 8, requires_grad=False)) for _ in range(3)
    )
    scores = tape.op([], tape.tensor(num_routed, 4, requires_grad=False))
    sent = tape.op(
        [y, token_indices], tape.tensor(num_routed * hidden, itemsize, label=DISPATCHED), [token_indices]
    )
    num_received = num_routed
    if batch.ep_size > 1:
        # The router decides at run time how many tokens a rank receives.
        num_received = ceil(num_routed * batch.expert_imbalance)
        sent = _exchange_tokens(tape, batch, sent, num_received * hidden)
    expert_input, out = _compute_experts(tape, arch, batch, layer, sent, num_received)
    if batch.ep_size > 1:
        out = _exchange_tokens(tape, batch, out, num_routed * hidden)
    unsorted = tape.op([out, sort_order], tape.tensor(num_routed * hidden, itemsize), [sort_order])
    weighted = tape.tensor(num_routed * hidden, 4)
    tape.op(
        [unsorted, top_scores], weighted, [unsorted, top_scores], backward_temporary=8 * num_routed * hidden
    )
    combined = tape.op([weighted], tape.tensor(rows * hidden, 4), shares_grad=True)
    output = cast_tensor(tape, combined, itemsize)
    tape.keep_alive(
        sort_order,
        token_indices,
        tokens_per_expert,
        scores,
        top_scores,
        out,
        expert_input,
        *([sent] if batch.ep_size == 1 else []),
    )
    return output


def _route_tokens(
    tape: ForwardTape, arch: Architecture, layer: AutoEPBlock, y: ActivationTensor, rows: int
) -> ActivationTensor:
    """Record `TokenChoiceTopKRouter`: probabilities in fp32, normalized over the chosen experts."""
    num_routed, num_scores = rows * arch.num_experts_per_tok, rows * arch.num_experts
    with tape.record_module(layer.router):
        with tape.record_module(layer.gate):
            weights = layer.gate.weights
            scores = tape.op([y], tape.tensor(num_scores), saved_inputs(tape, y, weights), weights)
        probs = tape.tensor(num_scores, 4)
        tape.op([cast_tensor(tape, scores, 4)], probs, [probs])
        expert_ids = tape.op([], tape.tensor(num_routed, 8, requires_grad=False))
        top_probs = tape.op([probs, expert_ids], tape.tensor(num_routed, 4), [expert_ids])
        total = tape.op([top_probs], tape.tensor(rows, 4))
        total_plus_eps = tape.op([total], tape.tensor(rows, 4), shares_grad=True)
        normalized = tape.op(
            [top_probs, total_plus_eps], tape.tensor(num_routed, 4), [top_probs, total_plus_eps]
        )
        return tape.op([normalized], tape.tensor(num_routed, 4))


def _compute_experts(
    tape: ForwardTape,
    arch: Architecture,
    batch: MicroBatch,
    layer: AutoEPBlock,
    x: ActivationTensor,
    num_rows: int,
) -> tuple[ActivationTensor, ActivationTensor]:
    """Record `permute_rows`, `GroupedExperts` and `unpermute_rows`, and return the experts' input and output."""
    itemsize, num_local_experts = tape.itemsize, arch.num_experts // batch.ep_size
    # Each expert's rows are padded to `TOKEN_GROUP_ALIGN_SIZE_M` for `grouped_mm`.
    padded = -(-(num_rows + num_local_experts * ROW_ALIGNMENT) // ROW_ALIGNMENT) * ROW_ALIGNMENT
    index = tape.op([], tape.tensor(padded, 4, requires_grad=False))
    permutation, inverse_permutation = (
        tape.op([], tape.tensor(num_rows + padded, 8, requires_grad=False)) for _ in range(2)
    )
    rows = tape.op(
        [x, index, permutation], tape.tensor(padded * arch.hidden_size, itemsize), [index, permutation]
    )
    with tape.record_module(layer.experts):
        gate, down, up = layer.experts.weights
        numel = padded * arch.moe_intermediate_size
        gate_up = [tape.op([rows], tape.tensor(numel, itemsize), [rows], [weight]) for weight in (gate, up)]
        product = tape.op(gate_up, tape.tensor(numel, itemsize), gate_up)
        output = tape.op([product], tape.tensor(padded * arch.hidden_size, itemsize), [product], [down])
        tape.keep_alive(*gate_up, product)
    return rows, tape.op(
        [output, inverse_permutation],
        tape.tensor(num_rows * arch.hidden_size, itemsize),
        [index, inverse_permutation],
    )


def _exchange_tokens(
    tape: ForwardTape, batch: MicroBatch, x: ActivationTensor, count: int
) -> ActivationTensor:
    """Record `_AllToAllV` with the larger of the sent and received sizes."""
    numel, backward_calls = max(count, x.numel), 1 + batch.gradient_checkpointing
    tape.collectives.append(ModelCollective("all_to_all", "forward", 1, numel, x.itemsize, batch.ep_size))
    tape.collectives.append(
        ModelCollective("all_to_all", "backward", backward_calls, numel, x.itemsize, batch.ep_size)
    )
    return tape.op([x], tape.tensor(count, x.itemsize, label=DISPATCHED))


# The engine: experts of other ranks are dropped after the model was built.


class AutoEP(Feature):
    """The AutoEP feature, which replaces MoE blocks with experts distributed over expert-parallel ranks."""

    def shard_model(self) -> None:
        """Replace the MoE blocks layer by layer; the original experts are freed at the end."""
        built, ledger, tape = self.setup.build_itemsize, self.ledger, self.engine.tape
        experts = sum(weight.numel for weight in tape.weights if weight.is_expert)
        routers = sum(weight.numel for weight in tape.weights if weight.name.endswith("router.gate"))
        layers = sum(module.weights[0].is_expert for module in tape.modules if module.weights)
        if not layers:  # every layer of the model is dense
            return
        ledger.allocate(BUILT, built * (experts + routers), host=True)
        ledger.allocate_briefly(BUILT, built * (experts // layers), host=True)
        ledger.free(BUILT, built * (experts * tape.ep_size + routers), host=True)
