"""Learning rates of a schedule: bounds, warmup, cycles and numbers of steps."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isqrt

from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import kind, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import Chosen, optimizer, params, scheduler, written_type
from dsconfig.rules._numbers import as_number, is_number, parse_integer

# Learning rates: which of the optimizer's and the schedule's is used.

_FILE = "runtime/lr_schedules.py"
_LR = "optimizer.params.lr"
_MAX = "scheduler.params.warmup_max_lr"


@rule("DSC570", effect="altered", source=f"{_FILE}:WarmupLR.__init__")
def learning_rate_replaced_by_schedule(ctx: Context) -> Iterator[Finding]:
    """The schedule rises to another learning rate than the optimizer's, which is then never used.

    `warmup_max_lr` decides. Left out, it is the optimizer's `lr` in `WarmupLR` from 0.17.2 on, and 0.001
    before; in `WarmupDecayLR` it is 0.001 to this day. Written as null (0.17.2 and later) it is the
    optimizer's in both.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000,
        "warmup_max_lr": 0.00002}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000,
        "warmup_max_lr": 0.00002}}}
    """
    lr = as_number(params(ctx, "optimizer").get("lr"))
    chosen = scheduler(ctx) if lr is not None and "scheduler" in ctx.data else None
    if chosen is None or chosen.kind is None or "warmup_max_lr" not in chosen.params:
        return
    written = ctx.has(_MAX)
    peak = as_number(ctx.value(_MAX) if written else chosen.params["warmup_max_lr"].default)
    if peak is not None and peak != lr and peak >= 0:  # -1 stands where a script puts a number
        by = f"`warmup_max_lr` is {quoted(peak)}" + (
            "" if written else f" in {chosen.built} unless it is written"
        )
        yield ctx.at(
            _LR,
            f"`lr` is {quoted(lr)} and never used: the schedule rises to another rate, for {by}",
            help=f"set `scheduler.params.warmup_max_lr` to {quoted(lr)}, or write the same in both places",
            related=[("the schedule's rate is set here", _MAX if written else "scheduler.type")],
            fix=Fix("take the optimizer's rate", (Set(("scheduler", "params", "warmup_max_lr"), lr),))
            if isinstance(ctx.written("scheduler.params"), dict)
            else None,
        )


@rule("DSC573", effect="wasteful", since="0.12.3", source=f"{_FILE}:WarmupCosineLR.__init__")
def cosine_of_unwritten_rate(ctx: Context) -> Iterator[Finding]:
    """`WarmupCosineLR` scales the optimizer's learning rate, and none is written.

    It has no rate of its own: what it rises to is the optimizer's `lr`, and where that is absent the default
    of the optimizer's class, 0.001 for most.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}
    """
    if ctx.written("scheduler.type") != "WarmupCosineLR" or "lr" in params(ctx, "optimizer"):
        return
    chosen = optimizer(ctx)
    if chosen is None or chosen.kind is None or chosen.name == "Muon":
        return
    default = chosen.params["lr"].default if "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        f"`lr` is not written, and `WarmupCosineLR` scales it: it rises to {chosen.built}'s own default"
        + (f", {default:g}" if default is not None else ""),
        help="add `lr`",
        related=[("the schedule is chosen here", "scheduler.type")],
        part="key",
    )


# Learning rates at both ends of a schedule.

_PAIRS = (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr"))


@rule("DSC571", effect="wasteful", source=f"{_FILE}:WarmupLR.__init__")
def warm_up_that_falls(ctx: Context) -> Iterator[Finding]:
    """The learning rate begins above the one that it is to rise to.

    DeepSpeed does not compare them: warm-up then leads down.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.01,
        "warmup_max_lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001,
        "warmup_max_lr": 0.01}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001,
        "warmup_max_lr": 0.01}}}
    """
    written = params(ctx, "scheduler")
    for low, high in _PAIRS:
        first, last = as_number(written.get(low)), as_number(written.get(high))
        if first is None or last is None or not 0 <= last < first or not _takes(scheduler(ctx), low):
            continue
        yield ctx.at(
            f"scheduler.params.{low}",
            f"`{low}` is {quoted(first)}, more than `{high}`, {quoted(last)}: the way up leads down",
            help=f"swap `{low}` and `{high}`",
            related=[("the other end is set here", f"scheduler.params.{high}")],
            fix=Fix(
                "swap the two",
                (Set(("scheduler", "params", low), last), Set(("scheduler", "params", high), first)),
            ),
        )


def _takes(chosen: Chosen | None, word: str) -> bool:
    return chosen is not None and chosen.kind is not None and word in chosen.accepts


@rule("DSC572", effect="crashes", source=f"{_FILE}:_format_param")
def rates_for_different_groups(ctx: Context) -> Iterator[Finding]:
    """Lists of learning rates that cannot both fit the optimizer's parameter groups.

    A list needs one number for each group. Two lists of different lengths never both fit, an empty one never
    at all.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0.0],
        "warmup_max_lr": [0.001, 0.0001]}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.0,
        "warmup_max_lr": 0.001}}}
    """
    written = params(ctx, "scheduler")
    lists = {key: value for key, value in written.items() if isinstance(value, list)}
    if not lists:
        return
    chosen = scheduler(ctx)
    for key, value in lists.items():
        if not value and key in _RATES and _takes(chosen, key):
            yield ctx.at(
                f"scheduler.params.{key}",
                f"`{key}` is an empty list, and there is at least one parameter group",
                help="write one number for all groups",
            )
    for low, high in _PAIRS:
        first, last = lists.get(low), lists.get(high)
        if first and last and len(first) != len(last) and _takes(chosen, low):
            yield ctx.at(
                f"scheduler.params.{high}",
                f"`{high}` holds {len(last)} rates and `{low}` {len(first)}, and each needs one for each"
                " parameter group",
                help="write one number for all groups, or lists of one length",
                related=[("the other list is here", f"scheduler.params.{low}")],
            )


_RATES = ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "cycle_max_lr", "lr_range_test_min_lr")


# Warm-up: how long it is, and the shape of its curve.

_PARAMS = "scheduler.params"
_WARM_UP = f"{_PARAMS}.warmup_num_steps"
_CURVE = f"{_PARAMS}.warmup_type"
_NOTABLE = 500
"""Warm-ups of fewer steps are over before the shape of their curve matters."""


def _warm_up(ctx: Context) -> Json:
    """The steps of warm-up as a number, written or by default.

    Raises:
        SkipRule: the consumer fills them.
    """
    chosen = scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_num_steps" not in chosen.accepts:
        return None
    steps = ctx.value(_WARM_UP) if ctx.has(_WARM_UP) else chosen.params["warmup_num_steps"].default
    return as_number(steps)


@rule("DSC561", effect="altered", since="0.3.12", source=f"{_FILE}:WarmupLR.__init__")
def single_warm_up_step(ctx: Context) -> Iterator[Finding]:
    """`warmup_num_steps` is less than 2, and counts as 2.

    From 0.19.3 on only 1 does; 0 and less are refused.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}
    """
    if "scheduler" not in ctx.data or not ctx.has(_WARM_UP):
        return
    steps = _warm_up(ctx)
    if steps is not None and steps < 2 and (steps == 1 or ctx.before("0.19.3")):
        yield ctx.at(
            _WARM_UP,
            f"`warmup_num_steps` is {quoted(steps)} and counts as 2",
            help="write 2",
            fix=Fix("write 2", (Set(("scheduler", "params", "warmup_num_steps"), 2),), safe=True),
        )


@rule("DSC562", effect="wasteful", since="0.3.1", source=f"{_FILE}:WarmupDecayLR.__init__")
def schedule_shorter_than_warm_up(ctx: Context) -> Iterator[Finding]:
    """`total_num_steps` is less than the steps of warm-up.

    Training is over before the learning rate is up. Left out, `warmup_num_steps` is 1000.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500,
        "warmup_num_steps": 50}}}
    """
    total = params(ctx, "scheduler").get("total_num_steps")
    chosen = scheduler(ctx)
    if not is_number(total) or (chosen and "total_num_steps" not in chosen.accepts):
        return
    steps = _warm_up(ctx)
    if steps is not None and total < steps:
        default = "" if ctx.has(_WARM_UP) else " (the default of `warmup_num_steps`)"
        yield ctx.at(
            f"{_PARAMS}.total_num_steps",
            f"`total_num_steps` is {quoted(total)}, and warm-up alone takes {steps}{default}",
            help=f"set `warmup_num_steps` to less than {quoted(total)}, or set `total_num_steps` to "
            f"more than {steps}",
            related=[("warm-up is set here", _WARM_UP)] if ctx.has(_WARM_UP) else [],
        )


@rule("DSC563", effect="altered", since="0.5.7", source=f"{_FILE}:WarmupLR.__init__")
def unknown_warm_up_curve(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is neither "log" nor "linear", and counts as "log".

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}}
    """
    curve = params(ctx, "scheduler").get("warmup_type", "log")
    if curve in ("log", "linear"):
        return
    chosen = scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_type" not in chosen.accepts:
        return
    stops = isinstance(curve, list | dict)  # looked up in a set, which only takes what can be hashed
    meant = curve.strip().lower() if isinstance(curve, str) else ""
    yield ctx.at(
        _CURVE,
        f"`warmup_type` is {quoted(curve)}, "
        + ("which is not the name of a curve" if stops else 'and counts as `"log"`')
        + ': DeepSpeed knows `"log"` and `"linear"`',
        help='write `"linear"` or `"log"`',
        effect="crashes" if stops else "altered",
        fix=Fix(
            'write the `"log"` that applies', (Set(("scheduler", "params", "warmup_type"), "log"),), safe=True
        )
        if not stops and meant != "linear"
        else Fix('write `"linear"`', (Set(("scheduler", "params", "warmup_type"), "linear"),))
        if meant == "linear"
        else None,
    )


