"""Stage 0: every rank holds everything, and gradients are all-reduced (`engine.allreduce_gradients`)."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.param_groups import split_experts

CHUNK = 500_000_000
"""Elements of a flattened chunk (`engine.buffered_allreduce_fallback`)."""


class FP16Optimizer(Engine):
    """`FP16_Optimizer` for bf16 and fp16, the bare optimizer for fp32."""

    def _allocate_at_rest(self) -> None:
        """Allocate weights, optimizer states, and master weights in half precision."""
        self.ledger.allocate(WEIGHTS, self.setup.itemsize * self.total_numel)
        if self.setup.half_dtype:
            self.ledger.allocate(MASTER, self.setup.master_itemsize * self.trainable_numel)
        self.ledger.allocate(
            STATES, (self.construction_state_bytes if self.setup.half_dtype else 0) + self._state_bytes()
        )
        # DeepSpeed wraps bf16 at stage 0 in `FP16_Optimizer` too (engine.py `_configure_fp16_optimizer`).
        # Older releases use `BF16_Optimizer`, which keeps the bf16 gradients.
        self.keeps_bit16_grads = self.setup.half_dtype == "bf16" and self.setup.keeps_bit16_grads
        self.params_with_grad = set[ModelParameter](self.trainable if self.keeps_bit16_grads else ())
        self.ledger.allocate(
            GRADIENTS, self.setup.itemsize * self.trainable_numel if self.keeps_bit16_grads else 0
        )

    def _load(self) -> None:
        """In half precision, create master weights, and states with a dummy step on zero gradients."""
        self.build()
        if self.setup.half_dtype:
            # `FP16_Optimizer.initialize_optimizer_states` runs a step on zero gradients, whose peak equals a
            # real one.
            gradients = self.setup.master_itemsize * self.trainable_numel
            self.ledger.allocate(MASTER, self.setup.master_itemsize * self.trainable_numel)
            self.ledger.allocate(TEMPORARY, gradients)
            if not self.setup.optimizer.is_fused_adam:
                self.ledger.allocate(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.ledger.allocate(STATES, self._state_bytes())
            largest = max((weight.numel for weight in self.trainable), default=0)
            self._update_all(self.trainable_numel if self.setup.optimizer.is_fused_adam else largest)

    def _state_bytes(self) -> int:
        numel = self.trainable_numel
        return self.state_bytes(0, numel, self.setup.optimizer.states_nbytes(numel))

    def _update_all(self, largest: int) -> None:
        self.update_group(0, self.trainable_numel, largest)

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Keep the gradient; later micro batches add to it."""
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def _after_backward(self) -> None:
        """At the boundary, flatten gradients in chunks and all-reduce them."""
        if not self.is_boundary:
            return
        setup = self.setup
        sent = (
            setup.comm_itemsize
            if setup.comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half
            else 0
        )
        for members in split_experts(self.trainable):
            count = sum(weight.numel for weight in members)
            self.ledger.allocate_briefly(FLATTENED, (self.setup.itemsize + sent) * min(count, CHUNK))
            chunk = 0
            for weight in members:
                chunk += weight.numel
                if chunk > CHUNK or weight is members[-1]:
                    self.count_collective(
                        "all_reduce", chunk, self.setup.comm_itemsize, self.ranks_of(weight)
                    )
                    chunk = 0

    def _step(self) -> None:
        """Update all weights; in half precision from fp32 copies of the gradients."""
        setup, ledger = self.setup, self.ledger
        largest = max((weight.numel for weight in self.trainable), default=0)
        if setup.half_dtype and setup.optimizer.is_fused_adam:
            # `FP16_Optimizer.step` casts every gradient to fp32, then flattens them into one tensor.
            ledger.allocate(TEMPORARY, 2 * setup.master_itemsize * self.trainable_numel)
            ledger.free(TEMPORARY, setup.master_itemsize * self.trainable_numel)
            self._drop_gradients()
            self._update_all(self.trainable_numel)
            ledger.free(TEMPORARY, setup.master_itemsize * self.trainable_numel)
        # `FP16_UnfusedOptimizer.step` keeps the half-precision gradients next to their fp32 copies.
        elif setup.half_dtype:
            ledger.allocate(TEMPORARY, setup.master_itemsize * self.trainable_numel)
            self._update_all(largest)
            ledger.free(TEMPORARY, setup.master_itemsize * self.trainable_numel)
            self._drop_gradients()
        else:
            self._update_all(largest)
            self._drop_gradients()

    def _drop_gradients(self) -> None:
        if not self.keeps_bit16_grads:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()
