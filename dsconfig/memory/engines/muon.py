"""Muon with stages 0 to 3 and with `BF16_Optimizer`, and its all-gather buffers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator

from dsconfig.memory.engines.base import BUCKET, GRADIENTS, TEMPORARY
from dsconfig.memory.engines.bf16_optimizer import BF16OptimizerEngine
from dsconfig.memory.engines.param_groups import Partition, is_muon, muon_halves, muon_update_peak
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero0 import Stage0Engine
from dsconfig.memory.engines.zero3 import Stage3Engine
from dsconfig.memory.engines.zero12 import COMPACT, Stage12Engine
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.verdict import NotModelledError

# Stage 0 with Muon: every rank makes every matrix orthogonal.


class MuonStage0(Stage0Engine):
    """`MuonWithAuxAdam.step`, over gradients in fp32 and with them."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.matrices = [weight for weight in self.trainable if is_muon(weight)]
        if not setup.zero_init:
            self.matrices.sort(key=lambda weight: weight.shape, reverse=True)
        self.others = [weight for weight in self.trainable if not is_muon(weight)]

    def _state_bytes(self) -> int:
        """The momentum of matrices, and what Adam keeps of the rest."""
        rest = sum(weight.numel for weight in self.others)
        late = self.setup.quirks.has_separate_muon_adam  # without ZeRO it then is SGD
        return self.setup.optimizer.states_nbytes(rest) + (
            0 if late else self.setup.master_itemsize * (self.trainable_numel - rest)
        )

    def update(self, numel: int, largest: int, *, host: bool = False) -> None:  # noqa: ARG002
        """One matrix after the other; Python has a name for the last update up to the next."""
        made, itemsize = 0, self.setup.master_itemsize
        for weight in () if self.setup.quirks.has_separate_muon_adam else self.matrices:
            need = muon_update_peak(self.setup, weight, itemsize)
            self.ledger.allocate_briefly(TEMPORARY, made + need, host=host)
            made = itemsize * weight.numel
        self.ledger.allocate(TEMPORARY, made, host=host)
        sizes = [weight.numel for weight in self.others]
        super().update(sum(sizes), max(sizes, default=0), host=host)
        self.ledger.free(TEMPORARY, made, host=host)


# Stage 1 of bf16 with gradients in fp32, with Muon (`BF16_Optimizer._prepare_muon_updates`).


