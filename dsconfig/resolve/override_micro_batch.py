"""A micro batch that is asked for, where the config's own batch does not go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.resolve.errors import ResolveError, UnfilledError, UnknownWorldSizeError
from dsconfig.resolve.missing_arguments import Resolved

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.resolve.run import Run


LONGEST = 1 << 40
"""No sequence and no micro batch is longer."""


def samples(run: Run) -> int:
    """The micro batch of a run.

    Raises:
        ValueError: it is no number of samples, though DeepSpeed takes it for one.
    """
    value = run.train_micro_batch_size_per_gpu
    if not isinstance(value, (int, float)) or value != value // 1:
        raise ValueError(f"`{MICRO}` is `{value}`: a micro batch has no part of a sample")
    if value > LONGEST:
        raise ValueError(f"`{MICRO}` {str(int(value))[:20]}: expected at most {LONGEST}")
    return int(value)


def with_micro_batch(resolve: Callable[[Mapping[str, Json]], Resolved], free: bool) -> Resolved:
    """The run with the first of these changes that goes: none, other steps, another batch.

    `free`: whether the batch may be changed at all.

    Raises:
        ResolveError: nothing goes; it is that of the config as it is.
    """
    try:
        return resolve({})
    except (UnfilledError, UnknownWorldSizeError):
        raise
    except ResolveError as error:
        for found in _others(resolve) if free else ():
            return found
        raise error from None


def _others(resolve: Callable[[Mapping[str, Json]], Resolved]) -> Iterator[Resolved]:
    for left in (STEPS, TRAIN):
        try:
            run, assumed = resolve({left: None})
        except ResolveError:
            continue
        batch, steps = run.train_batch_size, run.gradient_accumulation_steps
        if left == STEPS:
            said = f"`{STEPS}` is {steps} with this micro batch, and `{TRAIN}` stays {batch}"
        else:
            said = f"`{TRAIN}` is {batch} with this micro batch"
        yield Resolved(run, (*assumed, said))
