"""Numbers of steps: what counts as one."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import kind, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import Chosen, params, scheduler
from dsconfig.rules._numbers import spelled

_FILE = "runtime/lr_schedules.py"
_PARAMS = "scheduler.params"
_STRICT = {"warmup_num_steps": "0.19.3", "lr_range_test_step_size": "0.19.4"}
"""Params that have to be whole and greater than 0, and since when."""
_HALVES = {
    "cycle_first_step_size": "a number greater than 0",
    "cycle_second_step_size": "a number of at least 0",
}
"""The halves of `OneCycle`, whose text DeepSpeed turns into a number, and what it takes."""


@rule("DSC560", effect="crashes", source=f"{_FILE}:WarmupLR.__init__")
def step_count_that_is_none(ctx: Context) -> Iterator[Finding]:
    """A number of steps is 0, negative, or no whole number.

    `warmup_num_steps` (from 0.19.3 on) and `lr_range_test_step_size` (from 0.19.4 on) have to be integers
    greater than 0: neither 0, for no warm-up at all, nor 1000.0 will do. Of `OneCycle`, the way up has to be
    longer than 0, the way down may be 0.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}
    """
    written = params(ctx, "scheduler")
    chosen = scheduler(ctx) if written else None
    if chosen is None:
        return
    for word in written.keys() & chosen.accepts:
        found = _fault(ctx, chosen, word)
        if found is not None:
            path = f"{_PARAMS}.{word}"
            value = ctx.value(path)
            yield ctx.at(
                path,
                f"`{word}` is {_shown(value)}, and {chosen.built} takes {found}",
                help="write 1 for hardly any warm-up"
                if word == "warmup_num_steps" and value == 0
                else f"give {found}",
                fix=_rewritten(word, value),
            )


def _shown(value: Json) -> str:
    return (
        quoted(value)
        if value is None or isinstance(value, int | float)
        else f"{kind(value)}, {quoted(value)}"
    )


def _fault(ctx: Context, chosen: Chosen, word: str) -> str | None:
    """What the release takes instead of the written value; None where that is fine."""
    if chosen.kind is None:
        return None
    if word in _STRICT:
        value = ctx.value(f"{_PARAMS}.{word}")
        if value == "auto":  # `unfilled-auto` reports that
            return None
        if ctx.since(_STRICT[word]):
            return None if isinstance(value, int) and value > 0 else "an integer greater than 0"
        return "a number other than 0" if value == 0 and word == "lr_range_test_step_size" else None
    if word in _HALVES:
        value = ctx.value(f"{_PARAMS}.{word}")
        return None if _half(ctx, word, value) else _HALVES[word]
    return None


def _half(ctx: Context, word: str, value: Json) -> bool:
    if value is None:
        return word == "cycle_second_step_size"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    if ctx.before("0.19.4"):  # unchecked, but the cycle is divided by its length
        other = "cycle_second_step_size" if word == "cycle_first_step_size" else ""
        return number != 0 or not other or bool(params(ctx, "scheduler").get(other))
    return number > 0 or (number == 0 and word == "cycle_second_step_size")


def _rewritten(word: str, value: Json) -> Fix | None:
    path = ("scheduler", "params", word)
    if isinstance(value, float) and value.is_integer() and value > 0 and word in _STRICT:
        return Fix(f"write {quoted(int(value))}", (Set(path, int(value)),), safe=True)
    if (number := spelled(value)) is not None and number > 0:
        return Fix(f"write {quoted(number)}, without quotes", (Set(path, number),), safe=True)
    if word == "warmup_num_steps" and isinstance(value, int) and value == 0:
        return Fix("write 1", (Set(path, 1),))
    return None
