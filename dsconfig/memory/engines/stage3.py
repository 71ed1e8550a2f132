"""Simulate ZeRO stage 3: partitioned parameters, master weights, states and gradients, and saving."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter
from dsconfig.memory.engines.base_engine import (
    BUCKET,
    BUILT,
    CONSOLIDATED,
    FLATTENED,
    GATHERED,
    GRADIENTS,
    MASTER,
    SAVE,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
    pinned_padding,
)
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.param_groups import parameter_groups, persistent_parameters, sub_groups
from dsconfig.memory.engines.partitioned_parameter_coordinator import (
    SECONDARY,
    PartitionedParameterCoordinator,
)
from dsconfig.memory.memory_ledger import MemoryLedger

NORM_CHUNK = 250_000_000
"""Number of gradient elements whose norm is computed at once (`_constant_buffered_norm2`)."""
PERSISTENT, OFFLOADED = "persistent parameters", "offloaded gradient partition"


class DeepSpeedZeroOptimizerStage3(Engine):
    """Simulation of `DeepSpeedZeroOptimizer_Stage3` (runtime/zero/stage3.py)."""

    gathers = True

    def __init__(self, setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> None:
        super().__init__(setup, tape, ledger)
        self.persistent = persistent_parameters(setup.stage3, tape.weights)
        self.coordinator = PartitionedParameterCoordinator(
            setup, tape, ledger, self.persistent, self.count_collective, self.ranks_of
        )
        groups = parameter_groups(setup, self.trainable)
        if tape.tp_size > 1:
            groups = [members for group in groups for members in self._split_by_gather_group(group)]
        self.groups = [group for members in groups for group in self.sub_groups_of(members)]
        self.shard_bytes = sum(map(self.shard_bytes_of, tape.weights))
        self.trainable_shard_numel = sum(map(sum, self.groups))
        comm_itemsize = (
            setup.comm_itemsize if setup.quirks.stage3_has_buckets_by_comm_dtype else setup.itemsize
        )
        itemsizes = (
            {2 if weight.is_linear else 4 for weight in self.trainable} if setup.autocast else {comm_itemsize}
        )
        self.buckets: dict[int, list[ModelParameter]] = {itemsize: [] for itemsize in itemsizes}
        """Gradients waiting for reduction, by itemsize of the communication dtype."""
        self.bucket_fill = dict.fromkeys(
            itemsizes, setup.reduce_bucket_size if setup.quirks.bucket_count_is_never_reset else 0
        )
        self.unbucketed_grads: dict[ModelParameter, int] = {}
        """Bytes of each gradient that does not fit in a bucket."""
        self.leaf_of = {
            weight: number for number, weights in self.coordinator.leaves.items() for weight in weights
        }
        self.leaf_grads: dict[int, dict[ModelParameter, int]] = {}
        """Bytes of the gradients of leaf modules that are running their backward pass."""
        self.flat_numel = self.trainable_shard_numel
        """Number of shard elements in one host block (`param_groups_fp16_flat_cpu_memory`)."""
        self.swapped_groups = frozenset[int]()
        """Sub-groups whose masters and states are on NVMe."""
        self.offloaded_grad_copies = 1
        """Number of copies of the gradients of offloaded masters."""

    def shard_numel(self, weight: ModelParameter) -> int:
        """Return the number of elements in a rank's shard of a parameter (`_aligned_size`)."""
        return -(-weight.numel // self.ranks_of(weight))

    def padded_numel(self, weight: ModelParameter) -> int:
        """Return the number of elements in all shards of a parameter, including padding."""
        return self.shard_numel(weight) * self.ranks_of(weight)

    @property
    def pinned_grad_buffer_bytes(self) -> int:
        """Bytes of the fp32 buffer through which gradients are copied to the host."""
        is_used = self.setup.offloads_optimizer and self.setup.quirks.stage3_pins_gradient_buffer
        return 4 * max(map(self.shard_numel, self.trainable), default=0) if is_used else 0

    @property
    def master_itemsize(self) -> int:
        """Bytes per master weight, or 0 if the shard itself serves as the master weight."""
        setup = self.setup
        # stage3.py keeps an fp32 copy even of fp32 shards: its alias branch compares a `torch.device` with a
        # string.
        can_alias = setup.itemsize == 4 and not setup.offloads_optimizer and not setup.offloads_params
        return 0 if can_alias and setup.quirks.fp32_shards_are_masters else setup.master_itemsize

    def _split_by_gather_group(self, weights: list[ModelParameter]) -> list[list[ModelParameter]]:
        """Split parameters by process group (`trainable_params_by_group`)."""
        by_group: dict[tuple[bool, bool], list[ModelParameter]] = {}
        for weight in weights:
            by_group.setdefault(self.setup.gather_group(weight), []).append(weight)
        return list(by_group.values())

    def sub_groups_of(self, members: list[ModelParameter]) -> list[list[int]]:
        """Split a parameter group into its sub-groups."""
        return sub_groups(self.setup.stage3, [self.shard_numel(weight) for weight in members])

    def itemsize_of(self, weight: ModelParameter) -> int:
        """Return a parameter's bytes per element; LoRA adapters may be in fp32."""
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def shard_bytes_of(self, weight: ModelParameter) -> int:
        """Return the size of a parameter's shard in bytes."""
        return self.itemsize_of(weight) * self.shard_numel(weight)

    def is_offloaded(self, index: int) -> bool:
        """Return whether a sub-group is offloaded (`subgroup_to_device`)."""
        return self.setup.offloads_optimizer and index >= int(
            (1 - self.setup.offload_ratio) * len(self.groups)
        )

    def states(self, index: int, count: int) -> int:
        """Return the bytes of a sub-group's optimizer states."""
        rule = self.setup.optimizer
        return self.state_bytes(index, count, rule.states_nbytes(count) * self.setup.master_itemsize // 4)

    def offloaded_grad_bytes(self, count: int) -> int:
        """Return the bytes of the gradients for `count` offloaded master weights."""
        return self.setup.master_itemsize * count * self.offloaded_grad_copies

    def _states_before_first_step(self, index: int, count: int) -> int:
        """Return the bytes of a sub-group's optimizer states that exist before the first step."""
        if any(feature.creates_states_with_masters(index) for feature in self.features):
            return self.states(index, count)
        return self.setup.optimizer.state_bytes * count if self.setup.optimizer.allocates_states_early else 0

    # ------------------------------------------------------------ load
    def _load(self) -> None:
        """Partition the parameters, create the master weights group by group, and gather each parameter once."""
        setup, ledger = self.setup, self.ledger
        if setup.zero_init:
            self._before_partition()
            self._build_with_zero_init()
        else:
            self.build()
            self._before_partition()
            self._partition_params()
        self._move_shards()
        for feature in self.features:
            feature.before_masters()
        for index, group in enumerate(self.groups):
            on_host, count = self.is_offloaded(index), self.master_itemsize * sum(group)
            if index in self.swapped_groups:
                for feature in self.features:
                    feature.swap_out_masters(index, count)
                continue
            # `_create_fp32_partitions`: `.to(fp32)` and `.clone()` hold two fp32 copies of a sub-group at
            # once.
            ledger.allocate_briefly(MASTER, 2 * count, host=on_host)
            ledger.allocate(MASTER, count, host=on_host)
            ledger.allocate(STATES, self._states_before_first_step(index, sum(group)), host=on_host)
        largest = max(map(sum, self.groups), default=0)
        ledger.allocate(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        if setup.offloads_optimizer:  # next to one gradient buffer of the largest sub-group
            for index, group in enumerate(self.groups):
                if index not in self.swapped_groups:
                    ledger.allocate(
                        OFFLOADED, self.offloaded_grad_bytes(sum(group)), host=self.is_offloaded(index)
                    )
        ledger.free(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        self._allocate_gradients()
        # Initialization ends with a gather of each parameter (`create_reduce_and_remove_grad_hooks`).
        gathered_bytes = setup.itemsize * max(map(self.padded_numel, self.trainable), default=0)
        ledger.allocate(GATHERED, gathered_bytes)
        if setup.quirks.single_param_is_gathered_into_copy:
            ledger.allocate_briefly(GATHERED, gathered_bytes)
        ledger.free(GATHERED, gathered_bytes)

    def _before_partition(self) -> None:
        for feature in self.features:
            feature.before_partition()

    def _allocate_shard(self, weight: ModelParameter, factor: int = 1) -> None:
        """Allocate a new shard on the rank or the host, unless it is stored on NVMe."""
        if not any(feature.is_on_nvme(weight) for feature in self.features):
            on_host = self.setup.offloads_params and weight not in self.persistent
            self.ledger.allocate(WEIGHTS, factor * self.shard_bytes_of(weight), host=on_host)

    def _allocate_secondary(self, weight: ModelParameter) -> None:
        """Allocate the secondary partition of a parameter (`_partition_param_sec`)."""
        setup = self.setup
        if setup.hpz_size > 1:
            count = setup.itemsize * self.padded_numel(weight) // setup.hpz_size
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    def _partition_params(self) -> None:
        """Partition the parameters one by one (`_convert_to_zero_parameters`)."""
        for feature in self.features:
            self.ledger.allocate_briefly(WEIGHTS, feature.flatten_copy_bytes(self.tape.weights))
        for weight in self.tape.weights:
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
            self.ledger.free(WEIGHTS, self.setup.itemsize * weight.numel)

    def _move_shards(self) -> None:
        """Move all shards through a host buffer (`defragment`), in which offloaded shards stay."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate_briefly(
            WEIGHTS,
            sum(map(self.shard_bytes_of, self.trainable)) * self.flat_numel // self.trainable_shard_numel,
            host=True,
        )
        if setup.offloads_params:
            for weight in self.tape.weights:
                self._allocate_shard(weight, -1)
            self.allocate_shards()

    def allocate_shards(self) -> None:
        """Allocate the offloaded parameter shards."""
        if not any(feature.allocate_offloaded_shards() for feature in self.features):
            self.ledger.allocate(WEIGHTS, self.shard_bytes, host=True)

    def _build_with_zero_init(self) -> None:
        """Build the model under `zero.Init`, which partitions the parameters of each module once it is built."""
        itemsize, build_itemsize, ledger = self.setup.itemsize, self.setup.build_itemsize, self.ledger
        # `Init._post_init_method` converts and partitions all parameters of a module after its constructor
        # returns.
        cast_itemsize = build_itemsize + (itemsize if itemsize != build_itemsize else 0)
        initial_weights = {
            weight for weight in self.tape.weights if not (self.tape.adapter and weight.requires_grad)
        }
        for module in self.tape.modules:
            weights = [
                weight
                for weight in module.weights
                if weight in initial_weights and weight.module_number == module.number
            ]
            for weight in weights:
                ledger.allocate_briefly(BUILT, cast_itemsize * weight.numel * weight.tp_size)
                ledger.allocate(BUILT, itemsize * weight.numel * weight.tp_size)
            for weight in weights:
                self._allocate_shard(weight)
                self._allocate_secondary(weight)
            ledger.free(BUILT, itemsize * sum(weight.numel * weight.tp_size for weight in weights))
        self._build_untied_head(cast_itemsize)
        self._keep_untied_secondary()
        for weight in self.trainable if self.tape.adapter else ():  # PEFT creates adapters last, on the host
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
        for feature in self.features:
            feature.after_zero_init()

    def _build_untied_head(self, cast_itemsize: int) -> None:
        """Build and partition an LM head that is tied to the embeddings only afterwards."""
        setup, untied, on_host = self.setup, self.tape.untied_numel, self.setup.offloads_params
        self.ledger.allocate_briefly(BUILT, cast_itemsize * untied)
        self.ledger.allocate(BUILT, setup.itemsize * untied)
        self.ledger.allocate_briefly(
            SECONDARY, setup.itemsize * self._untied_shard_numel(untied), host=on_host
        )
        self.ledger.free(BUILT, setup.itemsize * untied)

    def _untied_shard_numel(self, untied: int) -> int:
        """Return the number of elements in an untied head's shard and secondary partition."""
        secondary = self.setup.hpz_size
        return -(-untied // self.setup.dp_world_size) + (untied // secondary if secondary > 1 else 0)

    def _keep_untied_secondary(self) -> None:
        """Keep the shard and secondary partition of an LM head that was tied after being partitioned."""
        setup, untied = self.setup, self.tape.untied_numel
        if (
            untied
            and setup.zero_init
            and setup.hpz_size > 1
            and setup.quirks.secondary_partition_of_tied_head_stays
        ):
            count = setup.itemsize * self._untied_shard_numel(untied)
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    # ------------------------------------------------------------ at rest
    def _allocate_at_rest(self) -> None:
        """Allocate all shards, the reduce bucket, and the persistent parameters."""
        setup, ledger = self.setup, self.ledger
        if setup.offloads_params:
            self.allocate_shards()
        else:
            ledger.allocate(WEIGHTS, self.shard_bytes)
        for index, group in enumerate(self.groups):
            on_host, count = self.is_offloaded(index), sum(group)
            if index in self.swapped_groups:
                continue
            ledger.allocate(MASTER, self.master_itemsize * count, host=on_host)
            ledger.allocate(STATES, self.states(index, count), host=on_host)
            if setup.offloads_optimizer:
                ledger.allocate(OFFLOADED, self.offloaded_grad_bytes(count), host=on_host)
        self._keep_untied_secondary()
        if not setup.zero_init:
            ledger.allocate(STATES, self.construction_state_bytes)
        self._allocate_gradients()
        self.gather_persistent()

    def _allocate_gradients(self) -> None:
        """Allocate the flat gradients and the reduce buckets, which persist for the whole run."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            GRADIENTS, setup.grad_accum_itemsize * self.trainable_shard_numel, host=setup.offloads_optimizer
        )
        ledger.allocate(OFFLOADED, self.pinned_grad_buffer_bytes, host=True)
        if setup.contiguous_gradients:
            for itemsize in self.buckets:
                ledger.allocate(BUCKET, itemsize * setup.reduce_bucket_size)

    def _pinned_padding(self) -> int:
        """Return the padding of pinned gradients, and of flat shards, which are always pinned."""
        setup, blocks = self.setup, [self.pinned_grad_buffer_bytes]
        if setup.offloads_optimizer and setup.pins_optimizer:
            blocks += [
                setup.master_itemsize * sum(group)
                for index, group in enumerate(self.groups)
                if index not in self.swapped_groups and self.is_offloaded(index)
            ]
            blocks.append(setup.grad_accum_itemsize * self.trainable_shard_numel)
        if setup.offloads_params:
            blocks.append(setup.itemsize * self.flat_numel)
        pins_shards = setup.offloads_params and setup.pins_params and setup.zero_init
        shards = [
            self.shard_bytes_of(weight) for weight in self.trainable if weight not in self.persistent
        ] * pins_shards
        # The moved shards leave their pinned blocks in the cache.
        return pinned_padding([*blocks, *shards]) + sum(shards)

    def gather_persistent(self) -> None:
        """Gather the persistent parameters, which stay gathered between steps."""
        self.persistent_bytes = self.gathered_bytes(self.persistent)
        self.ledger.allocate(PERSISTENT, self.persistent_bytes)

    def gathered_bytes(self, weights: Iterable[ModelParameter]) -> int:
        """Return the bytes of these parameters when gathered, without those that are never partitioned."""
        return sum(
            self.itemsize_of(weight) * self.padded_numel(weight)
            for weight in weights
            if self.ranks_of(weight) > 1
        )

    # ------------------------------------------------------------ save
    def _consolidate(self) -> None:
        """Gather the parameters module by module, and copy them to rank 0 (`_zero3_consolidated_16bit_state_dict`)."""
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
            count += sum(feature.gather_on_save(module) for feature in self.features)
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

    # ------------------------------------------------------------ passes
    def _before_forward(self) -> None:
        """Reset the coordinator (`reset_step`), as releases before 0.15.4 do after the backward pass instead."""
        coordinator = self.coordinator
        if self.setup.gradient_accumulation_steps > 1 and not coordinator.releases:
            coordinator.releases = coordinator.compute_cached_releases()
        if not self.setup.quirks.live_parameter_counter_is_reset_before_step:
            coordinator.reset()

    def enter_module(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Fetch the parameters of a module before it runs."""
        self.coordinator.fetch(number)

    def leave_module(self, number: int, forward: bool) -> None:
        """Release the parameters of a module; a leaf module first reduces its gradients in order."""
        if number in self.leaf_grads and not forward:
            grads = self.leaf_grads.pop(number)
            for weight in sorted(grads, key=lambda weight: weight.number):
                self._add_to_bucket(weight, grads[weight])
        if forward or number not in self.coordinator.miscounted:
            self.coordinator.release(number)

    def set_recomputing_module(self, number: int | None) -> None:
        """Attribute gathered parameters to the module whose recomputation starts."""
        self.coordinator.recomputing_for = (
            number if self.setup.quirks.recomputed_params_are_released_with_module else None
        )

    def hold_view(self, weight: ModelParameter) -> None:
        """Keep a parameter's gathered block allocated after the parameter is released."""
        self.coordinator.hold_view(weight)

    def release_view(self, weight: ModelParameter) -> None:
        """Free the saved view of a gathered block."""
        self.coordinator.release_view(weight)

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Receive a gradient (`reduce_partition_and_remove_grads`, or `reduce_leaf_module_grads`)."""
        leaf = self.leaf_of.get(weight)
        if leaf is None:
            self._add_to_bucket(weight, count)
        else:
            self.leaf_grads.setdefault(leaf, {})[weight] = count

    def _add_to_bucket(self, weight: ModelParameter, count: int) -> None:
        """Add a gradient to the bucket, reducing the bucket first if the gradient does not fit.

        The method follows `reduce_independent_p_g_buckets_and_remove_grads`.
        """
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
        weights = self.buckets[comm_itemsize]
        if not weights:
            return
        if not any(feature.reduce(weights, comm_itemsize) for feature in self.features):
            self._reduce_scatter(weights, comm_itemsize)
        self.buckets[comm_itemsize] = []
        if not self.setup.quirks.bucket_count_is_never_reset:
            self.bucket_fill[comm_itemsize] = 0

    def _reduce_scatter(self, weights: list[ModelParameter], comm_itemsize: int) -> None:
        setup, ledger = self.setup, self.ledger
        total, ranks = sum(weight.numel for weight in weights), self.ranks_of(weights[0])
        shards = sum(self.shard_numel(weight) for weight in weights)
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
        self._partition_grads(weights)
        ledger.free(FLATTENED, result_bytes)

    def _partition_grads(self, weights: list[ModelParameter]) -> None:
        """Copy this rank's shards of a bucket to the gradients of the optimizer (`partition_grads`)."""
        for feature in self.features:
            feature.after_reduce(weights)
        setup = self.setup
        for weight in weights:
            # `grad_buffer.to(grad_partition.device)` copies an offloaded shard back, which on a CPU is no copy.
            copy_bytes = 0
            if setup.offloads_optimizer and setup.has_separate_host:
                copy_bytes = setup.grad_accum_itemsize * self.shard_numel(weight)
            self.ledger.allocate(FLATTENED, copy_bytes)
            # Norm in fp64 (`_constant_buffered_norm2`).
            if setup.offloads_optimizer and self.is_boundary:
                norm_bytes = 8 * min(self.shard_numel(weight), NORM_CHUNK)
                self.ledger.allocate_briefly(FLATTENED if copy_bytes else TEMPORARY, norm_bytes)
            self.ledger.free(FLATTENED, copy_bytes)
            if weight in self.unbucketed_grads:
                self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
            for feature in self.features:
                feature.store_gradient(weight)
        for feature in self.features:
            feature.after_store()

    def _after_backward(self) -> None:
        """Reduce the gradients still in the bucket, and release all gathered parameters."""
        for comm_itemsize in sorted(self.buckets):
            self._reduce(comm_itemsize)
        if not self.setup.quirks.unreleased_params_stay_until_step:
            self.coordinator.release_leftovers()
        if self.setup.quirks.live_parameter_counter_is_reset_before_step:
            self.coordinator.reset()

    # ------------------------------------------------------------ step
    def _step(self) -> None:
        """Update the sub-groups one by one, while no parameter is gathered."""
        setup, ledger = self.setup, self.ledger
        self.coordinator.partition_all()
        ledger.free(PERSISTENT, self.persistent_bytes)
        if setup.checks_overflow:
            ledger.allocate_briefly(
                TEMPORARY,
                (setup.grad_accum_itemsize + 1) * self.trainable_shard_numel,
                host=setup.offloads_optimizer,
            )
        for feature in self.features:
            feature.before_norm()
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
            self.update_group(index, count, count, host=on_host)
            ledger.free(TEMPORARY, grad_copy)
        self.coordinator.invalidate_secondary()
        self.gather_persistent()
        for weight in sorted(self.persistent, key=lambda weight: weight.number):
            if (ranks := self.ranks_of(weight)) > 1:
                self.count_collective(
                    "all_gather", self.padded_numel(weight), self.itemsize_of(weight), ranks
                )

    def _update_group(self, numel: int, largest: int, *, host: bool) -> None:
        """Update a sub-group; torch's Adam updates the part that `ratio` leaves on the rank (`backup_optimizer`)."""
        super()._update_group(numel, largest, host=host)
        setup = self.setup
        if setup.offloads_optimizer and not host and setup.optimizer.is_fused_adam:
            self.ledger.allocate_briefly(TEMPORARY, (4 if setup.has_separate_host else 8) * numel)
