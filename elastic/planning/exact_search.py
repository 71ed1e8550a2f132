"""`search`: find the optimal batch size by counting the world sizes of every batch up to the cap."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress, islice

from elastic.deepspeed.release_behavior import LATEST, ElasticitySemantics
from elastic.divisors import divisors_up_to, drop_multiples
from elastic.errors import ElasticityConfigError
from elastic.json_files import Json
from elastic.planning.plan import LARGEST_COUNT, ElasticityBlock, Plan, make_rows, plan, read_block


@dataclass(frozen=True, slots=True)
class BatchSearchResult:
    """The batch that admits the most of the requested world sizes, and the heuristic's choice."""

    exact: Plan
    """Optimal plan; its rows are the wanted sizes that it admits."""
    heuristic: Plan | None
    """Plan of the heuristic, limited to the wanted sizes, or `None` if the heuristic finds no plan."""
    wanted: tuple[int, ...]
    """Data-parallel world sizes that the search tries to admit, ascending."""
    ties: int
    """Number of batch sizes that admit the maximum number of wanted world sizes, including the chosen one."""

    @property
    def lost(self) -> int:
        """How many more world sizes the optimal batch admits than the heuristic's batch."""
        return len(self.exact.rows) - (len(self.heuristic.rows) if self.heuristic else 0)

    @property
    def missed(self) -> tuple[int, ...]:
        """World sizes that the optimal batch admits but the heuristic's batch does not."""
        admitted = set(self.heuristic.world_sizes) if self.heuristic else set()
        return tuple(size for size in self.exact.world_sizes if size not in admitted)


def search(
    config: Mapping[str, Json],
    world_sizes: Iterable[int] | None = None,
    *,
    semantics: ElasticitySemantics = LATEST,
) -> BatchSearchResult:
    """Find the batch up to the cap that admits the most of `world_sizes`; `prefer_larger_batch` breaks ties.

    `world_sizes` are data-parallel sizes, by default all of them between `min_gpus` and `max_gpus` (only whole nodes in
    v0.2). `semantics` applies to the heuristic. Raises `ElasticityConfigError`, which names the key, for an invalid
    block, a cap that is too large to search, or if no batch admits any of the sizes.
    """
    block = read_block(config, semantics)
    _require_countable(block.max_train_batch_size)
    sizes = _data_parallel_sizes_in_range(block) if world_sizes is None else _checked_world_sizes(world_sizes)
    batch, ties = _best_batch(block, sizes)
    admitted = [size for size in sizes if _admits_world_size(block, batch, size)]
    exact = Plan(block, batch, make_rows(block, batch, admitted), semantics)
    return BatchSearchResult(exact, _heuristic_plan(config, sizes, semantics), tuple(sizes), ties)


def keeping_batch(
    batch_size: int,
    micro_batch_sizes: Sequence[int] | None = None,
    *,
    min_world_size: int = 1,
    max_world_size: int = 10000,
) -> dict[int, tuple[int, ...]]:
    """Return the world sizes for which a fixed global batch is possible, each with its micro batches.

    Micro batches, in samples and in ascending order, are those in `micro_batch_sizes`, by default any size.
    Accumulation steps are `batch_size // (micro * world_size)`. Raises `ElasticityConfigError` for numbers that are not
    positive ints.
    """
    for name, value in (("batch_size", batch_size), ("min_world_size", min_world_size)):
        _require_positive(name, value)
    allowed = None if micro_batch_sizes is None else sorted(set(micro_batch_sizes))
    for micro in allowed or ():
        _require_positive("micro_batch_sizes", micro)
    result: dict[int, tuple[int, ...]] = {}
    for size in divisors_up_to(batch_size, max_world_size):
        share = batch_size // size
        fitting = divisors_up_to(share, share) if allowed is None else [m for m in allowed if share % m == 0]
        if size >= min_world_size and fitting:
            result[size] = tuple(fitting)
    return result


