"""Why there is no batch triplet, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.batch import triplet
from dsconfig.batch.triplet import Impossible
from dsconfig.batch.world_sizes import working_sizes
from dsconfig.evaluation.context import Context
from dsconfig.rules.batch.reading import data_parallel_size, written


def failure_of(ctx: Context) -> tuple[Impossible, tuple[Any, Any, Any], float | None] | None:
    """Why there is no triplet; where the world size is unknown, why there is none at any."""
    values = written(ctx)
    world = data_parallel_size(ctx)
    if world is None:
        if working_sizes(*values) != ():
            return None
        outcome = triplet.derive(*values, 1)
    else:
        outcome = triplet.derive(*values, world)
    return (outcome, values, world) if isinstance(outcome, Impossible) else None


def having(ctx: Context, *failures: str) -> Iterator[tuple[Impossible, tuple[Any, Any, Any], float | None]]:
    found = failure_of(ctx)
    if found is not None and found[0].failure in failures:
        yield found


def plain(number: float) -> str:
    """8.0 as 8."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def too_small(train: Any, micro: Any, steps: Any) -> bool:
    """Everything written is positive: the derived value is not, because the total is smaller than one
    step.
    """
    return all(value is None or value > 0 for value in (train, micro, steps))