class MuonBF16Optimizer(BF16OptimizerEngine):
    """Momentum is cut as the masters are; pieces of matrices go to the ranks that have others of them."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        first = self.partitions[0]
        self.matrices: Partition | None = first if is_muon(next(iter(first.offsets))) else None
        if any(len(weight.shape) != 2 for weight in self.trainable if is_muon(weight)):
            raise NotModelledError(
                "Muon at stage 1 with gradients in fp32 and experts is not supported yet: DeepSpeed raises "
                "`BF16 Muon currently supports dense two-dimensional matrices only`"
            )

    def _state_bytes(self) -> int:
        """The momentum of a piece of the matrices, and what Adam keeps of a piece of the rest."""
        muon = self.matrices.numel if self.matrices else 0
        return (
            self.setup.optimizer.states_nbytes(self.partition.numel - muon)
            + self.setup.master_itemsize * muon
        )

    def _update(self) -> None:
        partition, setup = self.matrices, self.setup
        if partition is not None:
            received, sent, split = _exchanged(partition, setup)
            self.ledger.allocate(TEMPORARY, 4 * (received + sent))
            if split:
                self.count_collective("all_to_all", max(received, sent), 4)
            self._orthogonalise(partition)
            self.ledger.free(TEMPORARY, 4 * (received + sent))
        rest = self.partition.numel - (partition.numel if partition else 0)
        self.update(rest, rest)

    def _orthogonalise(self, partition: Partition) -> None:
        """A whole matrix at a time; Python has names for the last update and momentum up to the next."""
        ledger = self.ledger
        update = momentum = 0
        for weight in partition.weights:
            whole = 0 if partition.numel_by_weight[weight] == weight.numel else 4 * weight.numel
            ledger.allocate(TEMPORARY, whole)
            ledger.free(TEMPORARY, momentum)
            momentum = whole
            ledger.allocate_briefly(TEMPORARY, 4 * weight.numel + muon_update_peak(self.setup, weight, 4))
            ledger.free(TEMPORARY, update)
            update = 4 * weight.numel
            ledger.allocate(TEMPORARY, update)
        ledger.free(TEMPORARY, update + momentum)


def _exchanged(partition: Partition, setup: Setup) -> tuple[int, int, bool]:
    """Elements that this rank gets and gives, and whether any is split (`_build_muon_exchange_layout`)."""
    received = sum(weight.numel - part for weight, part in partition.numel_by_weight.items())
    sent, split = 0, False
    for weight, start in partition.offsets.items():
        ranks = (start + weight.numel - 1) // partition.numel - start // partition.numel + 1
        split = split or ranks > 1
        sent += (ranks - 1) * partition.numel_by_weight.get(weight, 0)
    return received, sent if split else 0, split and setup.dp_world_size > 1


# Stages 1 and 2 with Muon: two groups, of which that of the matrices is made orthogonal whole.

MAX_BUFFER_BYTES = 64 << 20
"""Bytes of what is put together at once, and of the buffer (`_muon_allgather_max_buffer_bytes`)."""


class MuonStage12(Stage12Engine):
    """`get_flat_partition`, at the end of the last backward pass, and the step that follows."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = frozenset(weight for weight in self.trainable if is_muon(weight))
        self.matrices = frozenset() if setup.quirks.has_separate_muon_adam else found
        self.own_matrices = [weight for weight in self.partition.weights if weight in found]
        """Those of which this rank has a part."""
        self.has_matrix_group = self.groups[0][0][0] in found
        """Whether the first group is that of matrices."""
        self.matrix_numel = self.groups[0][1].numel if self.has_matrix_group else 0
        """Elements of its piece of them."""
        self.gather_buffers = GatherBufferCache(ledger)
        self.update_bytes = 0
        """Bytes of what Muon has made of the gradients of matrices."""
        self.itemsize = setup.itemsize
        """Bytes of an element of a gradient of them: those in fp32 are of the rest alone."""
        self.update_itemsize = 2 if setup.quirks.has_separate_muon_adam else setup.itemsize
        """And of what Muon makes of it."""

    def state_bytes(self) -> int:
        """Adam's of its part; the momentum of whole matrices, twice: kept, and of a step that may fail."""
        rule, setup, adam = self.setup.optimizer, self.setup, self.partition.numel - self.matrix_numel
        if setup.offloads_optimizer:  # momentum is cut as the masters are
            kept = 0 if setup.quirks.has_separate_muon_adam else 4 * self.matrix_numel  # then it is SGD
            return (rule.states_nbytes(adam) + kept) * setup.master_itemsize // 4
        momentum = self.itemsize * sum(weight.numel for weight in self.own_matrices)
        return rule.states_nbytes(adam) * setup.master_itemsize // 4 + momentum * (
            1 if setup.quirks.has_separate_muon_adam else 2
        )

    def _epilogue(self) -> None:
        """Each matrix of this rank's is made orthogonal, whole."""
        added = self.new_grad_bytes if self.accumulated_grad_bytes else 0
        super()._epilogue()
        if not self.is_boundary or self.setup.offloads_optimizer:
            return
        self.ledger.allocate(GRADIENTS, added)  # those of this micro batch have names up to the end
        bucket = self.bucket_bytes if self.setup.contiguous_gradients and not self.casts_each_grad else 0
        self.ledger.allocate(BUCKET, bucket)  # let go of at the end too (`_release_ipg_buffers`)
        setup, ledger, itemsize = self.setup, self.ledger, self.itemsize
        for weight in self.own_matrices:
            ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
            ledger.allocate(GRADIENTS, self.update_itemsize * weight.numel)
            self.update_bytes += self.update_itemsize * weight.numel
        if not setup.contiguous_gradients:
            gone = sum(itemsize * weight.numel for weight in self.own_matrices)
        else:  # views of one tensor
            gone = (
                0
                if len(self.own_matrices) < len(self.partition.weights) and not self.has_compact_grads
                else self.accumulated_grad_bytes
            )
        for index, (members, partition, _) in enumerate(self.groups if self.has_compact_grads else ()):
            if index not in self.compact_grad_bytes and members[0] not in self.matrices:
                self.compact_grad_bytes[index] = 4 * partition.numel
                ledger.allocate(COMPACT, 4 * partition.numel)
        ledger.free(GRADIENTS, gone + added)
        ledger.free(BUCKET, bucket)
        self.accumulated_grad_bytes -= gone

    def step(self) -> None:
        """Offloaded, matrices are put together for it."""
        if self.setup.offloads_optimizer and not self.setup.quirks.has_separate_muon_adam:
            self._update_offloaded_matrices()
        super().step()

    def update_group(self, partition: Partition, index: int, kept: int, *, steps: bool = True) -> None:
        """Of matrices the step has but to subtract."""
        if self.has_matrix_group and index == 0:
            super().update_group(partition, index, self.update_bytes + kept, steps=False)
            self.update_bytes = 0
        else:
            super().update_group(partition, index, kept, steps=steps)

    # ------------------------------------------------------------ offload
    def allocate_at_rest(self) -> None:
        """Buffers stay from the steps before; in the first no momentum is sent."""
        super().allocate_at_rest()
        if (
            self.setup.offloads_optimizer
            and self.setup.dp_world_size > 1
            and not self.setup.quirks.has_separate_muon_adam
        ):
            for tensors in (1, 2, 2):
                for batch in self._matrix_batches():
                    self.ledger.free(GATHER_BUFFERS, self._use_buffer(batch, tensors)[0])

    def _matrix_batches(self) -> Iterator[list[Weight]]:
        """`_muon_param_batches`."""
        batch, numel = list[Weight](), 0
        for weight in self.groups[0][0] if self.matrices else ():
            if batch and numel + weight.numel > MAX_BUFFER_BYTES // 8:
                yield batch
                batch, numel = [], 0
            batch.append(weight)
            numel += weight.numel
        if batch:
            yield batch

    def _use_buffer(self, batch: list[Weight], tensors: int) -> tuple[int, int, int]:
        """Bytes of a buffer that do not stay, elements of a chunk in it, and how many of these there are."""
        world, itemsize = self.setup.dp_world_size, self.setup.master_itemsize
        most = max(_elements_by_rank(self.partition_by_weight[batch[0]][0], batch))
        chunk = min(most, max(1, MAX_BUFFER_BYTES // ((world + 1) * tensors * itemsize)))
        gone = self.gather_buffers.use((chunk, tensors), chunk * tensors * (world + 1) * itemsize)
        return gone, chunk, -(-most // chunk)

    def _update_offloaded_matrices(self) -> None:
        """`_apply_muon_updates_cpu_offload`: each rank makes all matrices orthogonal."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.master_itemsize
        for batch in self._matrix_batches():
            made = 2 * itemsize * sum(weight.numel for weight in batch)
            ledger.allocate(GATHER_BUFFERS, made)
            if setup.dp_world_size > 1:
                gone, chunk, times = self._use_buffer(batch, 2)
                ledger.free(GATHER_BUFFERS, gone)
                self.count_collective("all_gather", 2 * chunk * setup.dp_world_size, itemsize, count=times)
            update = 0
            for weight in batch:
                ledger.allocate_briefly(TEMPORARY, update + muon_update_peak(setup, weight, itemsize))
                update = itemsize * weight.numel
                ledger.allocate_briefly(
                    TEMPORARY, update + 12 * self.partition.numel_by_weight.get(weight, 0)
                )
            ledger.free(GATHER_BUFFERS, made)


def _elements_by_rank(partition: Partition, batch: list[Weight]) -> list[int]:
    """Elements of these matrices that each rank has."""
    found: dict[int, int] = {}
    for weight in batch:
        at, end = partition.offsets[weight], partition.offsets[weight] + weight.numel
        while at < end:
            to = at // partition.numel
            stop = min(end, (to + 1) * partition.numel)
            found[to] = found.get(to, 0) + stop - at
            at = stop
    return list(found.values())


# Stage 3 with Muon: matrices are put together a bucket at a time, and made orthogonal one on each rank.

UNLIMITED = 1 << 60
"""More than any bucket."""


class MuonStage3(Stage3Engine):
    """`_apply_muon_to_accumulated_grads`."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.gather_buffers = GatherBufferCache(ledger)
        matrices = next((half for half in muon_halves(setup, self.trainable) if is_muon(half[0])), [])
        self.chunks = list(self._chunks(matrices))
        """Matrices that are put together at once."""
        self.matrix_group_count = len(self.sub_groups_of(matrices)) if matrices else 0

    def _chunks(self, matrices: list[Weight]) -> Iterator[list[Weight]]:
        """Matrices of a sub-group, as many at a time as fit into the reduce bucket; all, where offloaded."""
        most = UNLIMITED if self.setup.offloads_optimizer else self.setup.reduce_bucket_size
        at = 0
        for group in self.sub_groups_of(matrices) if matrices else ():
            members, at = matrices[at : at + len(group)], at + len(group)
            chunk: list[Weight] = []
            for weight in members:
                if chunk and sum(found.numel for found in chunk) + weight.numel > most:
                    yield chunk
                    chunk = []
                chunk.append(weight)
            yield chunk

    def allocate_at_rest(self) -> None:
        """Buffers stay from the step before."""
        super().allocate_at_rest()
        if self.setup.dp_world_size > 1:
            for chunk in self.chunks * 2:
                self.ledger.free(GATHER_BUFFERS, self._use_buffer(chunk))

    def state_bytes(self, index: int, count: int) -> int:
        """Momenta have the type in which gradients are sent."""
        return (
            self.setup.comm_itemsize * count
            if index < self.matrix_group_count
            else super().state_bytes(index, count)
        )

    def states_before_first_step(self, index: int, count: int) -> int:
        """Momenta are made with the masters."""
        return self.state_bytes(index, count) if index < self.matrix_group_count else 0

    def update_group(self, index: int, count: int, *, host: bool) -> None:
        """Of matrices the step has but to subtract."""
        if index >= self.matrix_group_count:
            super().update_group(index, count, host=host)

    def _use_buffer(self, chunk: list[Weight]) -> int:
        """Bytes that do not stay of the buffer for a bucket; offloaded momenta come with the gradients."""
        setup, local = self.setup, sum(map(self.shard, chunk))
        if setup.offloads_optimizer:
            return self.gather_buffers.use(
                local, setup.grad_accum_itemsize * 2 * local * (setup.dp_world_size + 1)
            )
        return self.gather_buffers.use(local, setup.comm_itemsize * local * (setup.dp_world_size + 1))

    def _gather_parts(self, chunk: list[Weight]) -> int:
        """Put gradients or momenta together, both where they are offloaded: bytes of what is made."""
        setup, local = self.setup, sum(map(self.shard, chunk))
        itemsize, count = (
            (setup.grad_accum_itemsize, 2 * local)
            if setup.offloads_optimizer
            else (setup.comm_itemsize, local)
        )
        gone = self._use_buffer(chunk)
        made = itemsize * count * setup.dp_world_size
        self.ledger.allocate(GATHER_BUFFERS, made)
        self.ledger.free(GATHER_BUFFERS, gone)
        self.count_collective("all_gather", count * setup.dp_world_size, itemsize)
        return made

    def update_matrices(self) -> None:
        """In the step, before the norm is taken."""
        setup, ledger, left = self.setup, self.ledger, 0
        if setup.offloads_optimizer:
            self._update_offloaded_matrices()
            return
        for chunk in self.chunks:
            if setup.dp_world_size == 1:
                self._update_on_one_rank(chunk)
                continue
            gradients = self._gather_parts(chunk)
            clones = setup.comm_itemsize * sum(map(self.shard, chunk))
            ledger.allocate(TEMPORARY, clones)
            momenta = self._gather_parts(chunk)
            self._update_in_rounds(chunk)
            ledger.free(GATHER_BUFFERS, momenta + left)
            ledger.free(TEMPORARY, clones)
            left = gradients  # Python has a name for the last of them until the next are there
        ledger.free(GATHER_BUFFERS, left)

    def _update_offloaded_matrices(self) -> None:
        """`_apply_muon_updates_cpu_offload`: each rank makes all matrices of a sub-group orthogonal."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.grad_accum_itemsize
        left = made = 0
        for index, chunk in enumerate(self.chunks):
            local = sum(map(self.shard, chunk))
            copied = (setup.master_itemsize + setup.comm_itemsize) * local if self.is_offloaded(index) else 0
            ledger.rank.add(TEMPORARY, copied)  # parts that come from the host: on a CPU they are there
            if setup.dp_world_size > 1:
                both = self._gather_parts(chunk)
            else:
                both = sum(
                    itemsize * local
                    for other in (setup.master_itemsize, setup.comm_itemsize)
                    if other != itemsize
                )
                ledger.allocate(GATHER_BUFFERS, both)
            ledger.free(GATHER_BUFFERS, left)
            left = both
            for weight in chunk:
                ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
                ledger.free(TEMPORARY, made)
                made = itemsize * weight.numel
                ledger.allocate(TEMPORARY, made)
                ledger.allocate_briefly(
                    TEMPORARY, (itemsize + max(8, setup.master_itemsize + itemsize)) * self.shard(weight)
                )
            ledger.rank.add(TEMPORARY, -copied)
        ledger.free(TEMPORARY, made)
        ledger.free(GATHER_BUFFERS, left)

    def _update_on_one_rank(self, chunk: list[Weight]) -> None:
        setup = self.setup
        clones = setup.comm_itemsize * sum(weight.numel for weight in chunk)
        self.ledger.allocate(TEMPORARY, clones)
        made = 0
        for weight in chunk:
            self.ledger.allocate_briefly(
                TEMPORARY, made + muon_update_peak(setup, weight, setup.comm_itemsize)
            )
            made = setup.comm_itemsize * weight.numel
        self.ledger.free(TEMPORARY, clones)

    def _update_in_rounds(self, chunk: list[Weight]) -> None:
        """As many matrices at a time as there are ranks, one on each; those of unlike shapes are padded."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.comm_itemsize
        old = made = local = 0
        for start in range(0, len(chunk), setup.dp_world_size):
            turn = chunk[start : start + setup.dp_world_size]
            most = itemsize * max(weight.numel for weight in turn)
            even = len(turn) == setup.dp_world_size and len({weight.shape for weight in turn}) == 1
            if setup.rank < len(turn):
                weight = turn[setup.rank]
                ledger.allocate_briefly(TEMPORARY, muon_update_peak(setup, weight, itemsize))
                ledger.free(TEMPORARY, made)
                made = itemsize * weight.numel
                ledger.allocate(TEMPORARY, made)
            fresh = 0 if even else setup.dp_world_size * most
            own = 0 if even else 2 * most
            ledger.allocate(GATHER_BUFFERS, own)
            ledger.free(GATHER_BUFFERS, local)
            for _ in "gm":  # gradients, then momenta
                ledger.allocate(GATHER_BUFFERS, fresh)
                ledger.free(GATHER_BUFFERS, old)
                self.count_collective("all_gather", setup.dp_world_size * most // itemsize, itemsize)
            ledger.rank.add(
                GATHER_BUFFERS, 2 * setup.dp_world_size * most
            )  # NCCL gathers lists by one tensor more
            ledger.rank.add(GATHER_BUFFERS, -2 * setup.dp_world_size * most)
            local, old = own, fresh
        ledger.free(GATHER_BUFFERS, local + 2 * old)
        ledger.free(TEMPORARY, made)


# Buffers in which Muon's matrices are put together; up to a size they stay from step to step.

GATHER_BUFFERS = "Muon all-gather buffers"
MAX_CACHED_BYTES = 256 << 20
"""Bytes of them that stay (`_muon_allgather_max_cached_bytes`)."""


class GatherBufferCache:
    """What stays, the longest unused first."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.cached: OrderedDict[Hashable, int] = OrderedDict()

    def use(self, key: Hashable, count: int) -> int:
        """Take a buffer, or have it already: bytes of it that do not stay."""
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
