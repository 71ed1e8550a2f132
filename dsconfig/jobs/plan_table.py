"""The plan of an `elasticity` block as a table: for each world size its row, or why not and what is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elastic import constants as c
from elastic.planning.plan import Plan, plan

if TYPE_CHECKING:
    from elastic.deepspeed.semantics import Semantics
    from elastic.planning.row import Row


@dataclass(frozen=True, slots=True)
class Line:
    """One world size. Without a row the job has to run at `runs_at`, and `lost` of its ranks are idle."""

    world_size: int
    """Data-parallel ranks."""
    gpus: int
    nodes: int
    row: Row | None
    exact: Row | None
    reason: str | None
    runs_at: int | None

    @property
    def lost(self) -> float:
        """The share of the ranks that does nothing, because the size is not admissible."""
        return 0.0 if self.row else 1 - (self.runs_at or 0) / self.world_size


@dataclass(frozen=True, slots=True)
class Table:
    """A plan with the sizes that were asked for; beside it, where asked for, the exact optimum for them."""

    plan: Plan
    exact: Plan | None
    lines: tuple[Line, ...]

    @property
    def admitted(self) -> tuple[int, ...]:
        """The sizes asked for that the plan admits."""
        return tuple(line.world_size for line in self.lines if line.row)

    @property
    def exact_admitted(self) -> tuple[int, ...]:
        """The sizes asked for that the exact optimum admits."""
        return tuple(line.world_size for line in self.lines if line.exact)


def tabulate(
    config: Mapping[str, Any],
    world_sizes: Sequence[int] | None = None,
    *,
    exact: bool = False,
    semantics: Semantics,
) -> Table:
    """The table of the block in a whole config, for `world_sizes`, else for those that are admissible.

    Raises:
        ElasticityError: there is no plan; the text names the key.
    """
    found = plan(config, semantics=semantics)
    best = None
    if exact:
        from elastic.planning.exact import search

        best = search(config, world_sizes, semantics=semantics).exact
    if world_sizes is None:
        world_sizes = sorted({*found.world_sizes, *(best.world_sizes if best else ())})
    lines = tuple(_line(found, best, size) for size in world_sizes)
    return Table(found, best, lines)


def _line(found: Plan, best: Plan | None, size: int) -> Line:
    block = found.block
    gpus = size * block.model_parallel_size
    return Line(
        world_size=size,
        gpus=gpus,
        nodes=-(-gpus // block.num_gpus_per_node),
        row=found.row(size) if found.admits(size) else None,
        exact=best.row(size) if best is not None and best.admits(size) else None,
        reason=found.why_not(size),
        runs_at=None if found.admits(size) else found.next_down(size),
    )


def with_gpus_per_node(config: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """The config as if its block said so many GPUs to a node."""
    block = config.get(c.ELASTICITY)
    changed = {**block, c.NUM_GPUS_PER_NODE: gpus} if isinstance(block, Mapping) else block
    return {**config, c.ELASTICITY: changed}


def sizes_of_nodes(config: Mapping[str, Any], nodes: Iterable[int]) -> list[int]:
    """The data-parallel sizes of whole nodes.

    Raises:
        ElasticityError: the block is not strictly valid.
        ValueError: a node holds no whole number of models.
    """
    from elastic.planning.block import read_block

    block = read_block(config)
    ranks, left = divmod(block.num_gpus_per_node, block.model_parallel_size)
    if left:
        raise ValueError(
            f"a node of {block.num_gpus_per_node} GPUs holds no whole number of models of "
            f"{block.model_parallel_size} GPUs"
        )
    return [node * ranks for node in nodes]


MOST_SIZES = 100_000


def numbers(text: str) -> list[int]:
    """`8,16` and `8:64` and `8:64:8` as ascending whole numbers above 0, the end included.

    Raises:
        ValueError: the text is none of these.
    """
    found: set[int] = set()
    for piece in text.split(","):
        parts = piece.strip().split(":")
        if len(parts) > 3 or not all(part.isdecimal() and len(part) < 9 and int(part) for part in parts):
            raise ValueError(f"expected whole numbers above 0 such as 8,16 or 8:64:8, got `{text}`")
        first, last, step = (*map(int, parts), *(int(parts[0]), 1)[len(parts) - 1 :])
        if last < first or (last - first) // step > MOST_SIZES:
            raise ValueError(f"expected an ascending range of at most {MOST_SIZES} numbers, got `{piece}`")
        found.update(range(first, last + 1, step))
    return sorted(found)
