"""`search`: the exact optimum beside the heuristic, by counting the world sizes of every batch under the cap.

How they are counted, `sieve` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.divisors import divisors_up_to
from elastic.errors import ElasticityConfigError
from elastic.json_types import Json
from elastic.planning.block import LARGEST_COUNT, Block, read_block
from elastic.planning.plan import Plan, plan
from elastic.planning.plan_row import make_rows
from elastic.planning.sieve import LARGEST_CAP, LARGEST_WITH_NUMPY, best_batch, has_numpy


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