@rule("DSC564", effect="wasteful", since="0.5.7", source=f"{_FILE}:WarmupLR._get_gamma")
def logarithmic_warm_up(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is left out, and warm-up is steep: logarithmic, not linear.

    Most frameworks warm up linearly. DeepSpeed's default has half of the way behind it after the square root
    of the steps, and so spends most of a long warm-up near the top. Said of warm-ups of 500 steps and more.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "log"}}}
    """
    written = params(ctx, "scheduler")
    if "warmup_num_steps" not in written or "warmup_type" in written:
        return
    steps = _warm_up(ctx)
    if steps is not None and _NOTABLE <= steps < inf:
        yield ctx.at(
            _WARM_UP,
            f"warm-up is logarithmic unless `warmup_type` says otherwise: half of the way is done by step"
            f" {isqrt(int(steps))} of {quoted(steps)}",
            help='add `"warmup_type": "linear"`, or `"log"` if that is meant',
            fix=Fix(
                'write the `"log"` that applies',
                (Set(("scheduler", "params", "warmup_type"), "log"),),
            ),
        )


# Numbers of steps: what counts as one.

_STRICT = {"warmup_num_steps": "0.19.3", "lr_range_test_step_size": "0.19.4"}
"""Params that have to be whole and greater than 0, and since when."""
_HALVES = {
    "cycle_first_step_size": "a number greater than 0",
    "cycle_second_step_size": "a number of at least 0",
}
"""The halves of `OneCycle`, whose text DeepSpeed turns into a number, and what it takes."""


@rule("DSC560", effect="crashes", source=f"{_FILE}:WarmupLR.__init__")
def invalid_step_count(ctx: Context) -> Iterator[Finding]:
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
        if value == "auto":  # `unresolved-auto` reports that
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
    if (number := parse_integer(value)) is not None and number > 0:
        return Fix(f"write {quoted(number)}, without quotes", (Set(path, number),), safe=True)
    if word == "warmup_num_steps" and isinstance(value, int) and value == 0:
        return Fix("write 1", (Set(path, 1),))
    return None


# What `OneCycle` does with the optimizer's momentum, and what it does not do.

_MOMENTUM = "runtime/lr_schedules.py:OneCycle._initialize_momentum"
_SWITCH = ("scheduler", "params", "cycle_momentum")


def _is_one_cycle(ctx: Context) -> bool:
    return written_type(ctx, "scheduler") == "OneCycle"


@rule("DSC575", effect="altered", source=_MOMENTUM)
def cycled_momentum_over_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` moves the momentum too, and writes over the optimizer's `betas`.

    Unless `cycle_momentum` is false, the first of them goes from `cycle_max_mom` to `cycle_min_mom` and back,
    and the second is 0.99, whatever was written.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001,
        "cycle_momentum": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001, "cycle_max_lr": 0.001,
        "cycle_momentum": false}}}
    """
    written = params(ctx, "scheduler")
    betas = params(ctx, "optimizer").get("betas")
    if not isinstance(betas, list) or not _is_one_cycle(ctx) or not written.get("cycle_momentum", True):
        return
    if not _has_betas(ctx):
        return
    high, low = written.get("cycle_max_mom", 0.9), written.get("cycle_min_mom", 0.8)
    yield ctx.at(
        "optimizer.params.betas",
        f"`betas` is {quoted(betas)} and never used: `OneCycle` moves the first between {quoted(low)} and"
        f" {quoted(high)}, and sets the second to 0.99",
        help="set `scheduler.params.cycle_momentum` to `false`, or remove `betas`",
        related=[("the schedule is chosen here", "scheduler.type")],
        fix=Fix("leave the momentum alone", (Set(_SWITCH, False),)),
    )