def _require_positive(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ElasticityConfigError(f"`{name}` must be a positive int, not {value!r}")


def _require_countable(cap: int) -> None:
    limit, advice = LARGEST_WITH_NUMPY, ""
    if not has_numpy():
        limit, advice = LARGEST_CAP, f", {LARGEST_WITH_NUMPY} with numpy: install `deepspeed-config[search]`"
    if cap > limit:
        raise ElasticityConfigError(
            f"`elasticity.max_train_batch_size` {cap} is above the limit of an exact search "
            f"({limit}{advice}); lower it, or use the heuristic plan"
        )


def _data_parallel_sizes_in_range(block: ElasticityBlock) -> list[int]:
    """Return the data-parallel sizes in the block's range of GPUs (v0.2: whole nodes) that fit the cap."""
    step = block.ranks_per_node
    least, most = -(-block.min_gpus // block.model_parallel_size), block.max_gpus // block.model_parallel_size
    most = min(most, block.max_train_batch_size // min(block.micro_batch_sizes))
    return list(range(-(-least // step) * step, most + 1, step))


def _checked_world_sizes(world_sizes: Iterable[int]) -> list[int]:
    sizes = set()
    for index, size in enumerate(world_sizes):
        if type(size) is not int or not 1 <= size <= LARGEST_COUNT:
            raise ElasticityConfigError(f"`world_sizes[{index}]` must be a positive int, not {size!r}")
        sizes.add(size)
    return sorted(sizes)


def _best_batch(block: ElasticityBlock, wanted: Sequence[int]) -> tuple[int, int]:
    """Return the batch size that admits the most of the `wanted` world sizes, and the number of batches that do."""
    result = best_batch(
        block.max_train_batch_size, block.micro_batch_sizes, wanted, larger=block.prefer_larger_batch
    )
    if result is None:
        raise ElasticityConfigError(
            f"no batch up to `elasticity.max_train_batch_size` {block.max_train_batch_size} runs on any of "
            f"{len(wanted)} world sizes with `elasticity.micro_batch_sizes` {list(block.micro_batch_sizes)}"
        )
    return result


def _admits_world_size(block: ElasticityBlock, batch: int, size: int) -> bool:
    return any(batch % (micro * size) == 0 for micro in block.micro_batch_sizes)


def _heuristic_plan(
    config: Mapping[str, Json], wanted: Sequence[int], semantics: ElasticitySemantics
) -> Plan | None:
    try:
        heuristic = plan(config, semantics=semantics)
    except ElasticityConfigError:
        return None
    wanted_sizes = set(wanted)
    rows = tuple(row for row in heuristic.rows if row.world_size in wanted_sizes)
    return Plan(heuristic.block, heuristic.batch_size, rows, semantics, heuristic.notes)


# A batch `b` runs on `w` ranks if `b = w * k` and some micro batch divides `k`. So each world size adds one to the
# batches `w, 2w, 3w, ...` whose factor `k` is such a multiple: a sieve of cost `cap x ln(sizes)`. It uses numpy if
# that is installed (the extra `search`) and the cap is large enough to justify the import.

LARGE_CAP = 10**5
"""Cap (in samples) above which importing numpy, a tenth of a second, pays off against counting without numpy."""
LARGEST_CAP, LARGEST_WITH_NUMPY = 10**7, 10**8
"""Largest caps of an exact search without and with numpy; they cost a few seconds, and a few bytes per sample."""


def has_numpy() -> bool:
    """Return whether numpy is installed."""
    return find_spec("numpy") is not None


def best_batch(
    cap: int, micro_batches: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """Return the batch with the most `wanted` sizes and the number of ties, or `None` if no batch admits any.

    `wanted` is in ascending order; `larger` selects the largest of the ties instead of the smallest.
    """
    units = drop_multiples(micro_batches)
    use_numpy = cap > LARGE_CAP and has_numpy()
    return (best_batch_with_numpy if use_numpy else best_batch_without_numpy)(
        cap, units, wanted, larger=larger
    )


def best_batch_without_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """Find the best batch in pure Python, testing each batch at each world size."""
    factors = _multiples_of_units(units, cap // wanted[0] if wanted else 0)
    counts = array("L", bytes(array("L").itemsize * (cap + 1)))
    for size in wanted:
        for factor in islice(factors, bisect_right(factors, cap // size)):
            counts[factor * size] += 1
    most = max(counts)
    if most == 0:
        return None
    last = cap - counts[::-1].index(most)
    return last if larger else counts.index(most), counts.count(most)


def _multiples_of_units(units: Sequence[int], most: int) -> Sequence[int]:
    """Return, in ascending order, the numbers up to `most` that are multiples of at least one unit."""
    splits = bytearray(most + 1)
    for unit in units:
        splits[unit::unit] = b"\1" * (most // unit)
    return array("L", compress(range(most + 1), splits))


def best_batch_with_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """Find the best batch with numpy, testing all batches at one world size at a time."""
    import numpy as np

    dtype = np.uint16 if len(wanted) < 2**16 else np.uint32
    splits = np.zeros(cap + 1, dtype=dtype)
    for unit in units:
        splits[unit::unit] = 1
    counts = np.zeros(cap + 1, dtype=dtype)
    for size in wanted:
        if size > cap:
            break
        counts[::size] += splits[: cap // size + 1]
    most = int(counts.max(initial=0))
    if most == 0:
        return None
    best = np.flatnonzero(counts == most)
    return int(best[-1 if larger else 0]), len(best)
