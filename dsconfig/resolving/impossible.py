"""Why there is no batch triplet at a world size: the arithmetic, and what is near that works."""

from __future__ import annotations

from typing import Any

from dsconfig.batch.triplet import KEYS, MICRO, STEPS, TRAIN, Impossible
from dsconfig.batch.world_sizes import described, nearest_multiples, working_sizes
from dsconfig.resolving.run import ResolveError
from dsconfig.words import kind, quoted

Written = tuple[Any, Any, Any]


def explained(outcome: Impossible, written: Written, size: float) -> ResolveError:
    """The error to raise for what is written (None: not written) on `size` data-parallel ranks."""
    train, micro, steps = written
    match outcome.failure:
        case "none-given":
            return ResolveError(
                f"neither `{TRAIN}` nor `{MICRO}` is given, so there is no batch to derive",
                (f"set `{MICRO}` (and `{STEPS}` if you accumulate); the total follows from the world size",),
            )
        case "arithmetic":
            return _no_number(outcome, written)
        case "zero-divisor":
            return ResolveError(
                f"`{outcome.key}` is 0, and DeepSpeed divides `{TRAIN}` by it",
                (f"give a positive integer, or remove `{outcome.key}` so that it is derived",),
            )
        case "not-positive" if outcome.key and dict(zip(KEYS, written, strict=True))[outcome.key] is not None:
            value = quoted(dict(zip(KEYS, written, strict=True))[outcome.key])
            return ResolveError(f"`{outcome.key}` is {value}, but must be greater than 0")
    if micro is not None and steps is not None:
        return _overdetermined(train, micro, steps, size)
    return _indivisible(train, micro, steps, size)


def _no_number(outcome: Impossible, written: Written) -> ResolveError:
    key = outcome.key or TRAIN
    value = dict(zip(KEYS, written, strict=True))[key]
    hint = "give an integer"
    if value == "auto":
        hint = "give an integer, or the consumer that fills it (transformers, accelerate)"
    return ResolveError(
        f"`{key}` is {kind(value)}, {quoted(value)}, and DeepSpeed calculates with it", (hint,)
    )


def _overdetermined(train: Any, micro: Any, steps: Any, size: float) -> ResolveError:
    """All three are written: two of them decide the third."""
    product = micro * steps * size
    hints = [f"keep `{MICRO}` and `{STEPS}`: `{TRAIN}` becomes {product:g}"]
    if _fits(train, micro * size):
        hints.append(f"keep `{TRAIN}` and `{MICRO}`: `{STEPS}` becomes {train / (micro * size):g}")
    if _fits(train, steps * size):
        hints.append(f"keep `{TRAIN}` and `{STEPS}`: `{MICRO}` becomes {train / (steps * size):g}")
    if _fits(train, micro * steps):
        hints.append(f"keep all three: {train / (micro * steps):g} data-parallel ranks")
    return ResolveError(
        f"`{TRAIN}` {train} ≠ {micro} × {steps} × {size:g} = {product:g} "
        "(micro batch × accumulation steps × data-parallel ranks)",
        tuple(hints),
    )


def _indivisible(train: Any, micro: Any, steps: Any, size: float) -> ResolveError:
    given, name = (micro, "micro batch") if micro is not None else (steps, "accumulation steps")
    step = size if given is None else given * size
    product = f"{size:g} ranks" if given is None else f"{given} ({name}) × {size:g} (ranks) = {step:g}"
    near = nearest_multiples(train, step)
    hints = [f"nearest values of `{TRAIN}`: {' or '.join(f'{number:g}' for number in near)}"]
    sizes = working_sizes(train, micro, steps)
    if sizes:
        below = max((s for s in sizes if s < size), default=None)
        above = min((s for s in sizes if s > size), default=None)
        nearest = " or ".join(str(s) for s in (below, above) if s is not None)
        hints.append(f"nearest data-parallel sizes for {train}: {nearest} (of {described(sizes)})")
    elif given is not None:
        hints.append(f"no world size works: {train} is no multiple of {given}")
    if given is not None:
        key = MICRO if micro is not None else STEPS
        hints.append(f"or keep `{key}` and drop `{TRAIN}`: it becomes {step:g}")
    return ResolveError(
        f"`{TRAIN}` {train} is not divisible by {product}: "
        f"{train} = {train // step:g} × {step:g} + {train % step:g}",
        tuple(hints),
    )


def _fits(number: Any, divisor: Any) -> bool:
    return bool(divisor) and number >= divisor and number % divisor == 0
