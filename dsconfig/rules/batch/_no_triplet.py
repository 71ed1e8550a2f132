"""Why there is no batch triplet, and how its numbers are written."""

from __future__ import annotations

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import Failure, Impossible
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.evaluation.context import Context
from dsconfig.rules.batch._triplet import data_parallel_size, written
from dsconfig.rules.batch.world_sizes import working_sizes


class Failed(NamedTuple):
    """Written values of which no triplet can be derived."""

    why: Impossible
    values: tuple[Json, Json, Json]
    world: float | None
    """The size at which there is none; None: there is none at any."""

    @property
    def too_small(self) -> bool:
        """Whether the total is smaller than one step: of positive values, one that is not is derived."""
        return all(value is None or value > 0 for value in self.values)


def failed(ctx: Context, *failures: Failure) -> Failed | None:
    """Why there is no triplet, where it is for one of these reasons.

    Where a value of the batch contradicts the job's arguments, the consumer stops before anything is derived.
    """
    found = ctx.once(_failed)
    return found if found is not None and found.why.failure in failures else None


def _failed(ctx: Context) -> Failed | None:
    if ctx.job is not None and any(each.key in batch_triplet.KEYS for each in ctx.job.mismatches):
        return None
    values = written(ctx)
    world = data_parallel_size(ctx)
    if world is None and working_sizes(*values) != ():
        return None
    outcome = batch_triplet.derive(*values, 1 if world is None else world)
    return Failed(outcome, values, world) if isinstance(outcome, Impossible) else None


def plain(number: float) -> str:
    """8.0 as 8."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)
