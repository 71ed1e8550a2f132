"""The plan of an `elasticity` block as a table: for each world size its row, or why not and what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastic.planning.plan import Plan, plan

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from elastic.deepspeed.semantics import Semantics
    from elastic.planning.plan import Row


@dataclass(frozen=True, slots=True)
class PlannedSize:
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
    """A plan with the sizes that were asked for, and the exact optimum for them if that was asked for."""

    plan: Plan
    exact: Plan | None
    sizes: tuple[PlannedSize, ...]

    @property
    def admitted(self) -> tuple[int, ...]:
        """The sizes asked for that the plan admits."""
        return tuple(size.world_size for size in self.sizes if size.row)

    @property
    def exact_admitted(self) -> tuple[int, ...]:
        """The sizes asked for that the exact optimum admits."""
        return tuple(size.world_size for size in self.sizes if size.exact)


def tabulate(
    config: Mapping[str, Json],
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
    sizes = tuple(_planned(found, best, size) for size in world_sizes)
    return Table(found, best, sizes)


def _planned(found: Plan, best: Plan | None, size: int) -> PlannedSize:
    block = found.block
    gpus = size * block.model_parallel_size
    return PlannedSize(
        world_size=size,
        gpus=gpus,
        nodes=-(-gpus // block.num_gpus_per_node),
        row=found.row(size) if found.admits(size) else None,
        exact=best.row(size) if best is not None and best.admits(size) else None,
        reason=found.why_not(size),
        runs_at=None if found.admits(size) else found.next_down(size),
    )
