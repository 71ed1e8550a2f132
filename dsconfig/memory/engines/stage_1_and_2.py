"""Simulate ZeRO stages 1 and 2: flat weights, and partitioned master weights and optimizer states."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter
from dsconfig.memory.engines.base_engine import (
    BUCKET,
    FLATTENED,
    GRADIENTS,
    MASTER,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
    pinned_padding,
)
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.param_groups import (
    FlatPartition,
    bucket_slices,
    merge_partitions,
    parameter_groups,
    partition_of,
)
from dsconfig.memory.memory_ledger import MemoryLedger, add_slack

COMPACT = "fp32 gradient partition"
STAGING = "offload staging buffers"
OFFLOADED = "offloaded gradient partition"


class DeepSpeedZeroOptimizer(Engine):
    """Simulation of `DeepSpeedZeroOptimizer` (runtime/zero/stage_1_and_2.py)."""

    def __init__(self, setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> None:
        super().__init__(setup, tape, ledger)
        groups = parameter_groups(setup, self.trainable)
        self.groups = [(members, *self._partition_of(members)) for members in groups]
        self.partition = merge_partitions([partition for _, partition, _ in self.groups])
        self.partition_by_weight = {
            weight: (partition, rank) for members, partition, rank in self.groups for weight in members
        }
        self.owned = set(self.partition.weights)
        self.largest_numel = max((weight.numel for weight in self.trainable), default=0)
        accumulates_fp32 = setup.accumulates_fp32
        self.has_compact_grads, self.has_grad_lists = (
            accumulates_fp32 and setup.quirks.fp32_grads_are_one_buffer,
            accumulates_fp32 and not setup.quirks.fp32_grads_are_one_buffer,
        )
        """fp32 gradients, in one buffer for the partition or in one tensor per parameter."""
        self.casts_each_grad = setup.stage == 1 and self.has_compact_grads
        """Whether gradients are cast one by one as views of the bucket, which stays allocated (`grad_accum`)."""
        self.buckets: dict[int, list[ModelParameter]] = {}
        self.bucket_fill: dict[int, int] = {}
        self.unbucketed_grads: dict[ModelParameter, int] = {}
        """Bytes of each gradient that does not fit in the bucket."""
        self.flattened_on_host = False
        """Whether a group was flattened on the host because the GPU lacked memory for a second copy."""
        self.has_buckets = False
        self.new_grad_bytes = self.accumulated_grad_bytes = self.added_grad_bytes = 0
        """Bytes of this rank's gradients from this micro batch, from all so far, and from this one if it was added."""
        self.compact_grad_bytes: dict[int, int] = {}
        """Bytes of the fp32 gradients of each group's partition, by group index."""
        self.whole_grads = frozenset[ModelParameter]()
        """Parameters whose whole gradient goes to every rank with a share of the parameter (Muon)."""
        self.update_bytes: dict[int, int] = {}
        """Bytes of updates that replace the gradients of a group, by group index (Muon)."""
        self.caller_copy_bytes = self.oversized_bytes = 0
        """Bytes of fp32 gradient copies that are kept per tensor, before 0.19.8."""

    def _partition_of(self, members: list[ModelParameter]) -> tuple[FlatPartition, int]:
        """Return this rank's partition of a group, and the rank's index among those that share the group."""
        ranks = self.ranks_of(members[0])
        rank = self.setup.rank // (self.setup.dp_world_size // ranks)
        return partition_of(members, ranks, rank, self.setup.round_robin_gradients), rank

    # ------------------------------------------------------------ load
    def _load(self) -> None:
        """Flatten the weights next to the originals, then clone this rank's partition and cast it."""
        self.build()
        setup, ledger, numel, on_host = (
            self.setup,
            self.ledger,
            self.partition.numel,
            self.setup.offloads_optimizer,
        )
        if setup.quirks.flattens_weights_on_host:
            self._flatten_on_host(self.trainable, self.partition.padded_numel)
        else:
            for members, partition, _ in self.groups:
                if self._fits_on_gpu(partition.padded_numel, self._flatten_copy_bytes(members)):
                    ledger.allocate_briefly(
                        FLATTENED, setup.itemsize * partition.padded_numel + self._flatten_copy_bytes(members)
                    )
                    ledger.allocate(FLATTENED, setup.itemsize * partition.padded_numel)
                    ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in members))
                else:
                    self._flatten_on_host(members, partition.padded_numel)
                self._clone_masters(partition.numel)
        for _, partition, _ in self.groups if setup.quirks.flattens_weights_on_host else ():
            self._clone_masters(partition.numel)
        if on_host:
            ledger.allocate(STAGING, self._staging_bytes(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest_numel)
        if setup.optimizer.allocates_states_early:
            ledger.allocate(STATES, setup.optimizer.state_bytes * numel, host=on_host)
        ledger.allocate_briefly(TEMPORARY, setup.master_itemsize * numel, host=on_host)

    def _fits_on_gpu(self, padded: int, copied: int) -> bool:
        """Return whether a flat copy of the weights fits on the GPU (`flatten_on_accelerator`, since 0.19.0).

        DeepSpeed compares the copy with the device's `available_memory`, from which the estimate subtracts the headroom
        of the upper bound.
        """
        needed = self.ledger.rank.total + self.setup.itemsize * padded + copied
        if self.setup.gpu_limit is None or add_slack(needed) <= self.setup.gpu_limit:
            return True
        self.flattened_on_host = True
        return False

    def _flatten_on_host(self, weights: list[ModelParameter], padded: int) -> None:
        """Flatten the weights on the host and move them back (`cpu_data`)."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        group_bytes = itemsize * sum(weight.numel for weight in weights)
        ledger.allocate(FLATTENED, group_bytes, host=True)
        ledger.free(WEIGHTS, group_bytes)
        ledger.allocate_briefly(FLATTENED, itemsize * padded + self._flatten_copy_bytes(weights), host=True)
        ledger.free(FLATTENED, group_bytes, host=True)
        ledger.allocate_briefly(FLATTENED, itemsize * padded, host=True)
        ledger.allocate(FLATTENED, itemsize * padded)

    def _flatten_copy_bytes(self, weights: list[ModelParameter]) -> int:
        return sum(feature.flatten_copy_bytes(weights) for feature in self.features)

    def _clone_masters(self, numel: int) -> None:
        """Create the master weights from a copy of the partition in the model's dtype."""
        setup, ledger, on_host = self.setup, self.ledger, self.setup.offloads_optimizer
        is_cast = on_host or setup.itemsize != setup.master_itemsize
        ledger.allocate(TEMPORARY, setup.itemsize * numel)
        ledger.allocate(MASTER, setup.master_itemsize * numel if is_cast else 0, host=on_host)
        ledger.free(TEMPORARY, setup.itemsize * numel)
        ledger.allocate(MASTER, 0 if is_cast else setup.master_itemsize * numel)

    def _staging_bytes(self) -> int:
        """Return the host bytes in addition to master weights and states.

        Since 0.17 they include a 16-bit partition.
        """
        return self.setup.itemsize * (
            self.largest_numel
            + (self.partition.numel if self.setup.quirks.offload_keeps_bit16_partition_on_host else 0)
        )

    # ------------------------------------------------------------ at rest
    def _allocate_at_rest(self) -> None:
        """Allocate flat weights, master weights and states; with offload, only the weights are on the GPU."""
        setup, ledger, numel = self.setup, self.ledger, self.partition.numel
        on_host = setup.offloads_optimizer
        frozen = self.total_numel - self.trainable_numel
        ledger.allocate(WEIGHTS, setup.itemsize * (self.partition.padded_numel + frozen))
        ledger.allocate(MASTER, setup.master_itemsize * numel, host=on_host)
        states = (
            setup.optimizer.states_nbytes(numel) * setup.master_itemsize // 4 + self.construction_state_bytes
        )
        ledger.allocate(STATES, self.state_bytes(0, numel, states), host=on_host)
        if on_host:
            ledger.allocate(OFFLOADED, setup.master_itemsize * numel, host=True)
            ledger.allocate(STAGING, self._staging_bytes(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest_numel)
            if self._accumulates_on_host:
                ledger.allocate(OFFLOADED, setup.itemsize * sum(self._accumulated_numels), host=True)

    def _pinned_padding(self) -> int:
        """Return the padding of pinned master weights, their gradients, and staging buffers."""
        setup, sizes = self.setup, [partition.numel for _, partition, _ in self.groups]
        if not setup.offloads_optimizer:
            return 0
        # `DeepSpeedZeroOptimizer.__init__` pins masters and their gradients; staging buffers are pinned if
        # asked for.
        blocks = [setup.master_itemsize * size for size in sizes] * (
            setup.pins_optimizer or setup.quirks.masters_are_always_pinned
        )
        if setup.pins_optimizer:
            blocks += [*(setup.master_itemsize * size for size in sizes), setup.itemsize * self.largest_numel]
            blocks += [
                setup.itemsize * size for size in sizes
            ] * setup.quirks.offload_keeps_bit16_partition_on_host
        if setup.pins_optimizer and self._accumulates_on_host:
            blocks += [setup.itemsize * count for count in self._accumulated_numels]
        return pinned_padding(blocks)

    @property
    def _accumulates_on_host(self) -> bool:
        setup = self.setup
        accumulates = (
            setup.stage == 2 or setup.zenflow or setup.quirks.stage1_accumulates_offloaded_grads_on_host
        )
        return bool(accumulates) and setup.gradient_accumulation_steps > 1

    @property
    def _accumulated_numels(self) -> list[int]:
        """Number of elements in each gradient that is accumulated on the host."""
        weights = (
            self.whole_grads.intersection(self.partition.weights)
            if self.has_compact_grads
            else self.partition.weights
        )
        return [weight.numel for weight in weights]

    # ------------------------------------------------------------ backward
    def _before_backward(self) -> None:
        """Allocate the buckets in releases that do so in `backward_prologue`."""
        if self.setup.quirks.allocates_bucket_in_prologue:
            self._allocate_buckets()

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Add a gradient to its bucket, which is reduced when the next gradient no longer fits."""
        self._allocate_buckets()
        setup = self.setup
        if self.casts_each_grad or self.has_grad_lists:
            self.ledger.allocate(GRADIENTS, setup.grad_accum_itemsize * weight.numel)
            self.ledger.free(GRADIENTS, count)
            count = setup.grad_accum_itemsize * weight.numel
        if weight in self.unbucketed_grads:
            self.ledger.free(GRADIENTS, count)
        else:
            self.unbucketed_grads[weight] = count
        if setup.stage == 2 or (setup.overlap_comm and self.reduces_grads):
            self.add_to_bucket(weight)

    @property
    def reduces_grads(self) -> bool:
        """Whether this micro batch reduces its gradients."""
        reduces_always = any(feature.reduces_each_micro_batch for feature in self.features)
        return self.setup.stage == 2 or self.is_boundary or reduces_always

    def _allocate_buckets(self) -> None:
        """Allocate the buckets when the first gradient arrives (`setup_buckets`)."""
        if self.has_buckets:
            return
        self.has_buckets, self.reduce_count = True, 0
        setup = self.setup
        itemsizes = (
            {2 if weight.is_linear else 4 for weight in self.trainable}
            if setup.autocast
            else {setup.comm_itemsize}
        )
        self.buckets = {itemsize: [] for itemsize in itemsizes}
        self.bucket_fill = dict.fromkeys(itemsizes, 0)
        if setup.contiguous_gradients:
            self.bucket_bytes = (
                self.buffer_itemsize
                * setup.reduce_bucket_size
                * (2 if setup.overlap_comm else 1)
                * len(itemsizes)
            )
            self.ledger.allocate(BUCKET, self.bucket_bytes)

    @property
    def buffer_itemsize(self) -> int:
        """Bytes per element of the reduce bucket (`_gradient_reduction_buffer_dtype`)."""
        setup = self.setup
        return setup.grad_accum_itemsize if self.casts_each_grad else setup.itemsize

    def comm_itemsize_of(self, weight: ModelParameter) -> int:
        """Return the itemsize of a parameter's communication dtype, which selects its bucket."""
        if self.setup.autocast:
            return 2 if weight.is_linear else 4
        return self.setup.comm_itemsize

    def add_to_bucket(self, weight: ModelParameter) -> None:
        """Add a gradient to its bucket (`reduce_independent_p_g_buckets_and_remove_grads`)."""
        setup, comm_itemsize = self.setup, self.comm_itemsize_of(weight)
        if self.has_grad_lists:
            self._copy_fp32_gradient_to_bucket(weight, comm_itemsize)
            return
        if self.bucket_fill[comm_itemsize] + weight.numel > setup.reduce_bucket_size:
            for itemsize in (
                sorted(self.buckets) if setup.quirks.full_bucket_flushes_other_dtypes else (comm_itemsize,)
            ):
                self.reduce(itemsize)
        if setup.contiguous_gradients and weight.numel <= setup.reduce_bucket_size:
            self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        elif setup.offloads_optimizer and not setup.zenflow:  # cloned, because autograd may reuse the tensor
            self.ledger.allocate_briefly(GRADIENTS, self.unbucketed_grads[weight])
        self.buckets[comm_itemsize].append(weight)
        self.bucket_fill[comm_itemsize] += weight.numel

    def _copy_fp32_gradient_to_bucket(self, weight: ModelParameter, comm_itemsize: int) -> None:
        """Add a copy of an fp32 gradient to the bucket, before 0.19.8 (`get_gradient_for_reduction`).

        A copy that is larger than the bucket is kept outside of it.
        """
        setup, ledger = self.setup, self.ledger
        copy_bytes = setup.itemsize * weight.numel
        # The caller (`reduce_gradients`) holds a copy as well.
        if setup.stage == 1 and not setup.overlap_comm:
            ledger.allocate(GRADIENTS, copy_bytes - self.caller_copy_bytes)
            self.caller_copy_bytes = copy_bytes
        ledger.allocate(GRADIENTS, copy_bytes)
        if self.bucket_fill[comm_itemsize] + weight.numel > setup.reduce_bucket_size:
            self.reduce(comm_itemsize)
        if weight.numel > setup.reduce_bucket_size:
            self.oversized_bytes = copy_bytes
        else:
            ledger.free(GRADIENTS, copy_bytes)
        self.buckets[comm_itemsize].append(weight)
        self.bucket_fill[comm_itemsize] += weight.numel

    def reduce(self, comm_itemsize: int) -> None:
        """Reduce a bucket and keep this rank's gradients (`reduce_ipg_grads`)."""
        weights = self.buckets[comm_itemsize]
        self.ledger.allocate(GRADIENTS, self.oversized_bytes)  # an oversized copy is copied once more
        if weights:
            self.reduce_count += 1
            for feature in self.features:
                feature.before_reduce(weights)
            self._average_bucket(weights, comm_itemsize)
            for feature in self.features:
                feature.after_reduce(weights)
        for weight in weights:
            if weight in self.owned:
                self._copy_to_partition(weight)
            elif self.setup.stage == 2 and weight in self.unbucketed_grads:
                self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        self.buckets[comm_itemsize], self.bucket_fill[comm_itemsize] = [], 0
        self.ledger.free(GRADIENTS, 2 * self.oversized_bytes)
        self.oversized_bytes = 0

    def _average_bucket(self, weights: list[ModelParameter], comm_itemsize: int) -> None:
        """Reduce a bucket slice by slice, or flattened if several ranks own a slice (`average_tensor`)."""
        setup, ledger = self.setup, self.ledger
        itemsize, total = self.buffer_itemsize, sum(weight.numel for weight in weights)
        for index, (members, partition, _) in enumerate(self.groups if self.has_compact_grads else ()):
            if (
                index not in self.compact_grad_bytes
                and self.owned & set(weights) & set(members) - self.whole_grads
            ):
                self.compact_grad_bytes[index] = 4 * partition.numel
                ledger.allocate(COMPACT, 4 * partition.numel)
        if setup.sp_size > 1 and (setup.reduce_scatter or not setup.contiguous_gradients):
            comm_itemsize = 4  # `allreduce_bucket`
        if not setup.reduce_scatter or not setup.contiguous_gradients:
            self.count_collective("all_reduce", total, comm_itemsize)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.allocate(FLATTENED, itemsize * total)
            if comm_itemsize != itemsize or setup.comm_dtype_is_other_half:
                ledger.allocate_briefly(FLATTENED, comm_itemsize * total)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.free(FLATTENED, itemsize * total)
            return
        slices = bucket_slices(
            self.partition_by_weight.__getitem__, weights, not self.has_compact_grads, self.whole_grads
        )
        for is_expert in dict.fromkeys(of_expert for _, _, of_expert in slices):
            by_owner: dict[int, list[tuple[int, int]]] = {}
            for owner, count, of_expert in slices:
                if of_expert is is_expert:
                    by_owner.setdefault(0 if setup.multi_rank_allreduce else owner, []).append((owner, count))
            for owned in by_owner.values():
                self._reduce_in_chunks(owned, comm_itemsize, itemsize, is_expert)

    def _reduce_in_chunks(
        self, slices: list[tuple[int, int]], comm_itemsize: int, itemsize: int, is_expert: bool
    ) -> None:
        """Reduce slices in chunks as large as a bucket (`allreduce_and_scatter`, `allreduce_no_retain`)."""
        chunk: list[tuple[int, int]] = []
        filled = 0
        for index, piece in enumerate(slices):
            chunk.append(piece)
            filled += piece[1]
            if filled > self.setup.reduce_bucket_size or index == len(slices) - 1:
                self._all_reduce(chunk, comm_itemsize, itemsize, is_expert)
                chunk, filled = [], 0

    def _all_reduce(
        self, chunk: list[tuple[int, int]], comm_itemsize: int, itemsize: int, is_expert: bool
    ) -> None:
        total, is_flattened = sum(count for _, count in chunk), len(chunk) > 1
        name = "all_reduce" if self.setup.multi_rank_allreduce else "reduce"
        self.count_collective(
            name, total, comm_itemsize, self.setup.dp_world_size // (self.tape.ep_size if is_expert else 1)
        )
        copy_bytes = (itemsize * total if is_flattened else 0) + (
            comm_itemsize * total if comm_itemsize != itemsize or self.setup.comm_dtype_is_other_half else 0
        )
        self.ledger.allocate(FLATTENED, copy_bytes)
        if self.has_compact_grads:  # `_add_to_grad_partition_buffer` casts this rank's slices one by one
            ranks = {rank for members, _, rank in self.groups if members[0].is_expert is is_expert}
            own_numels = (count for owner, count in chunk if owner in ranks)
            self.ledger.allocate_briefly(FLATTENED, 4 * max(own_numels, default=0))
        self.ledger.free(FLATTENED, copy_bytes)

    def _copy_to_partition(self, weight: ModelParameter) -> None:
        """Keep this rank's part of a gradient (`copy_grads_in_partition`)."""
        setup, ledger = self.setup, self.ledger
        if setup.offloads_optimizer:
            part = self.partition.numel_by_weight[weight]
            if self.is_boundary:
                ledger.allocate_briefly(TEMPORARY, 8 * part)
                if setup.quirks.overflow_check_copies_grads:
                    ledger.allocate_briefly(
                        TEMPORARY, (7 if setup.itemsize == 4 or self.has_grad_lists else 11) * weight.numel
                    )
                if setup.itemsize != setup.master_itemsize:
                    ledger.allocate_briefly(TEMPORARY, setup.master_itemsize * part)
                if weight in self.unbucketed_grads and not self.has_grad_lists:
                    ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
            return
        if (self.has_compact_grads and weight not in self.whole_grads) or not setup.contiguous_gradients:
            return
        if not self.new_grad_bytes:
            self.new_grad_bytes = setup.itemsize * self.partition.touched_numel
            ledger.allocate(GRADIENTS, self.new_grad_bytes)
        if weight in self.unbucketed_grads and not self.has_grad_lists:
            ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))

    def _after_backward(self) -> None:
        """Reduce the remaining gradients (`reduce_gradients`, `independent_gradient_partition_epilogue`)."""
        setup, ledger = self.setup, self.ledger
        if not self.reduces_grads:
            return
        if setup.stage == 1 and not setup.overlap_comm:
            for weight in (weight for members, _, _ in self.groups for weight in members):
                self._allocate_buckets()
                self.add_to_bucket(weight)
        for comm_itemsize in sorted(self.buckets):
            self.reduce(comm_itemsize)
        if setup.contiguous_gradients and self.has_buckets:
            # Cast gradients are views of the filled buffers, so these stay. With two buffers one may be unused.
            divisor = 2 if setup.overlap_comm and self.reduce_count < 2 else 1
            self.bytes_in_bucket_views = self.bucket_bytes // divisor if self.casts_each_grad else 0
            ledger.free(BUCKET, self.bucket_bytes - self.bytes_in_bucket_views)
        self.has_buckets = False
        self._keep_partition_gradients()
        ledger.free(GRADIENTS, self.caller_copy_bytes)
        self.caller_copy_bytes = 0

    def _keep_partition_gradients(self) -> None:
        """Free all gradients outside this rank's partition."""
        ledger = self.ledger
        self.added_grad_bytes = self.new_grad_bytes if self.accumulated_grad_bytes else 0
        if self.new_grad_bytes and self.has_grad_lists:  # the copy in the model's dtype is never read
            ledger.free(GRADIENTS, self.new_grad_bytes)
            self.new_grad_bytes = 0
        if self.new_grad_bytes:  # accumulated over micro batches
            if self.accumulated_grad_bytes:
                ledger.free(GRADIENTS, self.new_grad_bytes)
            else:
                self.accumulated_grad_bytes = self.new_grad_bytes
            self.new_grad_bytes = 0
        for weight in list(self.unbucketed_grads):
            if weight not in self.owned and self.keeps_other_ranks_grads:
                continue
            count = self.unbucketed_grads[weight]
            # Compact and offloaded gradients were copied out of these tensors already.
            if self.has_compact_grads or weight not in self.owned or self.setup.offloads_optimizer:
                ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
            elif not self.setup.contiguous_gradients or self.has_grad_lists:
                self.unbucketed_grads.pop(weight)
                if self.micro_step and self.setup.stage == 2:  # added to those of the micro batches before
                    ledger.free(GRADIENTS, count)
                else:
                    self.accumulated_grad_bytes += count

    @property
    def keeps_other_ranks_grads(self) -> bool:
        """Whether gradients of other ranks' partitions stay allocated until the step.

        If gradients are cast one by one, only those larger than a bucket stay, as clones for the host.
        """
        keeps_list = (
            self.has_grad_lists
            and self.setup.stage == 1
            and self.setup.quirks.fp32_grads_of_other_ranks_stay_until_step
        )
        return keeps_list or (self.casts_each_grad and self.setup.offloads_optimizer)

    # ------------------------------------------------------------ step
    def _step(self) -> None:
        """Compute the gradient norm, flatten the gradients in the master dtype, and update each group."""
        setup, ledger = self.setup, self.ledger
        for feature in self.features:
            feature.before_norm()
        if setup.compute_grad_norm and not setup.offloads_optimizer:
            # The norm is computed in fp64 (zero/utils.py `get_norm_dtype`), tensor by tensor: 8 bytes per
            # element.
            copies = setup.checks_overflow and setup.quirks.overflow_check_copies_grads
            for count in self.partition.numel_by_weight.values():
                ledger.allocate_briefly(TEMPORARY, (11 if copies else 8) * count)
        # `step` frees the averaged gradients after the update (`free_grad_in_param_list`).
        last = len(self.groups) - 1  # the gradients of all groups are views of one tensor
        for index, (_, partition, _) in enumerate(self.groups):
            grad_bytes = self.accumulated_grad_bytes if index == last else 0
            self._step_group(index, partition, grad_bytes + self.update_bytes.pop(index, 0))
        self.accumulated_grad_bytes = 0
        for members, partition, _ in self.groups:
            if self.ranks_of(members[0]) > 1:
                self.count_collective(
                    "all_gather", partition.padded_numel, setup.itemsize, self.ranks_of(members[0])
                )
        if self.casts_each_grad and setup.contiguous_gradients:
            ledger.free(BUCKET, self.bytes_in_bucket_views)
        if self.keeps_other_ranks_grads or (self.casts_each_grad and setup.contiguous_gradients):
            ledger.free(GRADIENTS, sum(self.unbucketed_grads.values()))  # `zero_grad`
            self.unbucketed_grads.clear()

    def _step_group(self, index: int, partition: FlatPartition, grad_bytes: int) -> None:
        """Update one parameter group, whose gradients occupy `grad_bytes` bytes."""
        setup, ledger, numel = self.setup, self.ledger, partition.numel
        compact_bytes = self.compact_grad_bytes.pop(index, 0)
        if setup.offloads_optimizer or compact_bytes:
            self.update_group(index, numel, numel, host=setup.offloads_optimizer)
            ledger.free(COMPACT, compact_bytes)
            ledger.free(GRADIENTS, grad_bytes if setup.offloads_optimizer else 0)
            return
        flat_bytes = setup.grad_accum_itemsize * numel
        copies = len(partition.numel_by_weight) > 1 or sum(partition.numel_by_weight.values()) < numel
        fp32_bytes = (
            setup.master_itemsize * numel if setup.grad_accum_itemsize != setup.master_itemsize else 0
        )
        grad_copy = (fp32_bytes or flat_bytes) if copies or fp32_bytes else 0
        ledger.allocate(TEMPORARY, flat_bytes if copies else 0)
        if fp32_bytes:
            ledger.allocate(TEMPORARY, fp32_bytes)
            ledger.free(TEMPORARY, flat_bytes if copies else 0)
        if grad_copy:
            ledger.free(GRADIENTS, grad_bytes)
        self.update_group(index, numel, numel)
        ledger.free(TEMPORARY, grad_copy)
        if not grad_copy:
            ledger.free(GRADIENTS, grad_bytes)