def _has_betas(ctx: Context) -> bool:
    """Whether the optimizer that the config names has `betas` among its defaults; Muon has none itself."""
    chosen = optimizer(ctx)
    return chosen is not None and chosen.name != "Muon" and "betas" in chosen.accepts


_OF_MOMENTUM = ("cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate")


@rule("DSC576", effect="ignored", source=_MOMENTUM)
def momentum_cycle_without_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` is to move the momentum of an optimizer that has no `betas`.

    It knows no other momentum: `SGD`'s, `RMSprop`'s or Muon's stays what it is, and a warning says so.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1,
        "cycle_min_mom": 0.85}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1,
        "cycle_momentum": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}},
        "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.01, "cycle_max_lr": 0.1}}}
    """
    if not _is_one_cycle(ctx):
        return
    written = params(ctx, "scheduler")
    asked = [key for key in _OF_MOMENTUM if key in written]
    if not asked or not written.get("cycle_momentum", True):
        return
    chosen = optimizer(ctx)
    if chosen is None or _has_betas(ctx):
        return
    names = one_of((f"`{key}`" for key in asked), "and")
    yield ctx.at(
        f"scheduler.params.{asked[0]}",
        f"{names} {'has' if len(asked) == 1 else 'have'} no effect: {chosen.built} has no `betas`, and"
        " `OneCycle` moves no other momentum",
        help="remove " + ("it" if len(asked) == 1 else "them"),
        part="key",
        related=[("the optimizer is chosen here", "optimizer.type")],
        fix=Fix(f"remove {names}", tuple(Remove(("scheduler", "params", key)) for key in asked), safe=True),
    )


@rule("DSC577", effect="ignored", since="0.5.5", source="runtime/lr_schedules.py:OneCycle._initialize_cycle")
def decay_without_step_size(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` is to decay after the cycle, and `decay_step_size` is 0, its default.

    Then nothing decays, whatever `decay_lr_rate` and `decay_mom_rate` are.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 1000}}}
    """
    written = params(ctx, "scheduler")
    rates = [key for key in ("decay_lr_rate", "decay_mom_rate") if written.get(key)]
    if rates and _is_one_cycle(ctx) and written.get("decay_step_size", 0) == 0:
        names = one_of((f"`{key}`" for key in rates), "and")
        yield ctx.at(
            f"scheduler.params.{rates[0]}",
            f"{names} {'has' if len(rates) == 1 else 'have'} no effect: `decay_step_size` is 0"
            + ("" if "decay_step_size" in written else ", its default")
            + ", and so nothing decays",
            help="add `decay_step_size`, the steps from one decay to the next",
        )
