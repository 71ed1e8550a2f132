"""A micro batch that is asked for, where the config's own batch does not go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.batch.triplet import STEPS, TRAIN
from dsconfig.resolving.errors import ResolveError, UnfilledError
from dsconfig.resolving.unfilled import Resolved

if TYPE_CHECKING:
    from dsconfig.json_types import Json


def with_micro_batch(resolve: Callable[[Mapping[str, Json]], Resolved], free: bool) -> Resolved:
    """The run with the first of these changes that goes: none, other steps, another batch.

    `free`: whether the batch may be changed at all.

    Raises:
        ResolveError: nothing goes; it is that of the config as it is.
    """
    try:
        return resolve({})
    except UnfilledError:
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
