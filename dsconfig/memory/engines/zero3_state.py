"""ZeRO stage 3 after loading and at rest: shards of parameters, masters, states and gradients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsconfig.memory.engines.base import (
    BUCKET,
    BUILT,
    FLATTENED,
    GRADIENTS,
    MASTER,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
    pinned_padding,
)
from dsconfig.memory.engines.param_coordinator import GATHERED, SECONDARY, PartitionedParameterCoordinator
from dsconfig.memory.engines.param_groups import muon_halves, optimizer_groups
from dsconfig.memory.engines.setup import Setup, Stage3Settings
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.quantized_gather import sent_as_int4
from dsconfig.memory.verdict import NotModelledError

# Quantized gradients: int4 within a node, then between nodes (`zero_quantized_gradients`).


class QuantizedReduction(Engine):
    """Quantized gradient reduction of stage 3 (`zero_quantized_gradients`)."""

    buckets: dict[int, list[Weight]]
    """Gradients waiting for reduction, by itemsize of the communication dtype."""
    bucket_fill: dict[int, int]
    unbucketed_grads: dict[Weight, int]
    """Bytes of gradients outside a bucket."""

    def shard(self, weight: Weight) -> int:
        """Elements of a rank's shard (`_aligned_size`)."""
        return -(-weight.numel // self.ranks_of(weight))

    def aligned(self, weight: Weight) -> int:
        """Elements of all shards, with padding."""
        return self.shard(weight) * self.ranks_of(weight)

    def reduce_quantized(self, comm_itemsize: int) -> None:
        """Reduce a bucket gradient by gradient, as int4 (`all_to_all_quant_reduce`)."""
        setup, ledger, ranks, result_bytes = self.setup, self.ledger, self.setup.dp_world_size, 0
        for weight in self.buckets[comm_itemsize]:
            count, shard = weight.numel, self.shard(weight)
            if not sent_as_int4(weight.shape, ranks):
                self.count_collective("reduce_scatter", shard * ranks, comm_itemsize)
                ledger.allocate_briefly(FLATTENED, comm_itemsize * shard * ranks if count % ranks else 0)
            else:
                self.count_collective("all_to_all", count // 2, 1, setup.gpus_per_node)
                self.count_collective(
                    "all_to_all", count // 2 // setup.gpus_per_node, 1, ranks // setup.gpus_per_node
                )
                ledger.allocate_briefly(FLATTENED, count)
            ledger.allocate(FLATTENED, setup.grad_accum_itemsize * shard)
            result_bytes += setup.grad_accum_itemsize * shard
            if weight in self.unbucketed_grads:
                ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        ledger.free(FLATTENED, result_bytes)
        self.buckets[comm_itemsize] = []
        if not setup.quirks.bucket_count_is_never_reset:
            self.bucket_fill[comm_itemsize] = 0


# Stage 3 after loading and at rest: location of shards, masters and gradients.

PERSISTENT, OFFLOADED = "persistent parameters", "offloaded gradient partition"


class Stage3State(QuantizedReduction):
    """Memory of `DeepSpeedZeroOptimizer_Stage3` after initialization."""

    gathers = True

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        # hpZ with frozen weights or leaf modules was not measured.
        has_leaf = any(
            module.class_name in setup.leaf_classes for module in tape.modules if module.class_name
        )
        if setup.hpz_size > 1 and (has_leaf or len(self.trainable) < len(tape.weights)):
            reason = "with frozen weights or MoE leaf modules"
            raise NotModelledError(
                f"`zero_optimization.zero_hpz_partition_size` {reason} is not supported yet"
            )
        self.persistent = persistent_params(setup.stage3, tape.weights)
        self.coordinator = PartitionedParameterCoordinator(
            setup, tape, ledger, self.persistent, self.count_collective, self.ranks_of
        )
        groups = (
            muon_halves(setup, self.trainable)
            if setup.optimizer.muon_method
            else optimizer_groups(self.trainable)
        )
        if tape.tp_size > 1:
            groups = [members for group in groups for members in self._by_gather_group(group)]
        self.groups = [group for members in groups for group in self.sub_groups_of(members)]
        self.shard_bytes = sum(map(self.shard_bytes_of, tape.weights))
        self.trainable_shard_numel = sum(map(sum, self.groups))
        comm_itemsize = (
            setup.comm_itemsize if setup.quirks.stage3_has_buckets_by_comm_dtype else setup.itemsize
        )
        itemsizes = (
            {2 if weight.is_linear else 4 for weight in self.trainable} if setup.autocast else {comm_itemsize}
        )
        self.buckets = {itemsize: [] for itemsize in itemsizes}
        self.bucket_fill = dict.fromkeys(
            itemsizes, setup.reduce_bucket_size if setup.quirks.bucket_count_is_never_reset else 0
        )
        self.unbucketed_grads = {}

    @property
    def pinned_grad_buffer_bytes(self) -> int:
        """Bytes of the fp32 buffer through which offloaded gradients are copied."""
        is_used = self.setup.offloads_optimizer and self.setup.quirks.stage3_pins_gradient_buffer
        return 4 * max(map(self.shard, self.trainable), default=0) if is_used else 0

    @property
    def master_itemsize(self) -> int:
        """Bytes of a master weight; 0 if the shard itself serves as one."""
        setup = self.setup
        # stage3.py keeps an fp32 copy even of fp32 shards: its alias branch compares a `torch.device` with a
        # string.
        can_alias = setup.itemsize == 4 and not setup.offloads_optimizer and not setup.offloads_params
        return 0 if can_alias and setup.quirks.fp32_shards_are_masters else setup.master_itemsize

    def _by_gather_group(self, weights: list[Weight]) -> list[list[Weight]]:
        """Split parameters by process group (`trainable_params_by_group`)."""
        by_group: dict[tuple[bool, bool], list[Weight]] = {}
        for weight in weights:
            by_group.setdefault(self.setup.gather_group(weight), []).append(weight)
        return list(by_group.values())

    def sub_groups_of(self, members: list[Weight]) -> list[list[int]]:
        """Sub-groups of a parameter group."""
        return sub_groups(self.setup.stage3, [self.shard(weight) for weight in members])

    def itemsize_of(self, weight: Weight) -> int:
        """Bytes per element of a parameter; adapters may be in fp32."""
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def shard_bytes_of(self, weight: Weight) -> int:
        """Bytes of a parameter's shard."""
        return self.itemsize_of(weight) * self.shard(weight)

    def is_offloaded(self, index: int) -> bool:
        """Whether a sub-group is offloaded (`subgroup_to_device`)."""
        return self.setup.offloads_optimizer and index >= int(
            (1 - self.setup.offload_ratio) * len(self.groups)
        )

    def state_bytes(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of the optimizer states of a sub-group."""
        return self.setup.optimizer.states_nbytes(count) * self.setup.master_itemsize // 4

    def offloaded_grad_bytes(self, count: int) -> int:
        """Bytes of the gradients of `count` offloaded masters."""
        return self.setup.master_itemsize * count

    def states_before_first_step(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of states that exist before the first step."""
        return self.setup.optimizer.state_bytes * count if self.setup.optimizer.allocates_states_early else 0

    # ------------------------------------------------------------ NVMe (see `zero3_offload`)
    def is_swapped(self, index: int) -> bool:  # noqa: ARG002
        """Whether masters and states of a sub-group are on NVMe; never in this class."""
        return False

    def create_param_buffers(self) -> None:
        """Create the buffers for parameters on NVMe; none in this class."""

    def allocate_param_buffers(self) -> None:
        """Allocate the buffers for parameters on NVMe; none in this class."""

    def allocate_optimizer_buffers(self) -> None:
        """Allocate the buffers for masters, states and gradients on NVMe; none in this class."""

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """Update a sub-group of `count` elements; torch's Adam updates what `ratio` leaves on the rank."""
        self.update(count, count, host=host)
        setup = self.setup
        if setup.offloads_optimizer and not host and setup.optimizer.is_fused_adam:  # `backup_optimizer`
            self.ledger.allocate_briefly(TEMPORARY, (4 if setup.has_separate_host else 8) * count)

    def swap_out_masters(self, index: int, count: int) -> None:
        """Write `count` bytes of masters to NVMe; nothing in this class."""

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """Partition the parameters, create masters group by group, then gather each parameter once."""
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
            on_host, count = self.is_offloaded(index), self.master_itemsize * sum(group)
            if self.is_swapped(index):
                self.swap_out_masters(index, count)
                continue
            # `_create_fp32_partitions`: `.to(fp32)` and `.clone()` hold two fp32 copies of a sub-group at
            # once.
            ledger.allocate_briefly(MASTER, 2 * count, host=on_host)
            ledger.allocate(MASTER, count, host=on_host)
            ledger.allocate(STATES, self.states_before_first_step(index, sum(group)), host=on_host)
        largest = max(map(sum, self.groups), default=0)
        ledger.allocate(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        if setup.offloads_optimizer:  # next to one gradient buffer of the largest sub-group
            for index, group in enumerate(self.groups):
                if not self.is_swapped(index):
                    ledger.allocate(
                        OFFLOADED, self.offloaded_grad_bytes(sum(group)), host=self.is_offloaded(index)
                    )
        ledger.free(TEMPORARY, setup.master_itemsize * largest, host=setup.offloads_optimizer)
        self._allocate_gradients()
        # Initialization ends with a gather of each parameter (measured).
        largest_param = max(map(self.aligned, self.trainable), default=0)
        ledger.allocate_briefly(
            GATHERED,
            setup.itemsize * largest_param * (2 if setup.quirks.single_param_is_gathered_into_copy else 1),
        )

    def initial_location(self, weight: Weight) -> bool | None:
        """Location of a new shard: True for the host, False for the rank, None for NVMe."""
        return self.setup.offloads_params and weight not in self.persistent

    def _allocate_shard(self, weight: Weight, factor: int = 1) -> None:
        on_host = self.initial_location(weight)
        if on_host is not None:
            self.ledger.allocate(WEIGHTS, factor * self.shard_bytes_of(weight), host=on_host)

    def _allocate_secondary(self, weight: Weight) -> None:
        """Allocate the secondary partition of a parameter (`_partition_param_sec`)."""
        setup = self.setup
        if setup.hpz_size > 1:
            count = setup.itemsize * self.aligned(weight) // setup.hpz_size
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    def _partition_params(self) -> None:
        """Partition the parameters one by one (`_convert_to_zero_parameters`)."""
        for weight in self.tape.weights:
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
            self.ledger.free(WEIGHTS, self.setup.itemsize * weight.numel)

    def _move_shards(self) -> None:
        """Move all shards through a host buffer (`defragment`), or to it if they are offloaded."""
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
        """Allocate the offloaded shards."""
        self.ledger.allocate(WEIGHTS, self.shard_bytes, host=True)

    def _build_with_zero_init(self) -> None:
        """Build the model with `zero.Init`: each module's parameters are whole until they are partitioned."""
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
        self._build_untied(cast_itemsize)
        self._keep_untied_secondary()
        for weight in self.trainable if self.tape.adapter else ():  # PEFT creates adapters last, on the host
            self._allocate_shard(weight)
            self._allocate_secondary(weight)
        self._apply_autotp()

    def _build_untied(self, cast_itemsize: int) -> None:
        """Build and partition a head before it is tied to the embeddings."""
        setup, untied, on_host = self.setup, self.tape.untied_numel, self.setup.offloads_params
        self.ledger.allocate_briefly(BUILT, cast_itemsize * untied)
        self.ledger.allocate(BUILT, setup.itemsize * untied)
        self.ledger.allocate_briefly(
            SECONDARY, setup.itemsize * self._untied_shard_numel(untied), host=on_host
        )
        self.ledger.free(BUILT, setup.itemsize * untied)

    def _untied_shard_numel(self, untied: int) -> int:
        """Elements of the shard of such a head, and of its secondary partition."""
        secondary = self.setup.hpz_size
        return -(-untied // self.setup.dp_world_size) + (untied // secondary if secondary > 1 else 0)

    def _keep_untied_secondary(self) -> None:
        """Keep shard and secondary partition of a head that was tied later."""
        setup, untied = self.setup, self.tape.untied_numel
        if (
            untied
            and setup.zero_init
            and setup.hpz_size > 1
            and setup.quirks.secondary_partition_of_tied_head_stays
        ):
            count = setup.itemsize * self._untied_shard_numel(untied)
            self.ledger.allocate(SECONDARY, count, host=setup.offloads_params)

    def _apply_autotp(self) -> None:
        """Gather, copy and shard linear layers (`_gather_zero3_params`), then partition them again."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        sharded = [weight for weight in self.tape.weights if weight.tp_size > 1]
        for weight in sharded:
            ledger.allocate_briefly(GATHERED, 2 * itemsize * weight.numel * weight.tp_size)
            ledger.allocate(WEIGHTS, itemsize * weight.numel)
        for weight in sharded:
            ledger.allocate_briefly(WEIGHTS, self.shard_bytes_of(weight))
            ledger.free(WEIGHTS, itemsize * weight.numel)

    # ------------------------------------------------------------ at rest
    def allocate_at_rest(self) -> None:
        """Allocate shards of weights, masters, states and gradients, the bucket, and persistent parameters."""
        setup, ledger = self.setup, self.ledger
        self.allocate_param_buffers()
        if setup.offloads_params:
            self.allocate_shards()
        else:
            ledger.allocate(WEIGHTS, self.shard_bytes)
        self.allocate_optimizer_buffers()
        for index, group in enumerate(self.groups):
            on_host, count = self.is_offloaded(index), sum(group)
            if self.is_swapped(index):
                continue
            ledger.allocate(MASTER, self.master_itemsize * count, host=on_host)
            ledger.allocate(STATES, self.state_bytes(index, count), host=on_host)
            if setup.offloads_optimizer:
                ledger.allocate(OFFLOADED, self.offloaded_grad_bytes(count), host=on_host)
        self._keep_untied_secondary()
        if not setup.zero_init:
            ledger.allocate(STATES, self.construction_state_bytes)
        self._allocate_gradients()
        self.gather_persistent()

    def _allocate_gradients(self) -> None:
        """Allocate the flat gradients and the reduce buckets, which stay for the whole run."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            GRADIENTS, setup.grad_accum_itemsize * self.trainable_shard_numel, host=setup.offloads_optimizer
        )
        ledger.allocate(OFFLOADED, self.pinned_grad_buffer_bytes, host=True)
        if setup.contiguous_gradients:
            for itemsize in self.buckets:
                ledger.allocate(BUCKET, itemsize * setup.reduce_bucket_size)

    def pinned_padding(self) -> int:
        """Padding of pinned gradients and flat shards; the latter are pinned in any case."""
        setup, blocks = self.setup, [self.pinned_grad_buffer_bytes]
        if setup.offloads_optimizer and setup.pins_optimizer:
            in_memory = (index for index in range(len(self.groups)) if not self.is_swapped(index))
            blocks += [
                setup.master_itemsize * sum(self.groups[index])
                for index in in_memory
                if self.is_offloaded(index)
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

    @property
    def flat_numel(self) -> int:
        """Elements of the shards in one host block (`param_groups_fp16_flat_cpu_memory`)."""
        return self.trainable_shard_numel

    def gather_persistent(self) -> None:
        """Gather the persistent parameters, which stay whole between steps."""
        self.persistent_bytes = self.gathered_bytes(self.persistent)
        self.ledger.allocate(PERSISTENT, self.persistent_bytes)

    def gathered_bytes(self, weights: Iterable[Weight]) -> int:
        """Bytes of these parameters when gathered, without those that are not partitioned."""
        return sum(
            self.itemsize_of(weight) * self.aligned(weight) for weight in weights if self.ranks_of(weight) > 1
        )


# Persistent parameters, and sub-groups of shards.


def persistent_params(settings: Stage3Settings, weights: Sequence[Weight]) -> set[Weight]:
    """Small parameters that stay gathered (`mark_persistent_parameters`)."""
    persistent: set[Weight] = set()
    total = 0
    for weight in weights:
        if (
            weight.numel + total <= settings.model_persistence_threshold
            and weight.numel <= settings.param_persistence_threshold
        ):
            persistent.add(weight)
            total += weight.numel
    return persistent


def sub_groups(settings: Stage3Settings, shards: list[int]) -> list[list[int]]:
    """Split shards into sub-groups, each closed once it reaches the size (`_create_fp16_sub_groups`)."""
    if settings.sub_group_size >= sum(shards):
        return [shards]
    groups: list[list[int]] = []
    group: list[int] = []
    count = 0
    for shard in shards:
        group.append(shard)
        count += shard
        if count >= settings.sub_group_size:
            groups.append(group)
            group, count = [], 0
    return [*groups, group] if group else groups
