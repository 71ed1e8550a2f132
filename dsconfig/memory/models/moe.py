"""MLPs and MoE blocks of Llama-like decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.features.autoep import autoep_block, dispatch_tokens
from dsconfig.memory.layers import (
    activation,
    add_residual,
    cast_tensor,
    gated_activation,
    gelu_new,
    linear,
    multiply_elementwise,
    saved_inputs,
)
from dsconfig.memory.models.decoder_model_types import MoEVariant

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.models.decoder_model_types import DecoderVariant


class GatedMLP:
    """MLP with a gate (SwiGLU or GeGLU)."""

    def __init__(
        self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, prefix: str, wide: int
    ) -> None:
        self.intermediate_size, hidden, bias = wide, arch.hidden_size, arch.mlp_bias
        self.is_fused = variant.mlp == "gate_up"
        self.module = tape.module(prefix)

        def projection(name: str, out: int, into: int) -> Module:
            return tape.projection(
                f"{prefix}.{variant.names.get(name, name)}", out, into, *([out] if bias else [])
            )

        if self.is_fused:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = projection("gate_proj", wide, hidden)
            self.up = projection("up_proj", wide, hidden)
        self.down = projection("down_proj", hidden, wide)
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: ForwardTape, y: ActivationTensor, rows: int, hidden: int) -> ActivationTensor:
        """Record the MLP, whose gate and up projections may be halves of one tensor."""
        intermediate_size = self.intermediate_size
        with tape.record_module(self.module, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.is_fused) * intermediate_size)
            if self.is_fused:
                product = gated_activation(tape, self.act, gate)
            elif tape.kernels.fused_mlp:  # `LigerSiLUMulFunction` saves its two inputs
                up = linear(tape, self.up, y, rows, intermediate_size)
                product = tape.op([gate, up], tape.tensor(gate.numel, gate.itemsize), [gate, up])
            else:
                activated = activation(tape, self.act, gate)
                product = multiply_elementwise(
                    tape, activated, linear(tape, self.up, y, rows, intermediate_size)
                )
            return linear(tape, self.down, product, rows, hidden)


class PlainMLP:
    """MLP without a gate (StarCoder2, Phi, Nemotron)."""

    def __init__(self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, prefix: str) -> None:
        wide, hidden, bias = arch.intermediate_size, arch.hidden_size, arch.mlp_bias
        self.intermediate_size, self.activation = wide, variant.activation
        names = [variant.names.get(name, name) for name in ("up_proj", "down_proj")]
        self.module = tape.module(prefix)
        self.up = tape.projection(f"{prefix}.{names[0]}", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.{names[1]}", hidden, wide, *([hidden] if bias else []))
        weights = (1, 1) if variant.activation == "xielu" else ()
        self.act = tape.module(f"{prefix}.act_fn", *weights)

    def compute(self, tape: ForwardTape, y: ActivationTensor, rows: int, hidden: int) -> ActivationTensor:
        """Record the MLP without a gate."""
        with tape.record_module(self.module, y):
            y = self._activated(tape, linear(tape, self.up, y, rows, self.intermediate_size))
            return linear(tape, self.down, y, rows, hidden)

    def _activated(self, tape: ForwardTape, x: ActivationTensor) -> ActivationTensor:
        if self.activation == "gelu_new":
            return gelu_new(tape, self.act, x)
        if self.activation == "relu2":
            with tape.record_module(self.act, x):
                positive = tape.tensor(x.numel, x.itemsize)
                tape.op([x], positive, [positive])
                return tape.op(
                    [positive],
                    tape.tensor(x.numel, x.itemsize),
                    [positive],
                    backward_temporary=2 * x.bytes,
                )
        if self.activation == "xielu":
            return _xielu(tape, self.act, x)
        return activation(tape, self.act, x)


def _xielu(tape: ForwardTape, module: Module, x: ActivationTensor) -> ActivationTensor:
    """Record `XIELUActivation`, which computes both branches of `torch.where` for all elements."""
    # Autocast computes `softplus` and `expm1` in fp32, and so the rest.
    count, itemsize = x.numel, 4 if tape.autocast else x.itemsize

    def op(
        inputs: list[ActivationTensor], saved: list[ActivationTensor], *, shares_grad: bool = False
    ) -> ActivationTensor:
        return tape.op(inputs, tape.tensor(count, itemsize), saved, shares_grad=shares_grad)

    with tape.record_module(module, x):
        mask = tape.op([], tape.tensor(count, 1, requires_grad=False))
        positive, negative = (tape.op([], tape.tensor(1), weights=[weight]) for weight in module.weights)
        trains = positive.requires_grad  # else the products with alpha save alpha alone
        scaled = op([positive, x], [x] if trains else [])
        squared = op([scaled, x], [scaled, x])
        rising = op([squared, op([x], [])], [], shares_grad=True)
        smallest = op([x], [x])
        exponential = tape.tensor(count, itemsize)
        tape.op([smallest], exponential, [exponential])
        difference = op([exponential, x], [])
        product = op([difference, negative], [difference] if trains else [])
        falling = op([product, op([x], [])], [], shares_grad=True)
        return tape.op([rising, falling, mask], tape.tensor(count, itemsize), [mask])


class MoEBlock:
    """MoE block with a router, experts and an optional shared expert."""

    def __init__(
        self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, batch: MicroBatch, prefix: str
    ) -> None:
        self.module, self.variant = tape.module(prefix), variant.moe or MoEVariant()
        self.shared_expert: GatedMLP | None = None
        if batch.ep_size:
            self.autoep = autoep_block(tape, arch, batch, prefix)
        else:
            self._build_local(tape, arch, prefix)
        if arch.shared_expert_intermediate_size:
            is_gated = self.variant.shared_experts == "gated"
            name = f"{prefix}.shared_expert" if is_gated else f"{prefix}.shared_experts"
            self.shared_expert = GatedMLP(tape, arch, variant, name, arch.shared_expert_intermediate_size)
            if is_gated:
                self.shared_expert_gate = tape.projection(f"{name}_gate", 1, arch.hidden_size)

    def _build_local(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        self.module.class_name = self.variant.block
        for name in ("experts", "router") if self.variant.experts_first else ("router", "experts"):
            if name == "router":
                biases = [arch.num_experts] if self.variant.has_biases else []
                shape = arch.num_experts, arch.hidden_size
                self.router = tape.module(f"{prefix}.{self.variant.router_name}", shape, *biases)
            else:
                self._build_experts(tape, arch, prefix)

    def _build_experts(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        count, hidden, wide = arch.num_experts, arch.hidden_size, arch.moe_intermediate_size
        shapes: tuple[tuple[int, ...], ...] = ((count, 2 * wide, hidden), (count, hidden, wide))
        if self.variant.has_biases:
            shapes = (
                (count, hidden, 2 * wide),
                (count, 2 * wide),
                (count, wide, hidden),
                (count, hidden),
            )
        self.experts = tape.module(f"{prefix}.experts", *shapes, casts=True)
        for weight in self.experts.weights:
            weight.is_linear = weight.is_autocast = False  # autocast does not cast inputs of `grouped_mm`
        tape.quantize_experts(self.experts)
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(
        self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        """Record the MoE block, including the shared expert."""
        with tape.record_module(self.module, y):
            shared = None
            computes_first = self.variant.shared_experts == "gated" and not batch.ep_size
            if self.shared_expert and computes_first:
                shared = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            if batch.ep_size:
                out = dispatch_tokens(tape, arch, batch, self.autoep, y, rows)
            else:
                out = self._compute_experts(tape, arch, y, rows)
            if not self.shared_expert:
                return out
            if shared is None:  # AutoEP and DeepSeek compute the shared experts last
                shared = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            if self.variant.shared_experts == "added":
                return add_residual(tape, out, shared)
            gate = linear(tape, self.shared_expert_gate, y, rows, 1)
            weight = tape.tensor(rows, gate.itemsize)
            tape.op([gate], weight, [weight])
            weighted = tape.tensor(shared.numel, shared.itemsize)
            tape.op([weight, shared], weighted, [weight, shared])
            return add_residual(tape, out, weighted)

    def _route(
        self, tape: ForwardTape, arch: Architecture, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        num_routed, num_scores = rows * arch.num_experts_per_tok, rows * arch.num_experts
        kind, weights = self.variant.router, self.router.weights
        with tape.record_module(self.router):
            if kind.endswith("fp32"):
                return self._route_in_fp32(tape, arch, y, rows)
            scores = tape.op([y], tape.tensor(num_scores), saved_inputs(tape, y, weights), weights)
            if kind == "softmax_chosen":  # of the largest scores only
                chosen = tape.op([scores], tape.tensor(num_routed), [])
                probs = tape.tensor(num_routed)
                return tape.op([chosen], probs, [probs])
            probs = tape.tensor(num_scores, 4)
            tape.op([cast_tensor(tape, scores, 4)], probs, [probs])
            top_probs = tape.tensor(num_routed, 4)
            tape.op([probs], top_probs, [top_probs])
            return (
                top_probs
                if self.variant.router_dtype == "fp32"
                else cast_tensor(tape, top_probs, scores.itemsize)
            )

    def _route_in_fp32(
        self, tape: ForwardTape, arch: Architecture, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        """Record `DeepseekV3TopkRouter`, which casts input and weight to fp32 and adds a bias to choose experts."""
        num_routed, num_scores = rows * arch.num_experts_per_tok, rows * arch.num_experts
        weights = self.router.weights
        y_fp32 = cast_tensor(tape, y, 4)
        weight_fp32 = tape.op([], tape.tensor(weights[0].numel, 4), weights=weights)
        saved = [y_fp32] if weights[0].requires_grad else []
        logits = tape.op([y_fp32, weight_fp32], tape.tensor(num_scores, 4), [*saved, weight_fp32])
        scores = tape.tensor(num_scores, 4)
        tape.op([logits], scores, [scores])
        indices = tape.op([], tape.tensor(num_routed, 8, requires_grad=False))
        top = tape.op([scores, indices], tape.tensor(num_routed, 4), [indices])
        scaled = tape.op([top], tape.tensor(num_routed, 4))
        tape.keep_alive(logits)
        return scaled

    def _compute_experts(
        self, tape: ForwardTape, arch: Architecture, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        """Record `grouped_mm` over tokens sorted by expert; each token is copied once per chosen expert."""
        num_routed, hidden, intermediate_size = (
            rows * arch.num_experts_per_tok,
            arch.hidden_size,
            arch.moe_intermediate_size,
        )
        top_probs = self._route(tape, arch, y, rows)
        itemsize = tape.itemsize
        gate_up_weights = self.experts.weights[: len(self.experts.weights) // 2]
        down_weights = self.experts.weights[len(self.experts.weights) // 2 :]
        with tape.record_module(self.experts):
            dispatched = tape.op([y], tape.tensor(num_routed * hidden, itemsize))
            gate_up = tape.tensor(2 * num_routed * intermediate_size, itemsize)
            trains = gate_up_weights[0].requires_grad
            gate_up_unpacked = tape.unpack_experts(gate_up_weights)
            tape.op(
                [dispatched, *gate_up_unpacked],
                gate_up,
                [*([dispatched] if trains else []), *gate_up_unpacked],
                gate_up_weights,
            )
            if self.variant.has_biases:
                product = self._clamped_product(tape, gate_up)
            else:
                product = gated_activation(tape, self.act, gate_up)
            out = tape.tensor(num_routed * hidden, itemsize)
            down_unpacked = tape.unpack_experts(down_weights)
            saved = [product] if down_weights[0].requires_grad else []
            tape.op([product, *down_unpacked], out, [*saved, *down_unpacked], down_weights)
            # Weights in fp32 promote the products, which are reordered and summed before they are cast back.
            width, count = max(itemsize, top_probs.itemsize), num_routed * hidden
            weighted = tape.tensor(count, width)
            products = 2 if width > itemsize else 1
            tape.op(
                [out, top_probs], weighted, [out, top_probs], backward_temporary=products * weighted.bytes
            )
            summed = tape.op([weighted], tape.tensor(rows * hidden, width), temporary=weighted.bytes)
            tape.keep_alive(dispatched, out)  # by variables of `grouped_mm_experts_forward`
            return cast_tensor(tape, summed, itemsize)

    @staticmethod
    def _clamped_product(tape: ForwardTape, gate_up: ActivationTensor) -> ActivationTensor:
        """Record `GptOssExperts._apply_gate`, which clamps gate and up, and applies a sigmoid to the gate."""
        count, itemsize = gate_up.numel // 2, gate_up.itemsize

        def op(inputs: list[ActivationTensor], saved: list[ActivationTensor]) -> ActivationTensor:
            return tape.op(inputs, tape.tensor(count, itemsize), saved)

        gate, up = op([gate_up], [gate_up]), op([gate_up], [gate_up])
        sigmoid = tape.tensor(count, itemsize)
        tape.op([op([gate], [])], sigmoid, [sigmoid])
        glu = op([gate, sigmoid], [gate, sigmoid])
        shifted = op([up], [])
        return op([shifted, glu], [shifted, glu])
