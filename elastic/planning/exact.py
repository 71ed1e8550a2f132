"""`search`: the exact optimum beside the heuristic, by counting the world sizes of every batch."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import compress, islice

from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.divisors import divisors_up_to, minimal
from elastic.errors import ElasticityConfigError
from elastic.json_types import Json
from elastic.planning.block import LARGEST_COUNT, Block, read_block
from elastic.planning.plan import Plan, make_rows, plan

# `search`: the exact optimum beside the heuristic, by counting the world sizes of every batch under the cap.
#
# How they are counted, `sieve` says.


@dataclass(frozen=True, slots=True)
class Search:
    """The batch with most of the wanted world sizes, and the heuristic's beside it."""

    exact: Plan
    """The optimum; its rows are the wanted sizes that it admits."""
    heuristic: Plan | None
    """The heuristic's plan, its rows cut to the wanted sizes; `None` where it finds no plan."""
    wanted: tuple[int, ...]
    """The data-parallel world sizes that counted, ascending."""
    ties: int
    """Batch sizes that admit as many, the optimum among them."""

    @property
    def lost(self) -> int:
        """World sizes that the heuristic's batch admits fewer."""
        return len(self.exact.rows) - (len(self.heuristic.rows) if self.heuristic else 0)

    @property
    def missed(self) -> tuple[int, ...]:
        """World sizes of the optimum that the heuristic's batch does not run on."""
        known = set(self.heuristic.world_sizes) if self.heuristic else set()
        return tuple(size for size in self.exact.world_sizes if size not in known)


def search(
    config: Mapping[str, Json],
    world_sizes: Iterable[int] | None = None,
    *,
    semantics: Semantics = LATEST,
) -> Search:
    """The batch up to the cap that admits most of `world_sizes`, ties by `prefer_larger_batch`.

    `world_sizes` are data-parallel; left out, they are all that lie within `min_gpus` and `max_gpus` (whole
    nodes only in v0.2).  `semantics` is the heuristic's.  Raises `ElasticityConfigError`, which names the
    key, for a block that is not strictly valid, a cap too large to count through, and where no batch admits
    any wanted size.
    """
    block = read_block(config, semantics)
    _require_countable(block.max_train_batch_size)
    wanted = _range(block) if world_sizes is None else _given(world_sizes)
    batch, ties = _best_batch(block, wanted)
    admitted = [size for size in wanted if _admits(block, batch, size)]
    exact = Plan(block, batch, make_rows(block, batch, admitted), semantics)
    return Search(exact, _cut(config, wanted, semantics), tuple(wanted), ties)


def keeping_batch(
    batch_size: int,
    micro_batch_sizes: Sequence[int] | None = None,
    *,
    min_world_size: int = 1,
    max_world_size: int = 10000,
) -> dict[int, tuple[int, ...]]:
    """For a fixed global batch: each world size that keeps it, with the micro batches that do.

    Of `micro_batch_sizes`, or of all sizes where none are given; ascending, in samples.  Accumulation steps
    are `batch_size // (micro * world_size)`.  Raises `ElasticityConfigError` for numbers that are not
    positive ints.
    """
    for name, value in (("batch_size", batch_size), ("min_world_size", min_world_size)):
        _require_positive(name, value)
    allowed = None if micro_batch_sizes is None else sorted(set(micro_batch_sizes))
    for micro in allowed or ():
        _require_positive("micro_batch_sizes", micro)
    kept: dict[int, tuple[int, ...]] = {}
    for size in divisors_up_to(batch_size, max_world_size):
        share = batch_size // size
        fitting = divisors_up_to(share, share) if allowed is None else [m for m in allowed if share % m == 0]
        if size >= min_world_size and fitting:
            kept[size] = tuple(fitting)
    return kept


