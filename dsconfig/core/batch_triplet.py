"""The batch triplet as DeepSpeed derives it, step by step, with whatever was written.

DeepSpeed calculates before it checks, on the raw values: floats stay floats, true counts as 1, a string ends
in a TypeError in the middle. The same operations are done here in the same order, so that the same inputs
fail. Source: runtime/config.py, DeepSpeedConfig._set_batch_related_parameters and _batch_assertion, unchanged
in everything that matters from 0.3.1 to 0.19.8.
"""

from __future__ import annotations

from math import prod
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, NamedTuple

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
KEYS = (TRAIN, MICRO, STEPS)
SEQUENCE = "sequence_parallel_size"
SEQUENCE_SINCE = 17000
_ERRORS_SEEN = 19003
ABSENT = object()
"""Given for `sequence_parallel_size` where the key is not written; null is a value."""

Failure: TypeAlias = Literal["none-given", "arithmetic", "zero-divisor", "not-positive", "mismatch"]


class Triplet(NamedTuple):
    """Samples a step over all ranks, samples a forward pass on one rank, and forward passes a step."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json

    def values(self) -> tuple[Json, Json, Json]:
        """In the order of `KEYS`."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)


class Impossible(NamedTuple):
    """Why there is no triplet. `key` is the one whose value is at fault, if it is a single one."""

    failure: Failure
    triplet: Triplet
    key: str | None = None


def derive(train: Json, micro: Json, steps: Json, world_size: float) -> Triplet | Impossible:
    """The triplet that DeepSpeed derives from what is written (None: not written, or null)."""
    written = Triplet(train, micro, steps)
    if train is None and micro is None:
        return Impossible("none-given", written)
    try:
        found = _complete(train, micro, steps, world_size)
        failure = _check(found, world_size)
    except TypeError:
        return Impossible("arithmetic", written, _not_a_number(written))
    except ZeroDivisionError:
        return Impossible("zero-divisor", written, MICRO if micro is not None and not micro else STEPS)
    except OverflowError:
        return Impossible("arithmetic", written, None)
    return failure or found


def _complete(train: Json, micro: Json, steps: Json, world: float) -> Triplet:
    if train is not None and micro is not None and steps is not None:
        return Triplet(train, micro, steps)
    if train is not None and micro is not None:
        return Triplet(train, micro, train // micro // world)
    if train is not None and steps is not None:
        return Triplet(train, train // world // steps, steps)
    if micro is not None and steps is not None:
        return Triplet(_product(micro, steps, world), micro, steps)
    if train is not None:
        return Triplet(train, train // world, 1)
    return Triplet(_product(micro, world), micro, 1)


def _product(*factors: Json) -> Json:
    """The product; a TypeError, which comes anyway, before Python repeats a text or a list."""
    if not all(isinstance(factor, int | float) for factor in factors):
        raise TypeError
    return prod(factors)


def _check(found: Triplet, world: float) -> Impossible | None:
    for key, value in zip(KEYS, found.values(), strict=True):
        if not value > 0:
            return Impossible("not-positive", found, key)
    train, micro, steps = found.values()
    return None if train == micro * steps * world else Impossible("mismatch", found)


def _not_a_number(triplet: Triplet) -> str | None:
    """The key whose value cannot be calculated with."""
    for key, value in zip(KEYS, triplet.values(), strict=True):
        if value is not None and not isinstance(value, int | float):
            return key
    return None


def world_size(ranks: int, sequence_parallel_size: Json, release: int, *, from_file: bool) -> float:
    """The data-parallel world size that DeepSpeedConfig uses.

    It divides the ranks by `sequence_parallel_size` only where the config is a dict: of a file it asks
    whether the *path* contains that word. The division is a true one. Source: runtime/config.py,
    DeepSpeedConfig.__init__, from 0.17.0 on.

    Raises:
        TypeError, ZeroDivisionError: from 0.19.3 on, for a size that cannot be divided by.
    """
    if from_file or sequence_parallel_size is ABSENT or release < SEQUENCE_SINCE:
        return ranks
    try:
        return ranks / sequence_parallel_size  # type: ignore[no-any-return]
    except (TypeError, ZeroDivisionError, OverflowError):
        if release < _ERRORS_SEEN:
            return 1  # the release swallows the error and goes on as if it ran alone
        raise


def nearest_multiples(value: Json, step: Json) -> tuple[Json, ...]:
    """The multiples of `step` just below and above `value`, positive ones only."""
    if not isinstance(value, int | float) or not step:
        return ()
    value, step = (int(n) if isinstance(n, float) and n.is_integer() else n for n in (value, step))
    below = value // step * step  # in integers, of which floats beyond 2^53 are not sure
    return tuple(number for number in (below, below + step) if number > 0)
