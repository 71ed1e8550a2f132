"""ZeRO stage 3 (`stage3.py`): a shard of every parameter, gradient and optimizer state on each rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsconfig.memory.engines.base import (
    BUCKET,
    BUILT,
    CONSOLIDATED,
    FLATTENED,
    GRADIENTS,
    MASTER,
    SAVE,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
    pinned_padding,
)
from dsconfig.memory.engines.param_coordinator import GATHERED, SECONDARY, PartitionedParameterCoordinator
from dsconfig.memory.engines.param_groups import muon_halves, optimizer_groups
from dsconfig.memory.engines.setup import Setup, Stage3Settings
from dsconfig.memory.graph import ROW_PARALLEL, Module, Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.quantized_gather import sent_as_int4
from dsconfig.memory.verdict import NotModelledError

# Gradients that stage 3 sends as int4, in a node and then between nodes (`zero_quantized_gradients`).


class QuantizedReduction(Engine):
    """The part of stage 3 that sends gradients so."""

    buckets: dict[int, list[Weight]]
    """Gradients that wait, by the width of their type."""
    bucket_fill: dict[int, int]
    unbucketed_grads: dict[Weight, int]
    """Those that have blocks of their own, in bytes."""

    def shard(self, weight: Weight) -> int:
        """Elements of a rank's part (`_aligned_size`)."""
        return -(-weight.numel // self.ranks_of(weight))

    def aligned(self, weight: Weight) -> int:
        """Elements of all parts, with what fills up the last."""
        return self.shard(weight) * self.ranks_of(weight)

    def reduce_quantized(self, kind: int) -> None:
        """`all_to_all_quant_reduce`: the gradients of a bucket, one after the other."""
        setup, ledger, world, held = self.setup, self.ledger, self.setup.dp_world_size, 0
        for weight in self.buckets[kind]:
            count, shard = weight.numel, self.shard(weight)
            if not sent_as_int4(weight.shape, world):
                self.count_collective("reduce_scatter", shard * world, kind)
                ledger.allocate_briefly(FLATTENED, kind * shard * world if count % world else 0)
            else:
                self.count_collective("all_to_all", count // 2, 1, setup.gpus_per_node)
                self.count_collective(
                    "all_to_all", count // 2 // setup.gpus_per_node, 1, world // setup.gpus_per_node
                )
                ledger.allocate_briefly(FLATTENED, count)
            ledger.allocate(FLATTENED, setup.grad_accum_itemsize * shard)
            held += setup.grad_accum_itemsize * shard
            if weight in self.unbucketed_grads:
                ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        ledger.free(FLATTENED, held)
        self.buckets[kind] = []
        if not setup.quirks.never_resets_bucket_count:
            self.bucket_fill[kind] = 0


# Stage 3 as it is loaded and at rest: where shards, masters and gradients are (`stage3.py`).

PERSISTENT, OFFLOADED = "persistent parameters", "offloaded gradient partition"


class Stage3State(QuantizedReduction):
    """What `DeepSpeedZeroOptimizer_Stage3` has made by the time that training begins."""

    gathers = True

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaf = any(module.class_name in setup.leaf_classes for module in tape.modules if module.class_name)
        if setup.hpz_size > 1 and (leaf or len(self.trainable) < len(tape.weights)):
            told = "with frozen weights or experts as leaf modules"
            raise NotModelledError(f"`zero_optimization.zero_hpz_partition_size` {told} is not supported yet")
        self.persistent = persistent_params(setup.stage3, tape.weights)
        self.coordinator = PartitionedParameterCoordinator(
            setup, tape, ledger, self.persistent, self.count_collective, self.ranks_of
        )
        found = (
            muon_halves(setup, self.trainable)
            if setup.optimizer.muon_method
            else optimizer_groups(self.trainable)
        )
        if tape.tp_size > 1:
            found = [members for group in found for members in self._by_gather_group(group)]
        self.groups = [group for members in found for group in self.sub_groups_of(members)]
        self.shard_bytes = sum(map(self.shard_bytes_of, tape.weights))
        self.trainable_shard_numel = sum(map(sum, self.groups))
        sent = setup.comm_itemsize if setup.quirks.has_buckets_per_comm_dtype else setup.itemsize
        kinds = {2 if weight.is_linear else 4 for weight in self.trainable} if setup.autocast else {sent}
        self.buckets = {kind: [] for kind in kinds}
        self.bucket_fill = dict.fromkeys(
            kinds, setup.reduce_bucket_size if setup.quirks.never_resets_bucket_count else 0
        )
        self.unbucketed_grads = {}

    @property
    def pinned_grad_buffer_bytes(self) -> int:
        """Bytes of the buffer that each offloaded gradient goes through, in fp32."""
        through = self.setup.offloads_optimizer and self.setup.quirks.pins_grad_buffer
        return 4 * max(map(self.shard, self.trainable), default=0) if through else 0

    @property
    def master_itemsize(self) -> int:
        """Bytes of a master weight, where it is not the shard itself."""
        setup = self.setup
        shared = setup.itemsize == 4 and not setup.offloads_optimizer and not setup.offloads_params
        return 0 if shared and setup.quirks.aliases_fp32_masters else setup.master_itemsize

    def _by_gather_group(self, weights: list[Weight]) -> list[list[Weight]]:
        """Those of each group of ranks (`trainable_params_by_group`)."""
        found: dict[tuple[bool, bool], list[Weight]] = {}
        for weight in weights:
            found.setdefault(self.setup.gather_group(weight), []).append(weight)
        return list(found.values())

    def sub_groups_of(self, members: list[Weight]) -> list[list[int]]:
        """Sub-groups of a group of parameters."""
        return sub_groups(self.setup.stage3, [self.shard(weight) for weight in members])

    def itemsize_of(self, weight: Weight) -> int:
        """Bytes of an element: adapters may be in fp32."""
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def shard_bytes_of(self, weight: Weight) -> int:
        """Bytes of a rank's part."""
        return self.itemsize_of(weight) * self.shard(weight)

    def is_offloaded(self, index: int) -> bool:
        """Whether a sub-group is offloaded (`subgroup_to_device`)."""
        return self.setup.offloads_optimizer and index >= int(
            (1 - self.setup.offload_ratio) * len(self.groups)
        )

    def state_bytes(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of the optimizer's states for a sub-group."""
        return self.setup.optimizer.states_nbytes(count) * self.setup.master_itemsize // 4

    def offloaded_grad_bytes(self, count: int) -> int:
        """Bytes of the gradients of so many masters, where they are offloaded."""
        return self.setup.master_itemsize * count

    def states_before_first_step(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of those that are made before the first step."""
        return self.setup.optimizer.state_bytes * count if self.setup.optimizer.allocates_states_early else 0

    # ------------------------------------------------------------ what lies on NVMe: nothing, here
    def is_swapped(self, index: int) -> bool:  # noqa: ARG002
        """Whether masters and states of a sub-group lie there."""
        return False

    def create_param_buffers(self) -> None:
        """What parameters are read into, while it is made."""

    def allocate_param_buffers(self) -> None:
        """And from then on."""

    def allocate_optimizer_buffers(self) -> None:
        """What masters, states and gradients are read into."""

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """The update of a sub-group of so many elements; what `ratio` leaves on the rank is torch's."""
        self.update(count, count, host=host)
        setup = self.setup
        if setup.offloads_optimizer and not host and setup.optimizer.is_fused_adam:  # `backup_optimizer`
            self.ledger.allocate_briefly(TEMPORARY, (4 if setup.has_separate_host else 8) * count)

    def swap_out_masters(self, index: int, count: int) -> None:
        """Masters of so many bytes go to the drive."""

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """Shards, then masters group by group, each for a moment twice; each parameter gathered once."""
        setup, ledger = self.setup, self.ledger
        if setup.zero_init:
            self.create_param_buffers()
            self._build_with_zero_init()
        else:
            self.build()
            self.create_param_buffers()
            self._partition_params()
        self._move_shards()
        self.allocate_optimizer_buffers()
        for index, group in enumerate(self.groups):
            host, count = self.is_offloaded(index), self.master_itemsize * sum(group)
            if self.is_swapped(index):
                self.swap_out_masters(index, count)
                continue
            ledger.allocate_briefly(MASTER, 2 * count, host=host)
            ledger.allocate(MASTER, count, host=host)
            ledger.allocate(STATES, self.states_before_first_step(index, sum(group)), host=host)
        largest = max(map(sum, self.groups), default=0)
        ledger.allocate(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        if setup.offloads_optimizer:  # beside the gradient that is large enough for each
            for index, group in enumerate(self.groups):
                if not self.is_swapped(index):
                    ledger.allocate(
                        OFFLOADED, self.offloaded_grad_bytes(sum(group)), host=self.is_offloaded(index)
                    )
        ledger.free(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        ledger.allocate(
            GRADIENTS, setup.grad_accum_itemsize * self.trainable_shard_numel, host=setup.offloads_optimizer
        )
        ledger.allocate(OFFLOADED, self.pinned_grad_buffer_bytes, host=True)
        if setup.contiguous_gradients:
            for kind in self.buckets:
                ledger.allocate(BUCKET, kind * setup.reduce_bucket_size)
        biggest = max(map(self.aligned, self.trainable), default=0)
        ledger.allocate_briefly(
            GATHERED, setup.itemsize * biggest * (2 if setup.quirks.gathers_into_copy else 1)
        )

    def initial_location(self, weight: Weight) -> bool | None:
        """Where a shard is cut to: True for the host, False for the rank, None for a drive."""
        return self.setup.offloads_params and weight not in self.persistent

    def _allocate_shard(self, weight: Weight, sign: int = 1) -> None:
        home = self.initial_location(weight)
        if home is not None:
            self.ledger.allocate(WEIGHTS, sign * self.shard_bytes_of(weight), host=home)

    def _allocate_secondary(self, weight: Weight) -> None:
        """The part of a copy among the ranks of a node (`_partition_param_sec`)."""
        setup = self.setup
        if setup.hpz_size > 1:
            count = setup.itemsize * self.aligned(weight) // setup.hpz_size
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    def _partition_params(self) -> None:
        """Each parameter becomes a shard, one after the other (`_convert_to_zero_parameters`)."""
        for weight in self.tape.weights:
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
            self.ledger.free(WEIGHTS, self.setup.itemsize * weight.numel)

    def _move_shards(self) -> None:
        """All shards go through a buffer on the host (`defragment`), or to one, where they are offloaded."""
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
        """Offloaded, they are here from then on."""
        self.ledger.allocate(WEIGHTS, self.shard_bytes, host=True)

    def _build_with_zero_init(self) -> None:
        """`zero.Init`: each parameter whole for a moment as it is cast, beside earlier shards."""
        itemsize, built, ledger = self.setup.itemsize, self.setup.build_itemsize, self.ledger
        both = built + (itemsize if itemsize != built else 0)
        made = {weight for weight in self.tape.weights if not (self.tape.adapter and weight.requires_grad)}
        for module in self.tape.modules:
            own = [
                weight
                for weight in module.weights
                if weight in made and weight.module_number == module.number
            ]
            for weight in own:
                ledger.allocate_briefly(BUILT, both * weight.numel * weight.tp_size)
                ledger.allocate(BUILT, itemsize * weight.numel * weight.tp_size)
            for weight in own:
                self._allocate_shard(weight)
                self._allocate_secondary(weight)
            ledger.free(BUILT, itemsize * sum(weight.numel * weight.tp_size for weight in own))
        self._build_untied(both)
        self._keep_untied_secondary()
        for weight in self.trainable if self.tape.adapter else ():  # adapters are made last, on the host
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
        self._apply_autotp()

    def _build_untied(self, both: int) -> None:
        """A head is made and cut like any other layer, before it is tied to the embeddings."""
        setup, untied, host = self.setup, self.tape.untied_numel, self.setup.offloads_params
        self.ledger.allocate_briefly(BUILT, both * untied)
        self.ledger.allocate(BUILT, setup.itemsize * untied)
        self.ledger.allocate_briefly(SECONDARY, setup.itemsize * self._untied_shard_numel(untied), host=host)
        self.ledger.free(BUILT, setup.itemsize * untied)

    def _untied_shard_numel(self, untied: int) -> int:
        """Elements of the shard of a head, and of the part of a copy."""
        secondary = self.setup.hpz_size
        return -(-untied // self.setup.dp_world_size) + (untied // secondary if secondary > 1 else 0)

    def _keep_untied_secondary(self) -> None:
        """Shard and copy of a head that was made, and then tied to the embeddings."""
        setup, untied = self.setup, self.tape.untied_numel
        if untied and setup.zero_init and setup.hpz_size > 1 and setup.quirks.keeps_untied_secondary:
            count = setup.itemsize * self._untied_shard_numel(untied)
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    def _apply_autotp(self) -> None:
        """What ranks share is gathered, copied, cut (`_gather_zero3_params`), and partitioned again."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        partition = [weight for weight in self.tape.weights if weight.tp_size > 1]
        for weight in partition:
            ledger.allocate_briefly(GATHERED, 2 * itemsize * weight.numel * weight.tp_size)
            ledger.allocate(WEIGHTS, itemsize * weight.numel)
        for weight in partition:
            ledger.allocate_briefly(WEIGHTS, self.shard_bytes_of(weight))
            ledger.free(WEIGHTS, itemsize * weight.numel)

    # ------------------------------------------------------------ at rest
    def allocate_at_rest(self) -> None:
        """Shards of weights, masters, states and gradients; the bucket and what persists."""
        setup, ledger = self.setup, self.ledger
        self.allocate_param_buffers()
        if setup.offloads_params:
            self.allocate_shards()
        else:
            ledger.allocate(WEIGHTS, self.shard_bytes)
        self.allocate_optimizer_buffers()
        for index, group in enumerate(self.groups):
            host, count = self.is_offloaded(index), sum(group)
            if self.is_swapped(index):
                continue
            ledger.allocate(MASTER, self.master_itemsize * count, host=host)
            ledger.allocate(STATES, self.state_bytes(index, count), host=host)
            if setup.offloads_optimizer:
                ledger.allocate(OFFLOADED, self.offloaded_grad_bytes(count), host=host)
        self._keep_untied_secondary()
        if not setup.zero_init:
            ledger.allocate(STATES, self.construction_state_bytes)
        ledger.allocate(
            GRADIENTS, setup.grad_accum_itemsize * self.trainable_shard_numel, host=setup.offloads_optimizer
        )
        ledger.allocate(OFFLOADED, self.pinned_grad_buffer_bytes, host=True)
        if setup.contiguous_gradients:
            for kind in self.buckets:
                ledger.allocate(BUCKET, kind * setup.reduce_bucket_size)
        self.gather_persistent()

    def pinned_padding(self) -> int:
        """Gradients, those of the masters, and the flat shards, which are pinned whatever the config says."""
        setup, blocks = self.setup, [self.pinned_grad_buffer_bytes]
        if setup.offloads_optimizer and setup.pins_optimizer:
            there = (index for index in range(len(self.groups)) if not self.is_swapped(index))
            blocks += [
                setup.master_itemsize * sum(self.groups[index]) for index in there if self.is_offloaded(index)
            ]
            blocks.append(setup.grad_accum_itemsize * self.trainable_shard_numel)
        if setup.offloads_params:
            blocks.append(setup.itemsize * self.flat_numel)
        built = setup.offloads_params and setup.pins_params and setup.zero_init
        shards = [
            self.shard_bytes_of(weight) for weight in self.trainable if weight not in self.persistent
        ] * built
        return pinned_padding([*blocks, *shards]) + sum(shards)  # these were moved, and their blocks are kept

    @property
    def flat_numel(self) -> int:
        """Elements of the shards that lie in one block on the host (`param_groups_fp16_flat_cpu_memory`)."""
        return self.trainable_shard_numel

    def gather_persistent(self) -> None:
        """What is small stays whole between steps."""
        self.persistent_bytes = self.gathered_bytes(self.persistent)
        self.ledger.allocate(PERSISTENT, self.persistent_bytes)

    def gathered_bytes(self, weights: Iterable[Weight]) -> int:
        """Bytes of these parameters, whole: those that are partitioned at all."""
        return sum(
            self.itemsize_of(weight) * self.aligned(weight) for weight in weights if self.ranks_of(weight) > 1
        )


# The memory of a step of ZeRO stage 3: each rank has a shard of every parameter, gradient and optimizer
# state.
#
# `zero3_state` says what lies where between two steps. Source: deepspeed runtime/zero/stage3.py.

NORM_CHUNK = 250_000_000
"""Elements of a gradient whose norm is taken at once."""


class Stage3Engine(Stage3State):
    """`DeepSpeedZeroOptimizer_Stage3` with its parameter coordinator."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaves = self.coordinator.leaves.items()
        self.leaf_of = {weight: number for number, weights in leaves for weight in weights}
        self.leaf_grads: dict[int, dict[Weight, int]] = {}
        """Gradients of leaf modules whose backward pass is going on, in bytes."""

    def consolidate(self) -> None:
        """Gather each module, and let rank 0 copy it (`_zero3_consolidated_16bit_state_dict`)."""
        setup, ledger = self.setup, self.ledger
        if not setup.gathers_on_save or setup.ep_size:  # DeepSpeed raises for those that share experts
            return
        ledger.enter(SAVE)
        ledger.free(PERSISTENT, self.persistent_bytes)
        whole = 0
        for module in self.tape.modules:
            own = [
                weight for weight in module.weights if weight.module_number == module.number
            ]  # none that is tied
            count = self.gathered_bytes(module.weights)
            ledger.allocate(GATHERED, count)
            alone = len(module.weights) == 1  # several arrive in place (`_allgather_params_coalesced`)
            ledger.allocate_briefly(GATHERED, count if setup.quirks.gathers_into_copy and alone else 0)
            count += self._gather_tensor_parallel(module)
            made = setup.itemsize * sum(weight.numel * weight.tp_size for weight in own)
            saved = 0 if setup.rank else made
            whole += saved
            if not setup.has_separate_host:  # it is no copy
                ledger.free(GATHERED, count)
            ledger.allocate(CONSOLIDATED, saved, host=True)
            if setup.has_separate_host:
                ledger.free(GATHERED, count)
            for weight in own:
                self.coordinator.partition_secondary(weight)
        if setup.quirks.drops_secondary_after_save:
            self.coordinator.invalidate_secondary()
        self.gather_persistent()
        ledger.free(CONSOLIDATED, whole, host=True)

    def _gather_tensor_parallel(self, module: Module) -> int:
        """Bytes of a layer that ranks share (`GatherReplacedLayerParams`); columns are copied once more."""
        partition = [weight for weight in module.weights if weight.tp_size > 1]
        count = sum(self.itemsize_of(weight) * weight.numel * weight.tp_size for weight in partition)
        self.ledger.allocate(GATHERED, count)
        if module.name.endswith(ROW_PARALLEL):
            self.ledger.allocate_briefly(GATHERED, count)
        return count

    # ------------------------------------------------------------ passes
    def before_forward(self) -> None:
        """`reset_step`, which releases before 0.15.4 call as the backward pass ends."""
        coordinator = self.coordinator
        if self.setup.gradient_accumulation_steps > 1 and not coordinator.releases:
            coordinator.releases = coordinator.rehearse()
        if not self.setup.quirks.resets_count_after_backward:
            coordinator.reset()

    def enter_module(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Fetch."""
        self.coordinator.fetch(number)

    def leave_module(self, number: int, forward: bool) -> None:
        """Release; the gradients of a leaf module come when its backward pass is over, in their order."""
        if number in self.leaf_grads and not forward:
            waiting = self.leaf_grads.pop(number)
            for weight in sorted(waiting, key=lambda found: found.number):
                self._add_to_bucket(weight, waiting[weight])
        if forward or number not in self.coordinator.miscounted:
            self.coordinator.release(number)

    def set_recomputing_module(self, number: int | None) -> None:
        """What is gathered now goes with this module."""
        self.coordinator.recomputing_for = number if self.setup.quirks.releases_recomputed_params else None

    def hold_view(self, weight: Weight) -> None:
        """What is gathered now stays, though it is released."""
        self.coordinator.hold_view(weight)

    def release_view(self, weight: Weight) -> None:
        """It stays no longer."""
        self.coordinator.release_view(weight)

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """`reduce_partition_and_remove_grads`, or later `reduce_leaf_module_grads`."""
        leaf = self.leaf_of.get(weight)
        if leaf is None:
            self._add_to_bucket(weight, count)
        else:
            self.leaf_grads.setdefault(leaf, {})[weight] = count

    def _add_to_bucket(self, weight: Weight, count: int) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup = self.setup
        kind = (2 if weight.is_linear else 4) if setup.autocast else next(iter(self.buckets))
        filled = self.bucket_fill[kind] + weight.numel > setup.reduce_bucket_size
        if self.buckets[kind] and (
            filled or setup.gather_group(self.buckets[kind][-1]) != setup.gather_group(weight)
        ):
            self._reduce(kind)
        if setup.contiguous_gradients and self.bucket_fill[kind] + weight.numel <= setup.reduce_bucket_size:
            self.ledger.free(GRADIENTS, count)
        else:
            self.unbucketed_grads[weight] = count
        self.buckets[kind].append(weight)
        self.bucket_fill[kind] += weight.numel

    def _reduce(self, kind: int) -> None:
        """`__reduce_and_partition_ipg_grads`."""
        setup, ledger, weights = self.setup, self.ledger, self.buckets[kind]
        if not weights:
            return
        total, world = sum(weight.numel for weight in weights), self.ranks_of(weights[0])
        shards = sum(self.shard(weight) for weight in weights)
        if setup.quantized_gradients and world > setup.gpus_per_node > 0:
            self.reduce_quantized(kind)
            return
        whole = setup.contiguous_gradients and total <= setup.reduce_bucket_size and not setup.reduce_scatter
        sent = kind if setup.quirks.has_buckets_per_comm_dtype else setup.comm_itemsize
        casts = sent != kind or (
            setup.comm_dtype_is_other_half and not setup.quirks.has_buckets_per_comm_dtype
        )
        raises = setup.grad_accum_itemsize != sent or setup.comm_dtype_is_other_half
        name = "all_reduce" if whole else "reduce_scatter"
        self.count_collective(name, total if whole else shards * world, sent, world)
        copy = flat = 0
        if whole:
            cast = sent * total if casts else 0
            scaled = 0 if setup.gradient_postscale in (None, world) else sent * total  # `mul`, by 1 mostly
            raised = setup.grad_accum_itemsize * total if raises else 0
            copy, flat = max(cast + scaled, (scaled or cast) + raised), raised or scaled or cast
        else:
            if casts:
                copy += sent * total
            elif (
                kind != setup.itemsize or setup.comm_dtype_is_other_half
            ):  # what lies in the bucket has its type
                copy += kind * sum(weight.numel for weight in weights if weight in self.unbucketed_grads)
            if len(weights) > 1 or total % world:
                flat = sent * shards * world
                copy += flat
            if raises:
                flat = setup.grad_accum_itemsize * shards  # and not views of it
                copy += flat
            if weights[0].is_expert and self.tape.ep_size > 1:  # they are divided by the number of all ranks
                copy += sent * shards
        ledger.allocate_briefly(FLATTENED, copy)
        ledger.allocate(FLATTENED, flat)  # the shards are views of it
        self.partition_grads(weights)
        ledger.free(FLATTENED, flat)
        self.buckets[kind] = []
        if not setup.quirks.never_resets_bucket_count:
            self.bucket_fill[kind] = 0

    def partition_grads(self, weights: list[Weight]) -> None:
        """The shards of a bucket go to where the optimizer wants them (`partition_grads`)."""
        for weight in weights:
            if (
                self.setup.offloads_optimizer and self.is_boundary
            ):  # its norm, in fp64 (`_constant_buffered_norm2`)
                self.ledger.allocate_briefly(TEMPORARY, 8 * min(self.shard(weight), NORM_CHUNK))
            if weight in self.unbucketed_grads:
                self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))

    def after_backward(self) -> None:
        """The epilogue of a backward pass."""
        for kind in sorted(self.buckets):
            self._reduce(kind)
        if not self.setup.quirks.keeps_unreleased_params:
            self.coordinator.release_leftovers()
        if self.setup.quirks.resets_count_after_backward:
            self.coordinator.reset()

    # ------------------------------------------------------------ step
    def update_matrices(self) -> None:
        """What Muon does with gradients before their norm is taken (`orthogonal_shards`)."""

    def step(self) -> None:
        """One sub-group at a time, with nothing gathered."""
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
        for group in self.groups:
            if not setup.offloads_optimizer:
                for shard in group:
                    ledger.allocate_briefly(TEMPORARY, 8 * shard)
        for index, group in enumerate(self.groups):
            count, host = sum(group), self.is_offloaded(index)
            held = 0
            if not setup.offloads_optimizer:
                held = setup.master_itemsize * count
                flat = (
                    setup.grad_accum_itemsize * count
                    if len(group) > 1 and setup.grad_accum_itemsize != setup.master_itemsize
                    else 0
                )
                if len(group) == 1 and setup.grad_accum_itemsize == setup.master_itemsize:
                    held = 0
                ledger.allocate(TEMPORARY, flat + held)
                ledger.free(TEMPORARY, flat)
            self.update_group(index, count, host=host)
            ledger.free(TEMPORARY, held)
        self.coordinator.invalidate_secondary()
        self.gather_persistent()
        for weight in sorted(self.persistent, key=lambda found: found.number):
            if (ranks := self.ranks_of(weight)) > 1:
                self.count_collective("all_gather", self.aligned(weight), self.itemsize_of(weight), ranks)


# Which parameters stage 3 leaves whole, and which of a rank's shards it updates together.


def persistent_params(settings: Stage3Settings, weights: Sequence[Weight]) -> set[Weight]:
    """Small parameters that stay whole (`mark_persistent_parameters`)."""
    found: set[Weight] = set()
    total = 0
    for weight in weights:
        if (
            weight.numel + total <= settings.model_persistence_threshold
            and weight.numel <= settings.param_persistence_threshold
        ):
            found.add(weight)
            total += weight.numel
    return found


def sub_groups(settings: Stage3Settings, shards: list[int]) -> list[list[int]]:
    """`_create_fp16_sub_groups`: a group is closed once it has the size; elements of each shard."""
    if settings.sub_group_size >= sum(shards):
        return [shards]
    found: list[list[int]] = []
    group: list[int] = []
    count = 0
    for shard in shards:
        group.append(shard)
        count += shard
        if count >= settings.sub_group_size:
            found.append(group)
            group, count = [], 0
    return [*found, group] if group else found
