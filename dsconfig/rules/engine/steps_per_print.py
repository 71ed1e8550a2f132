"""Progress lines."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule

_STEP = "runtime/engine.py:DeepSpeedEngine._take_model_step"
_PRINT = "steps_per_print"


@rule("DSC980", effect="crashes", source=_STEP)
def steps_per_print_zero(ctx: Context) -> Iterator[Finding]:
    """`steps_per_print` is 0.

    The engine divides the number of the step by it, and the first step ends in a ZeroDivisionError. To have
    no progress lines, write null (0.15.2 and later, where it is the default) or a large number.

    Bad:

        {"train_batch_size": 8, "steps_per_print": 0}

    Good:

        {"train_batch_size": 8, "steps_per_print": 100}

    Fixed:

        {"train_batch_size": 8}
    """
    if ctx.has(_PRINT) and ctx.value(_PRINT) == 0:
        off = ctx.since("0.15.2")
        yield ctx.at(
            _PRINT,
            f"`{_PRINT}` is {quoted(ctx.value(_PRINT))}, and the engine divides each step's number by it",
            help="write `null`, or remove the key, for no progress lines"
            if off
            else "give a large number for hardly any progress lines",
            fix=Fix("remove the key: no progress lines", (Remove((_PRINT,)),)) if off else None,
        )
