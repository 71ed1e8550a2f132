"""The Muon optimizer at stages 0 to 3 and with `BF16_Optimizer`, including its all-gather buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.base_engine import BUCKET, GRADIENTS, TEMPORARY, Feature
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.fp16_bf16_optimizers import BF16Optimizer, FP16Optimizer
from dsconfig.memory.engines.param_groups import (
    FlatPartition,
    is_muon,
    muon_parameter_groups,
    muon_update_peak,
)
from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3
from dsconfig.memory.engines.stage_1_and_2 import COMPACT, DeepSpeedZeroOptimizer
from dsconfig.memory.memory_ledger import MemoryLedger

# Stage 0.


class MuonStage0(Feature):
    """Muon at stage 0, where every rank updates every matrix (`MuonWithAuxAdam.step`)."""

    engine: FP16Optimizer

    def __init__(self, engine: FP16Optimizer) -> None:
        super().__init__(engine)
        self.matrices = [weight for weight in engine.trainable if is_muon(weight)]
        if not self.setup.zero_init:
            self.matrices.sort(key=lambda weight: weight.shape, reverse=True)
        self.others = [weight for weight in engine.trainable if not is_muon(weight)]

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of the matrices' momentum and of Adam's states for the other parameters."""
        adam_numel = sum(weight.numel for weight in self.others)
        is_sgd = self.setup.quirks.muon_has_its_own_adam  # without ZeRO these releases fall back to SGD
        return self.setup.optimizer.states_nbytes(adam_numel) + (
            0 if is_sgd else self.setup.master_itemsize * (numel - adam_numel)
        )

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Update the matrices one by one; each result stays referenced until the next one is ready."""
        update_bytes, itemsize = 0, self.setup.master_itemsize
        for weight in () if self.setup.quirks.muon_has_its_own_adam else self.matrices:
            peak = muon_update_peak(self.setup, weight, itemsize)
            self.ledger.allocate_briefly(TEMPORARY, update_bytes + peak, host=host)
            update_bytes = itemsize * weight.numel
        self.ledger.allocate(TEMPORARY, update_bytes, host=host)
        sizes = [weight.numel for weight in self.others]
        self.engine.update(sum(sizes), max(sizes, default=0), host=host)
        self.ledger.free(TEMPORARY, update_bytes, host=host)
        return True


# Stage 1 with fp32 gradients (`BF16_Optimizer._prepare_muon_updates`).


class MuonBF16(Feature):
    """Muon with `BF16_Optimizer`, which partitions the momentum and rebuilds whole matrices with an all-to-all."""

    engine: BF16Optimizer

    def __init__(self, engine: BF16Optimizer) -> None:
        super().__init__(engine)
        partition = engine.partitions[0]
        self.matrices: FlatPartition | None = partition if is_muon(next(iter(partition.offsets))) else None

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of this rank's momentum and of Adam's states for its share of the other parameters."""
        muon_numel = self.matrices.numel if self.matrices else 0
        return (
            self.setup.optimizer.states_nbytes(numel - muon_numel) + self.setup.master_itemsize * muon_numel
        )

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Rebuild this rank's matrices with an all-to-all, and update them."""
        partition = self.matrices
        if partition is None or group:
            return False
        received, sent, split = _exchange_numels(partition, self.setup)
        self.ledger.allocate(TEMPORARY, 4 * (received + sent))
        if split:
            self.engine.count_collective("all_to_all", max(received, sent), 4)
        self._update_matrices(partition)
        self.ledger.free(TEMPORARY, 4 * (received + sent))
        return True

    def _update_matrices(self, partition: FlatPartition) -> None:
        """Update the matrices one by one; each update and momentum stays referenced until the next one is ready."""
        ledger = self.ledger
        update = momentum = 0
        for weight in partition.weights:
            gathered_bytes = 0 if partition.numel_by_weight[weight] == weight.numel else 4 * weight.numel
            ledger.allocate(TEMPORARY, gathered_bytes)
            ledger.free(TEMPORARY, momentum)
            momentum = gathered_bytes
            ledger.allocate_briefly(TEMPORARY, 4 * weight.numel + muon_update_peak(self.setup, weight, 4))
            ledger.free(TEMPORARY, update)
            update = 4 * weight.numel
            ledger.allocate(TEMPORARY, update)
        ledger.free(TEMPORARY, update + momentum)


