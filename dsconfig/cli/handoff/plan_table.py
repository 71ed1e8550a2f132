"""Plan of an `elasticity` block as a table: each world size with its row, or the reason and the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elastic.planning.plan import Plan, plan

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from elastic.deepspeed.release_behavior import Semantics
    from elastic.planning.plan import Row


@dataclass(frozen=True, slots=True)
class PlannedWorldSize:
    """One world size. Without a row, the job runs at `runs_at` and the share `lost` of its ranks is idle."""

    world_size: int
    """Data-parallel ranks."""
    gpus: int
    nodes: int
    row: Row | None
    exact: Row | None
    reason: str | None
    runs_at: int | None

    @property
    def idle_share(self) -> float:
        """Share of idle ranks if the size is not admissible."""
        return 0.0 if self.row else 1 - (self.runs_at or 0) / self.world_size


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Plan with the requested sizes, and the exact optimum for them if requested."""

    plan: Plan
    exact: Plan | None
    sizes: tuple[PlannedWorldSize, ...]

    @property
    def admitted_world_sizes(self) -> tuple[int, ...]:
        """Requested sizes that the plan admits."""
        return tuple(size.world_size for size in self.sizes if size.row)

    @property
    def exactly_admitted_world_sizes(self) -> tuple[int, ...]:
        """Requested sizes that the exact optimum admits."""
        return tuple(size.world_size for size in self.sizes if size.exact)


def tabulate_plan(
    config: Mapping[str, Json],
    world_sizes: Sequence[int] | None = None,
    *,
    exact: bool = False,
    semantics: Semantics,
) -> PlanTable:
    """Table of the `elasticity` block of a config, for `world_sizes` or all admissible sizes.

    Raises:
        ElasticityError: there is no plan; the message names the key.
    """
    heuristic = plan(config, semantics=semantics)
    optimum = None
    if exact:
        from elastic.planning.exact_search import search

        optimum = search(config, world_sizes, semantics=semantics).exact
    if world_sizes is None:
        world_sizes = sorted({*heuristic.world_sizes, *(optimum.world_sizes if optimum else ())})
    sizes = tuple(_plan_world_size(heuristic, optimum, size) for size in world_sizes)
    return PlanTable(heuristic, optimum, sizes)


def _plan_world_size(heuristic: Plan, optimum: Plan | None, size: int) -> PlannedWorldSize:
    block = heuristic.block
    gpus = size * block.model_parallel_size
    return PlannedWorldSize(
        world_size=size,
        gpus=gpus,
        nodes=-(-gpus // block.num_gpus_per_node),
        row=heuristic.row(size) if heuristic.admits(size) else None,
        exact=optimum.row(size) if optimum is not None and optimum.admits(size) else None,
        reason=heuristic.why_not(size),
        runs_at=None if heuristic.admits(size) else heuristic.next_down(size),
    )
