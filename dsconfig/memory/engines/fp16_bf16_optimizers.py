"""Engines without a ZeRO optimizer: `FP16_Optimizer` at stage 0, and `BF16_Optimizer` at stages 0 and 1.

At stage 0 every rank holds all weights, and gradients are all-reduced (`engine.allreduce_gradients`). `BF16_Optimizer`
trains in bf16 with fp32 gradients, which every rank keeps for the whole model.
"""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter
from dsconfig.memory.engines.base_engine import (
    FLATTENED,
    GRADIENTS,
    MASTER,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
)
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.param_groups import (
    FlatPartition,
    merge_partitions,
    parameter_groups,
    partition_of,
    split_experts,
)
from dsconfig.memory.memory_ledger import MemoryLedger

CHUNK = 500_000_000
"""Number of elements in a flattened chunk (`engine.buffered_allreduce_fallback`)."""


class FP16Optimizer(Engine):
    """`FP16_Optimizer` for bf16 and fp16 models, and the bare optimizer for fp32 models."""

    def _allocate_at_rest(self) -> None:
        """Allocate weights and optimizer states, plus master weights for a 16-bit model."""
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
        """Create the master weights of a 16-bit model, and the states in a dummy step with zero gradients."""
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
        """Keep a gradient, so that later micro batches can add to it."""
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def _after_backward(self) -> None:
        """Flatten gradients in chunks and all-reduce them at the gradient accumulation boundary."""
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
        """Update all weights; 16-bit weights are updated from fp32 copies of the gradients."""
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


ACCUMULATED = "fp32 model gradients"


class BF16Optimizer(Engine):
    """Simulation of `BF16_Optimizer` (runtime/bf16_optimizer.py)."""

    def __init__(self, setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> None:
        super().__init__(setup, tape, ledger)
        groups = parameter_groups(setup, self.trainable)
        self.partitions = [self._partition_of(members) for members in groups]
        self.partition = merge_partitions(self.partitions)

    def _partition_of(self, members: list[ModelParameter]) -> FlatPartition:
        """Return the partition of a parameter group that this rank owns."""
        ranks = self.ranks_of(members[0])
        return partition_of(
            members, ranks, self.setup.rank // (self.setup.dp_world_size // ranks), round_robin=False
        )

    def _allocate_at_rest(self) -> None:
        """Allocate the flat weights, the model's fp32 gradients, and this rank's master weights and states."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            WEIGHTS, setup.itemsize * (self.partition.padded_numel + self.total_numel - self.trainable_numel)
        )
        ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * self.partition.padded_numel)
        ledger.allocate(MASTER, setup.master_itemsize * self.partition.numel)
        numel = self.partition.numel
        states = self.state_bytes(0, numel, setup.optimizer.states_nbytes(numel))
        ledger.allocate(STATES, states + self.construction_state_bytes)
        # `fp32_groups_gradients_flat` covers the whole model and is never freed (bf16_optimizer.py
        # `_setup_for_real_optimizer`).
        self.keeps_bit16_grads = setup.keeps_bit16_grads
        self.params_with_grad = set[ModelParameter](self.trainable if self.keeps_bit16_grads else ())
        ledger.allocate(GRADIENTS, setup.itemsize * self.trainable_numel if self.keeps_bit16_grads else 0)

    def _load(self) -> None:
        """Flatten the weights of each group, then create master weights and fp32 gradients."""
        self.build()
        setup, ledger = self.setup, self.ledger
        for partition in self.partitions:
            ledger.allocate(FLATTENED, setup.itemsize * partition.padded_numel)
            ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in partition.offsets))
            ledger.allocate_briefly(MASTER, (setup.itemsize + setup.master_itemsize) * partition.numel)
            ledger.allocate(MASTER, setup.master_itemsize * partition.numel)
            ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * partition.padded_numel)

    def _before_backward(self) -> None:
        """Free the remaining bf16 gradients (`clear_lp_grads`), or in some releases only zero them."""
        if (
            self.params_with_grad
            and self.keeps_bit16_grads
            and self.setup.quirks.bf16_grads_stay_until_next_backward
        ):
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Keep the bf16 gradient of a parameter until the step."""
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def _after_backward(self) -> None:
        """Add each gradient to its fp32 copy, and all-reduce the copies at the gradient accumulation boundary."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate_briefly(
            TEMPORARY, setup.grad_accum_itemsize * max((weight.numel for weight in self.trainable), default=0)
        )
        if self.is_boundary:
            cast_itemsize = setup.comm_itemsize if setup.comm_itemsize != setup.grad_accum_itemsize else 0
            for (ranks, _), partitions in self.partitions_by_group().items():
                # Several groups are flattened into one tensor.
                flat_itemsize = setup.grad_accum_itemsize if len(partitions) > 1 else 0
                count = sum(partition.padded_numel for partition in partitions)
                ledger.allocate_briefly(FLATTENED, (flat_itemsize + cast_itemsize) * count)
                self.count_collective("all_reduce", count, setup.comm_itemsize, ranks)

    def partitions_by_group(self) -> dict[tuple[int, bool], list[FlatPartition]]:
        """Return the partitions, keyed by number of ranks and by whether they hold experts."""
        by_group: dict[tuple[int, bool], list[FlatPartition]] = {}
        for partition in self.partitions:
            weight = next(iter(partition.offsets))
            by_group.setdefault((self.ranks_of(weight), weight.is_expert), []).append(partition)
        return by_group

    def _step(self) -> None:
        """Update this rank's partition, then all-gather the weights."""
        for index, partition in enumerate(self.partitions):
            self.update_group(index, partition.numel, partition.numel)
        if not self.keeps_bit16_grads:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()
        for partition in self.partitions:
            if partition.padded_numel > partition.numel:
                self.count_collective(
                    "all_gather",
                    partition.padded_numel,
                    self.setup.itemsize,
                    partition.padded_numel // partition.numel,
                )