def _exchange_numels(partition: FlatPartition, setup: EngineSetup) -> tuple[int, int, bool]:
    """Return how many elements are received and sent, and whether any matrix is split across ranks."""
    received = sum(weight.numel - part for weight, part in partition.numel_by_weight.items())
    sent, is_split = 0, False
    for weight, start in partition.offsets.items():
        ranks = (start + weight.numel - 1) // partition.numel - start // partition.numel + 1
        is_split = is_split or ranks > 1
        sent += (ranks - 1) * partition.numel_by_weight.get(weight, 0)
    return received, sent if is_split else 0, is_split and setup.dp_world_size > 1


# Stages 1 and 2: two groups, matrices and the rest.

MAX_BUFFER_BYTES = 64 << 20
"""Size limit in bytes for a batch of matrices and for its buffer (`_muon_allgather_max_buffer_bytes`)."""


class MuonStage12(Feature):
    """Muon at stages 1 and 2, where `get_flat_partition` updates whole matrices after the last backward pass."""

    engine: DeepSpeedZeroOptimizer

    def __init__(self, engine: DeepSpeedZeroOptimizer) -> None:
        super().__init__(engine)
        setup = self.setup
        matrices = frozenset(weight for weight in engine.trainable if is_muon(weight))
        engine.whole_grads = frozenset() if setup.quirks.muon_has_its_own_adam else matrices
        self.own_matrices = [weight for weight in engine.partition.weights if weight in matrices]
        """Matrices that overlap with this rank's partition."""
        self.has_matrix_group = engine.groups[0][0][0] in matrices
        """Whether the first group holds matrices."""
        self.matrix_numel = engine.groups[0][1].numel if self.has_matrix_group else 0
        """Number of matrix elements in this rank's partition."""
        self.gather_buffers = GatherBufferCache(self.ledger)
        self.itemsize = setup.itemsize
        """Bytes per element of a matrix gradient; only the other parameters have fp32 gradients."""
        self.update_itemsize = 2 if setup.quirks.muon_has_its_own_adam else setup.itemsize
        """Bytes per element of a matrix update."""

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of Adam's states and of two momenta per matrix, one of them for skipped steps."""
        rule, setup, adam_numel = self.setup.optimizer, self.setup, numel - self.matrix_numel
        if setup.offloads_optimizer:  # momentum is partitioned like the masters
            # These releases fall back to SGD.
            momentum = 0 if setup.quirks.muon_has_its_own_adam else 4 * self.matrix_numel
            return (rule.states_nbytes(adam_numel) + momentum) * setup.master_itemsize // 4
        # A step can be skipped on overflow, so DeepSpeed keeps the previous momentum until the update
        # succeeds.
        momentum = self.itemsize * sum(weight.numel for weight in self.own_matrices)
        return rule.states_nbytes(adam_numel) * setup.master_itemsize // 4 + momentum * (
            1 if setup.quirks.muon_has_its_own_adam else 2
        )

    def after_backward(self) -> None:
        """Update the matrices that overlap this rank's partition, at the gradient accumulation boundary."""
        engine, setup, ledger, itemsize = self.engine, self.setup, self.ledger, self.itemsize
        if not engine.is_boundary or setup.offloads_optimizer:
            return
        # This micro batch's gradients stay referenced until the end, and so does the bucket (`_release_ipg_buffers`).
        added = engine.added_grad_bytes
        ledger.allocate(GRADIENTS, added)
        bucket = engine.bucket_bytes if setup.contiguous_gradients and not engine.casts_each_grad else 0
        ledger.allocate(BUCKET, bucket)
        updates = 0
        for weight in self.own_matrices:
            ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
            ledger.allocate(GRADIENTS, self.update_itemsize * weight.numel)
            updates += self.update_itemsize * weight.numel
        if self.has_matrix_group:  # freed with the gradients of the group
            engine.update_bytes[0] = updates
        if not setup.contiguous_gradients:
            freed_bytes = sum(itemsize * weight.numel for weight in self.own_matrices)
        elif len(self.own_matrices) < len(engine.partition.weights) and not engine.has_compact_grads:
            freed_bytes = 0  # views of one tensor, which stays as long as any of them is used
        else:
            freed_bytes = engine.accumulated_grad_bytes
        for index, (members, partition, _) in enumerate(engine.groups if engine.has_compact_grads else ()):
            if index not in engine.compact_grad_bytes and members[0] not in engine.whole_grads:
                engine.compact_grad_bytes[index] = 4 * partition.numel
                ledger.allocate(COMPACT, 4 * partition.numel)
        ledger.free(GRADIENTS, freed_bytes + added)
        ledger.free(BUCKET, bucket)
        engine.accumulated_grad_bytes -= freed_bytes

    def before_norm(self) -> None:
        """Gather and update the matrices if the optimizer is offloaded."""
        if self.setup.offloads_optimizer and not self.setup.quirks.muon_has_its_own_adam:
            self._update_offloaded_matrices()

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Subtract the matrix updates, which were computed before."""
        return self.has_matrix_group and group == 0

    # ------------------------------------------------------------ offload
    def allocate_at_rest(self) -> None:
        """Allocate the cached gather buffers; no momentum is gathered in the first step."""
        if (
            self.setup.offloads_optimizer
            and self.setup.dp_world_size > 1
            and not self.setup.quirks.muon_has_its_own_adam
        ):
            for tensors in (1, 2, 2):
                for batch in self._matrix_batches():
                    self.ledger.free(GATHER_BUFFERS, self._use_buffer(batch, tensors)[0])

    def _matrix_batches(self) -> Iterator[list[ModelParameter]]:
        """Yield batches of matrices that are gathered together (`_muon_param_batches`)."""
        batch, numel = list[ModelParameter](), 0
        for weight in self.engine.groups[0][0] if self.engine.whole_grads else ():
            if batch and numel + weight.numel > MAX_BUFFER_BYTES // 8:
                yield batch
                batch, numel = [], 0
            batch.append(weight)
            numel += weight.numel
        if batch:
            yield batch

    def _use_buffer(self, batch: list[ModelParameter], tensors: int) -> tuple[int, int, int]:
        """Take a buffer, and return the bytes it adds to the cache, the numel per chunk, and the number of chunks."""
        world, itemsize = self.setup.dp_world_size, self.setup.master_itemsize
        max_numel = max(_numel_by_rank(self.engine.partition_by_weight[batch[0]][0], batch))
        chunk = min(max_numel, max(1, MAX_BUFFER_BYTES // ((world + 1) * tensors * itemsize)))
        uncached = self.gather_buffers.use((chunk, tensors), chunk * tensors * (world + 1) * itemsize)
        return uncached, chunk, -(-max_numel // chunk)

    def _update_offloaded_matrices(self) -> None:
        """Gather and update all matrices on every rank (`_apply_muon_updates_cpu_offload`)."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.master_itemsize
        for batch in self._matrix_batches():
            gathered_bytes = 2 * itemsize * sum(weight.numel for weight in batch)
            ledger.allocate(GATHER_BUFFERS, gathered_bytes)
            if setup.dp_world_size > 1:
                uncached, chunk, num_chunks = self._use_buffer(batch, 2)
                ledger.free(GATHER_BUFFERS, uncached)
                self.engine.count_collective(
                    "all_gather", 2 * chunk * setup.dp_world_size, itemsize, count=num_chunks
                )
            update = 0
            for weight in batch:
                ledger.allocate_briefly(TEMPORARY, update + muon_update_peak(setup, weight, itemsize))
                update = itemsize * weight.numel
                ledger.allocate_briefly(
                    TEMPORARY, update + 12 * self.engine.partition.numel_by_weight.get(weight, 0)
                )
            ledger.free(GATHER_BUFFERS, gathered_bytes)


