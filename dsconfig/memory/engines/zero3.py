"""ZeRO stage 3 (`stage3.py`): backward pass, reduction of gradients, step, and saving."""

from __future__ import annotations

from dsconfig.memory.engines.base import (
    CONSOLIDATED,
    FLATTENED,
    GRADIENTS,
    SAVE,
    TEMPORARY,
)
from dsconfig.memory.engines.param_coordinator import GATHERED
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3_state import PERSISTENT, Stage3State
from dsconfig.memory.graph import ROW_PARALLEL, Module, Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

# Stage 3: passes and step. Source: runtime/zero/stage3.py.

NORM_CHUNK = 250_000_000
"""Elements of a gradient whose norm is computed at once (`_constant_buffered_norm2`)."""


class Stage3Engine(Stage3State):
    """`DeepSpeedZeroOptimizer_Stage3` with its parameter coordinator."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaves = self.coordinator.leaves.items()
        self.leaf_of = {weight: number for number, weights in leaves for weight in weights}
        self.leaf_grads: dict[int, dict[Weight, int]] = {}
        """Bytes of the gradients of leaf modules whose backward pass is running."""

    def consolidate(self) -> None:
        """Gather each module, and copy it on rank 0 (`_zero3_consolidated_16bit_state_dict`)."""
        setup, ledger = self.setup, self.ledger
        if not setup.gathers_on_save or setup.ep_size:  # DeepSpeed raises with AutoEP
            return
        ledger.enter(SAVE)
        ledger.free(PERSISTENT, self.persistent_bytes)
        consolidated_bytes = 0
        for module in self.tape.modules:
            # Tied weights count once.
            weights = [weight for weight in module.weights if weight.module_number == module.number]
            count = self.gathered_bytes(module.weights)
            ledger.allocate(GATHERED, count)
            is_single = len(module.weights) == 1  # `_allgather_params_coalesced` gathers several in place
            ledger.allocate_briefly(
                GATHERED, count if setup.quirks.single_param_is_gathered_into_copy and is_single else 0
            )
            count += self._gather_tensor_parallel(module)
            module_bytes = setup.itemsize * sum(weight.numel * weight.tp_size for weight in weights)
            saved_bytes = 0 if setup.rank else module_bytes
            consolidated_bytes += saved_bytes
            if not setup.has_separate_host:  # on a CPU the saved tensor is the gathered one
                ledger.free(GATHERED, count)
            ledger.allocate(CONSOLIDATED, saved_bytes, host=True)
            if setup.has_separate_host:
                ledger.free(GATHERED, count)
            for weight in weights:
                self.coordinator.partition_secondary(weight)
        if setup.quirks.save_drops_secondary_partitions:
            self.coordinator.invalidate_secondary()
        self.gather_persistent()
        ledger.free(CONSOLIDATED, consolidated_bytes, host=True)

    def _gather_tensor_parallel(self, module: Module) -> int:
        """Gather a layer that AutoTP shards (`GatherReplacedLayerParams`); columns are copied once more."""
        sharded = [weight for weight in module.weights if weight.tp_size > 1]
        count = sum(self.itemsize_of(weight) * weight.numel * weight.tp_size for weight in sharded)
        self.ledger.allocate(GATHERED, count)
        if module.name.endswith(ROW_PARALLEL):
            self.ledger.allocate_briefly(GATHERED, count)
        return count

    # ------------------------------------------------------------ passes
    def before_forward(self) -> None:
        """Reset the coordinator (`reset_step`); releases before 0.15.4 do so after the backward pass."""
        coordinator = self.coordinator
        if self.setup.gradient_accumulation_steps > 1 and not coordinator.releases:
            coordinator.releases = coordinator.rehearse()
        if not self.setup.quirks.live_parameter_counter_is_reset_before_step:
            coordinator.reset()

    def enter_module(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Fetch the module's parameters."""
        self.coordinator.fetch(number)

    def leave_module(self, number: int, forward: bool) -> None:
        """Release the module's parameters; a leaf module first delivers its gradients, in order."""
        if number in self.leaf_grads and not forward:
            grads = self.leaf_grads.pop(number)
            for weight in sorted(grads, key=lambda weight: weight.number):
                self._add_to_bucket(weight, grads[weight])
        if forward or number not in self.coordinator.miscounted:
            self.coordinator.release(number)

    def set_recomputing_module(self, number: int | None) -> None:
        """Attribute gathered parameters to the module that caused the recomputation."""
        self.coordinator.recomputing_for = (
            number if self.setup.quirks.recomputed_params_are_released_with_module else None
        )

    def hold_view(self, weight: Weight) -> None:
        """Keep the gathered block alive after a release."""
        self.coordinator.hold_view(weight)

    def release_view(self, weight: Weight) -> None:
        """Free the saved view of a gathered block."""
        self.coordinator.release_view(weight)

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """Take a gradient (`reduce_partition_and_remove_grads`, or later `reduce_leaf_module_grads`)."""
        leaf = self.leaf_of.get(weight)
        if leaf is None:
            self._add_to_bucket(weight, count)
        else:
            self.leaf_grads.setdefault(leaf, {})[weight] = count

    def _add_to_bucket(self, weight: Weight, count: int) -> None:
        """Put a gradient into a bucket (`reduce_independent_p_g_buckets_and_remove_grads`)."""
        setup = self.setup
        comm_itemsize = (2 if weight.is_linear else 4) if setup.autocast else next(iter(self.buckets))
        is_full = self.bucket_fill[comm_itemsize] + weight.numel > setup.reduce_bucket_size
        if self.buckets[comm_itemsize] and (
            is_full or setup.gather_group(self.buckets[comm_itemsize][-1]) != setup.gather_group(weight)
        ):
            self._reduce(comm_itemsize)
        if (
            setup.contiguous_gradients
            and self.bucket_fill[comm_itemsize] + weight.numel <= setup.reduce_bucket_size
        ):
            self.ledger.free(GRADIENTS, count)
        else:
            self.unbucketed_grads[weight] = count
        self.buckets[comm_itemsize].append(weight)
        self.bucket_fill[comm_itemsize] += weight.numel

    def _reduce(self, comm_itemsize: int) -> None:
        """Reduce and partition a bucket (`__reduce_and_partition_ipg_grads`)."""
        setup, ledger, weights = self.setup, self.ledger, self.buckets[comm_itemsize]
        if not weights:
            return
        total, ranks = sum(weight.numel for weight in weights), self.ranks_of(weights[0])
        shards = sum(self.shard(weight) for weight in weights)
        # `all_to_all_quant_reduce` quantizes only if the ranks span several nodes.
        if setup.quantized_gradients and ranks > setup.gpus_per_node > 0:
            self.reduce_quantized(comm_itemsize)
            return
        # With `reduce_scatter: false` a bucket in the contiguous buffer is all-reduced as a whole.
        reduces_whole = (
            setup.contiguous_gradients and total <= setup.reduce_bucket_size and not setup.reduce_scatter
        )
        sent_itemsize = (
            comm_itemsize if setup.quirks.stage3_has_buckets_by_comm_dtype else setup.comm_itemsize
        )
        casts = sent_itemsize != comm_itemsize or (
            setup.comm_dtype_is_other_half and not setup.quirks.stage3_has_buckets_by_comm_dtype
        )
        casts_result = setup.grad_accum_itemsize != sent_itemsize or setup.comm_dtype_is_other_half
        name = "all_reduce" if reduces_whole else "reduce_scatter"
        self.count_collective(name, total if reduces_whole else shards * ranks, sent_itemsize, ranks)
        copy_bytes = result_bytes = 0
        if reduces_whole:
            cast_bytes = sent_itemsize * total if casts else 0
            # `mul` copies, unless the factor is 1.
            scaled_bytes = 0 if setup.gradient_postscale in (None, ranks) else sent_itemsize * total
            result_cast_bytes = setup.grad_accum_itemsize * total if casts_result else 0
            copy_bytes, result_bytes = (
                max(cast_bytes + scaled_bytes, (scaled_bytes or cast_bytes) + result_cast_bytes),
                result_cast_bytes or scaled_bytes or cast_bytes,
            )
        else:
            if casts:
                copy_bytes += sent_itemsize * total
            # Gradients in the bucket already have its dtype.
            elif comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half:
                copy_bytes += comm_itemsize * sum(
                    weight.numel for weight in weights if weight in self.unbucketed_grads
                )
            if len(weights) > 1 or total % ranks:
                result_bytes = sent_itemsize * shards * ranks
                copy_bytes += result_bytes
            if casts_result:
                result_bytes = setup.grad_accum_itemsize * shards  # a cast result is not a view
                copy_bytes += result_bytes
            # Expert gradients are divided by all ranks, in a copy.
            if weights[0].is_expert and self.tape.ep_size > 1:
                copy_bytes += sent_itemsize * shards
        ledger.allocate_briefly(FLATTENED, copy_bytes)
        ledger.allocate(FLATTENED, result_bytes)  # the shards are views of this tensor
        self.partition_grads(weights)
        ledger.free(FLATTENED, result_bytes)
        self.buckets[comm_itemsize] = []
        if not setup.quirks.bucket_count_is_never_reset:
            self.bucket_fill[comm_itemsize] = 0

    def partition_grads(self, weights: list[Weight]) -> None:
        """Copy the shards of a bucket to the optimizer's gradients (`partition_grads`)."""
        for weight in weights:
            # Norm in fp64 (`_constant_buffered_norm2`).
            if self.setup.offloads_optimizer and self.is_boundary:
                self.ledger.allocate_briefly(TEMPORARY, 8 * min(self.shard(weight), NORM_CHUNK))
            if weight in self.unbucketed_grads:
                self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))

    def after_backward(self) -> None:
        """Reduce what is left, and release leftovers."""
        for comm_itemsize in sorted(self.buckets):
            self._reduce(comm_itemsize)
        if not self.setup.quirks.unreleased_params_stay_until_step:
            self.coordinator.release_leftovers()
        if self.setup.quirks.live_parameter_counter_is_reset_before_step:
            self.coordinator.reset()

    # ------------------------------------------------------------ step
    def update_matrices(self) -> None:
        """Orthogonalize gradients before their norm is computed; only Muon does."""

    def step(self) -> None:
        """Update one sub-group at a time, with nothing gathered."""
        setup, ledger = self.setup, self.ledger
        self.coordinator.partition_all()
        ledger.free(PERSISTENT, self.persistent_bytes)
        if setup.checks_overflow:
            ledger.allocate_briefly(
                TEMPORARY,
                (setup.grad_accum_itemsize + 1) * self.trainable_shard_numel,
                host=setup.offloads_optimizer,
            )
        self.update_matrices()
        # Norms are computed in fp64 (zero/utils.py `get_norm_dtype`).
        for group in self.groups:
            if not setup.offloads_optimizer:
                for shard in group:
                    ledger.allocate_briefly(TEMPORARY, 8 * shard)
        for index, group in enumerate(self.groups):
            count, on_host = sum(group), self.is_offloaded(index)
            grad_copy = 0
            if not setup.offloads_optimizer:
                grad_copy = setup.master_itemsize * count
                flat_bytes = (
                    setup.grad_accum_itemsize * count
                    if len(group) > 1 and setup.grad_accum_itemsize != setup.master_itemsize
                    else 0
                )
                if len(group) == 1 and setup.grad_accum_itemsize == setup.master_itemsize:
                    grad_copy = 0
                ledger.allocate(TEMPORARY, flat_bytes + grad_copy)
                ledger.free(TEMPORARY, flat_bytes)
            self.update_group(index, count, host=on_host)
            ledger.free(TEMPORARY, grad_copy)
        self.coordinator.invalidate_secondary()
        self.gather_persistent()
        for weight in sorted(self.persistent, key=lambda weight: weight.number):
            if (ranks := self.ranks_of(weight)) > 1:
                self.count_collective("all_gather", self.aligned(weight), self.itemsize_of(weight), ranks)