def _require_positive(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ElasticityConfigError(f"`{name}` must be a positive int, not {value!r}")


def _require_countable(cap: int) -> None:
    most, more = LARGEST_WITH_NUMPY, ""
    if not has_numpy():
        most, more = LARGEST_CAP, f", {LARGEST_WITH_NUMPY} with numpy: install `deepspeed-config[search]`"
    if cap > most:
        raise ElasticityConfigError(
            f"`elasticity.max_train_batch_size` {cap} is more than an exact search counts through "
            f"({most}{more}); lower it, or use the heuristic plan"
        )


def _range(block: Block) -> list[int]:
    """All data-parallel sizes in the block's range of GPUs (v0.2: whole nodes) that the cap has room for."""
    step = block.ranks_per_node
    least, most = -(-block.min_gpus // block.model_parallel_size), block.max_gpus // block.model_parallel_size
    most = min(most, block.max_train_batch_size // min(block.micro_batch_sizes))
    return list(range(-(-least // step) * step, most + 1, step))


def _given(world_sizes: Iterable[int]) -> list[int]:
    sizes = set()
    for index, size in enumerate(world_sizes):
        if type(size) is not int or not 1 <= size <= LARGEST_COUNT:
            raise ElasticityConfigError(f"`world_sizes[{index}]` must be a positive int, not {size!r}")
        sizes.add(size)
    return sorted(sizes)


def _best_batch(block: Block, wanted: Sequence[int]) -> tuple[int, int]:
    """The batch with most wanted sizes, and how many batches tie."""
    found = best_batch(
        block.max_train_batch_size, block.micro_batch_sizes, wanted, larger=block.prefer_larger_batch
    )
    if found is None:
        raise ElasticityConfigError(
            f"no batch up to `elasticity.max_train_batch_size` {block.max_train_batch_size} runs on any of "
            f"{len(wanted)} world sizes with `elasticity.micro_batch_sizes` {list(block.micro_batch_sizes)}"
        )
    return found


def _admits(block: Block, batch: int, size: int) -> bool:
    return any(batch % (micro * size) == 0 for micro in block.micro_batch_sizes)


def _cut(config: Mapping[str, Json], wanted: Sequence[int], semantics: Semantics) -> Plan | None:
    try:
        found = plan(config, semantics=semantics)
    except ElasticityConfigError:
        return None
    kept = set(wanted)
    rows = tuple(row for row in found.rows if row.world_size in kept)
    return Plan(found.block, found.batch_size, rows, semantics, found.notes)


# The batch that most world sizes share, by counting the sizes of every batch under the cap.
#
# A batch `b` runs on `w` ranks when `b = w * k` and some micro batch divides `k`. So each world size adds
# one to the batches `w, 2w, 3w, ...` whose factor `k` is such a multiple: a sieve of cost `cap x
# ln(sizes)`. It is done in numpy where that is installed (the extra `search`) and the cap so large that its
# import pays.

LARGE_CAP = 10**5
"""Samples, from which on importing numpy, a tenth of a second, is quicker than counting without it."""
LARGEST_CAP, LARGEST_WITH_NUMPY = 10**7, 10**8
"""The most samples that are counted through: for some seconds, and some bytes for each."""


def has_numpy() -> bool:
    """Whether numpy is installed."""
    return find_spec("numpy") is not None


def best_batch(
    cap: int, micro_batches: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The batch with most of the `wanted` sizes (ascending), and how many tie; `None` where none admits any.

    Of those that tie, the largest or the smallest.
    """
    units = minimal(micro_batches)
    quick = cap > LARGE_CAP and has_numpy()
    return (with_numpy if quick else without_numpy)(cap, units, wanted, larger=larger)


def without_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The same, a step for each batch and size; no unit is a multiple of another."""
    factors = _multiples(units, cap // wanted[0] if wanted else 0)
    counts = array("L", bytes(array("L").itemsize * (cap + 1)))
    for size in wanted:
        for factor in islice(factors, bisect_right(factors, cap // size)):
            counts[factor * size] += 1
    most = max(counts)
    if most == 0:
        return None
    last = cap - counts[::-1].index(most)
    return last if larger else counts.index(most), counts.count(most)


def _multiples(units: Sequence[int], most: int) -> Sequence[int]:
    """The multiples of any of the units, ascending."""
    splits = bytearray(most + 1)
    for unit in units:
        splits[unit::unit] = b"\1" * (most // unit)
    return array("L", compress(range(most + 1), splits))


def with_numpy(
    cap: int, units: Sequence[int], wanted: Sequence[int], *, larger: bool
) -> tuple[int, int] | None:
    """The same, all batches of a size at once."""
    import numpy as np

    width = np.uint16 if len(wanted) < 2**16 else np.uint32
    splits = np.zeros(cap + 1, dtype=width)
    for unit in units:
        splits[unit::unit] = 1
    counts = np.zeros(cap + 1, dtype=width)
    for size in wanted:
        if size > cap:
            break
        counts[::size] += splits[: cap // size + 1]
    most = int(counts.max(initial=0))
    if most == 0:
        return None
    best = np.flatnonzero(counts == most)
    return int(best[-1 if larger else 0]), len(best)