def _numel_by_rank(partition: FlatPartition, batch: list[ModelParameter]) -> list[int]:
    """Return the number of matrix elements that each rank holds."""
    numel_by_rank: dict[int, int] = {}
    for weight in batch:
        offset, end = partition.offsets[weight], partition.offsets[weight] + weight.numel
        while offset < end:
            owner = offset // partition.numel
            stop = min(end, (owner + 1) * partition.numel)
            numel_by_rank[owner] = numel_by_rank.get(owner, 0) + stop - offset
            offset = stop
    return list(numel_by_rank.values())


# Stage 3.

UNLIMITED = 1 << 60
"""Bucket size that is larger than any real bucket."""


class MuonStage3(Feature):
    """Muon at stage 3: matrices are gathered bucket by bucket, and each rank updates one at a time."""

    engine: DeepSpeedZeroOptimizerStage3

    def __init__(self, engine: DeepSpeedZeroOptimizerStage3) -> None:
        super().__init__(engine)
        self.gather_buffers = GatherBufferCache(self.ledger)
        halves = muon_parameter_groups(self.setup, engine.trainable)
        matrices = next((group for group in halves if is_muon(group[0])), [])
        self.chunks = list(self._matrix_chunks(matrices))
        """Chunks of matrices that are gathered together."""
        self.matrix_group_count = len(engine.sub_groups_of(matrices)) if matrices else 0

    def _matrix_chunks(self, matrices: list[ModelParameter]) -> Iterator[list[ModelParameter]]:
        """Yield chunks of a sub-group's matrices that fit the reduce bucket, or all of them if offloaded."""
        max_numel = UNLIMITED if self.setup.offloads_optimizer else self.setup.reduce_bucket_size
        start = 0
        for group in self.engine.sub_groups_of(matrices) if matrices else ():
            members, start = matrices[start : start + len(group)], start + len(group)
            chunk: list[ModelParameter] = []
            for weight in members:
                if chunk and sum(member.numel for member in chunk) + weight.numel > max_numel:
                    yield chunk
                    chunk = []
                chunk.append(weight)
            yield chunk

    def allocate_at_rest(self) -> None:
        """Allocate the cached gather buffers."""
        if self.setup.dp_world_size > 1:
            for chunk in self.chunks * 2:
                self.ledger.free(GATHER_BUFFERS, self._use_buffer(chunk))

    def state_bytes(self, group: int, numel: int, default: int) -> int:
        """Return the bytes of a group's states; momenta are in the communication dtype."""
        return self.setup.comm_itemsize * numel if group < self.matrix_group_count else default

    def creates_states_with_masters(self, group: int) -> bool:
        """Return whether a group's states are created with the master weights, as momenta are."""
        return group < self.matrix_group_count

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Subtract the matrix updates, which were computed before."""
        return group < self.matrix_group_count

    def _use_buffer(self, chunk: list[ModelParameter]) -> int:
        """Take a buffer for a chunk from the cache, and return the bytes that it adds to the cache.

        Offloaded momenta share the buffer with the gradients.
        """
        setup, local_numel = self.setup, sum(map(self.engine.shard_numel, chunk))
        if setup.offloads_optimizer:
            return self.gather_buffers.use(
                local_numel, setup.grad_accum_itemsize * 2 * local_numel * (setup.dp_world_size + 1)
            )
        return self.gather_buffers.use(
            local_numel, setup.comm_itemsize * local_numel * (setup.dp_world_size + 1)
        )

    def _gather_parts(self, chunk: list[ModelParameter]) -> int:
        """Gather gradients, momenta, or both if offloaded, and return the bytes of the result."""
        setup, local_numel = self.setup, sum(map(self.engine.shard_numel, chunk))
        itemsize, count = (
            (setup.grad_accum_itemsize, 2 * local_numel)
            if setup.offloads_optimizer
            else (setup.comm_itemsize, local_numel)
        )
        uncached = self._use_buffer(chunk)
        gathered_bytes = itemsize * count * setup.dp_world_size
        self.ledger.allocate(GATHER_BUFFERS, gathered_bytes)
        self.ledger.free(GATHER_BUFFERS, uncached)
        self.engine.count_collective("all_gather", count * setup.dp_world_size, itemsize)
        return gathered_bytes

    def before_norm(self) -> None:
        """Update the matrices before the norm is computed (`_apply_muon_to_accumulated_grads`)."""
        setup, ledger, previous = self.setup, self.ledger, 0
        if setup.offloads_optimizer:
            self._update_offloaded_matrices()
            return
        for chunk in self.chunks:
            if setup.dp_world_size == 1:
                self._update_on_one_rank(chunk)
                continue
            gradients = self._gather_parts(chunk)
            clones = setup.comm_itemsize * sum(map(self.engine.shard_numel, chunk))
            ledger.allocate(TEMPORARY, clones)
            momenta = self._gather_parts(chunk)
            self._update_in_rounds(chunk)
            ledger.free(GATHER_BUFFERS, momenta + previous)
            ledger.free(TEMPORARY, clones)
            previous = gradients  # the last result stays referenced until the next is ready
        ledger.free(GATHER_BUFFERS, previous)

    def _update_offloaded_matrices(self) -> None:
        """Update all matrices of a sub-group on each rank (`_apply_muon_updates_cpu_offload`)."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.grad_accum_itemsize
        previous = update_bytes = 0
        for index, chunk in enumerate(self.chunks):
            local_numel = sum(map(self.engine.shard_numel, chunk))
            copied = (
                (setup.master_itemsize + setup.comm_itemsize) * local_numel
                if self.engine.is_offloaded(index)
                else 0
            )
            ledger.rank.add(TEMPORARY, copied)  # copies from the host, which a CPU engine does not need
            if setup.dp_world_size > 1:
                gathered = self._gather_parts(chunk)
            else:
                gathered = sum(
                    itemsize * local_numel
                    for other in (setup.master_itemsize, setup.comm_itemsize)
                    if other != itemsize
                )
                ledger.allocate(GATHER_BUFFERS, gathered)
            ledger.free(GATHER_BUFFERS, previous)
            previous = gathered
            for weight in chunk:
                ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
                ledger.free(TEMPORARY, update_bytes)
                update_bytes = itemsize * weight.numel
                ledger.allocate(TEMPORARY, update_bytes)
                ledger.allocate_briefly(
                    TEMPORARY,
                    (itemsize + max(8, setup.master_itemsize + itemsize)) * self.engine.shard_numel(weight),
                )
            ledger.rank.add(TEMPORARY, -copied)
        ledger.free(TEMPORARY, update_bytes)
        ledger.free(GATHER_BUFFERS, previous)

    def _update_on_one_rank(self, chunk: list[ModelParameter]) -> None:
        setup = self.setup
        clones = setup.comm_itemsize * sum(weight.numel for weight in chunk)
        self.ledger.allocate(TEMPORARY, clones)
        update_bytes = 0
        for weight in chunk:
            self.ledger.allocate_briefly(
                TEMPORARY, update_bytes + muon_update_peak(setup, weight, setup.comm_itemsize)
            )
            update_bytes = setup.comm_itemsize * weight.numel
        self.ledger.free(TEMPORARY, clones)

    def _update_in_rounds(self, chunk: list[ModelParameter]) -> None:
        """Update one matrix per rank in each round, padding matrices of different shapes."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.comm_itemsize
        previous = update_bytes = previous_padded = 0
        for start in range(0, len(chunk), setup.dp_world_size):
            members = chunk[start : start + setup.dp_world_size]
            block = itemsize * max(weight.numel for weight in members)
            is_even = len(members) == setup.dp_world_size and len({weight.shape for weight in members}) == 1
            if setup.rank < len(members):
                weight = members[setup.rank]
                ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
                ledger.free(TEMPORARY, update_bytes)
                update_bytes = itemsize * weight.numel
                ledger.allocate(TEMPORARY, update_bytes)
            gathered = 0 if is_even else setup.dp_world_size * block
            padded = 0 if is_even else 2 * block
            ledger.allocate(GATHER_BUFFERS, padded)
            ledger.free(GATHER_BUFFERS, previous_padded)
            for _ in "gm":  # gradients, then momenta
                ledger.allocate(GATHER_BUFFERS, gathered)
                ledger.free(GATHER_BUFFERS, previous)
                self.engine.count_collective("all_gather", setup.dp_world_size * block // itemsize, itemsize)
            # NCCL gathers a list through one more tensor.
            ledger.rank.add(GATHER_BUFFERS, 2 * setup.dp_world_size * block)
            ledger.rank.add(GATHER_BUFFERS, -2 * setup.dp_world_size * block)
            previous_padded, previous = padded, gathered
        ledger.free(GATHER_BUFFERS, previous_padded + 2 * previous)
        ledger.free(TEMPORARY, update_bytes)


def muon_feature(setup: EngineSetup) -> type[Feature]:
    """Return the class that simulates Muon in a setup's engine."""
    if setup.stage == 3:
        return MuonStage3
    if setup.uses_bf16_optimizer:
        return MuonBF16
    return MuonStage0 if setup.is_unsharded else MuonStage12


# Gather buffers, cached between steps up to a limit.

GATHER_BUFFERS = "Muon all-gather buffers"
MAX_CACHED_BYTES = 256 << 20
"""Largest total size in bytes of buffers cached between steps (`_muon_allgather_max_cached_bytes`)."""


class GatherBufferCache:
    """Cache of gather buffers that evicts the least recently used one."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.cached: OrderedDict[Hashable, int] = OrderedDict()

    def use(self, key: Hashable, count: int) -> int:
        """Take a buffer from the cache, or allocate one, and return the bytes that were allocated."""
        if key in self.cached:
            self.cached.move_to_end(key)
            return 0
        if count > MAX_CACHED_BYTES:
            self.ledger.allocate(GATHER_BUFFERS, count)
            return count
        while self.cached and sum(self.cached.values()) + count > MAX_CACHED_BYTES:
            self.ledger.free(GATHER_BUFFERS, self.cached.popitem(last=False)[1])
        self.cached[key] = count
        self.ledger.allocate(GATHER_BUFFERS, count)
        return 0
