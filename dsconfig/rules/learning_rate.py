"""Learning rate schedules: bounds, warmup, cycles and step counts."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isqrt

from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.json_types import Json
from dsconfig.core.wording import join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import (
    BuiltClass,
    built_optimizer,
    built_scheduler,
    configured_params,
    written_type,
)
from dsconfig.rules._effective_values import as_number, is_number, parse_integer

# Which learning rate is used: the optimizer's or the schedule's.

_FILE = "runtime/lr_schedules.py"
_LR = "optimizer.params.lr"
_MAX = "scheduler.params.warmup_max_lr"


@rule("DSC570", effect="altered", source=f"{_FILE}:WarmupLR.__init__")
def learning_rate_replaced_by_schedule(ctx: Context) -> Iterator[Finding]:
    """The schedule rises to a learning rate other than the optimizer's, which is therefore never used.

    `warmup_max_lr` is the rate that is used. If it is absent, `WarmupLR` uses the optimizer's `lr` since
    0.17.2, and 0.001 before. `WarmupDecayLR` always uses 0.001. If it is null (0.17.2 and later), both use
    the optimizer's `lr`.

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
    lr = as_number(configured_params(ctx, "optimizer").get("lr"))
    chosen = built_scheduler(ctx) if lr is not None and "scheduler" in ctx.data else None
    if chosen is None or chosen.kind is None or "warmup_max_lr" not in chosen.params:
        return
    is_set = ctx.has(_MAX)
    peak = as_number(ctx.value(_MAX) if is_set else chosen.params["warmup_max_lr"].default)
    if peak is not None and peak != lr and peak >= 0:  # -1 is a placeholder that a script replaces
        reason = f"{quote_value(peak)}" + ("" if is_set else f" in {chosen.built} by default")
        yield ctx.at(
            _LR,
            f"`lr` is {quote_value(lr)}, but is never used: the schedule rises to `warmup_max_lr`, which is {reason}",
            help=f"set `scheduler.params.warmup_max_lr` to {quote_value(lr)}, or `lr` to {quote_value(peak)}",
            related=[("the schedule's rate is set here", _MAX if is_set else "scheduler.type")],
            fix=Fix("use the optimizer's rate", (SetValue(("scheduler", "params", "warmup_max_lr"), lr),))
            if isinstance(ctx.raw("scheduler.params"), dict)
            else None,
        )


@rule("DSC573", effect="wasteful", since="0.12.3", source=f"{_FILE}:WarmupCosineLR.__init__")
def cosine_of_unwritten_rate(ctx: Context) -> Iterator[Finding]:
    """`WarmupCosineLR` scales the optimizer's learning rate, but the config sets none.

    The schedule has no rate of its own. It rises to the optimizer's `lr`, or, if that is absent, to the
    default of the optimizer class, which is 0.001 for most.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}
    """
    if ctx.raw("scheduler.type") != "WarmupCosineLR" or "lr" in configured_params(ctx, "optimizer"):
        return
    chosen = built_optimizer(ctx)
    if chosen is None or chosen.kind is None or chosen.name == "Muon":
        return
    default = chosen.params["lr"].default if "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        f"`lr` is not set, so `WarmupCosineLR` rises to the default of {chosen.built}"
        + (f", {default:g}" if default is not None else ""),
        help="add `lr`",
        related=[("the schedule is set here", "scheduler.type")],
        part="key",
    )


# Minimum and maximum learning rates of a schedule.

_PAIRS = (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr"))


@rule("DSC571", effect="wasteful", source=f"{_FILE}:WarmupLR.__init__")
def warm_up_that_falls(ctx: Context) -> Iterator[Finding]:
    """The initial learning rate of the warmup is higher than the final one.

    DeepSpeed does not compare them, so the learning rate falls during warmup.

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
    arguments = configured_params(ctx, "scheduler")
    for low, high in _PAIRS:
        initial, final = as_number(arguments.get(low)), as_number(arguments.get(high))
        is_falling = initial is not None and final is not None and 0 <= final < initial
        if not is_falling or not _accepts_param(built_scheduler(ctx), low):
            continue
        yield ctx.at(
            f"scheduler.params.{low}",
            f"`{low}` ({quote_value(initial)}) is greater than `{high}` ({quote_value(final)}), so the learning rate"
            " falls during warmup",
            help=f"swap `{low}` and `{high}`",
            related=[("the other rate is set here", f"scheduler.params.{high}")],
            fix=Fix(
                f"swap `{low}` and `{high}`",
                (
                    SetValue(("scheduler", "params", low), final),
                    SetValue(("scheduler", "params", high), initial),
                ),
            ),
        )


def _accepts_param(chosen: BuiltClass | None, key: str) -> bool:
    return chosen is not None and chosen.kind is not None and key in chosen.accepts


@rule("DSC572", effect="crashes", source=f"{_FILE}:_format_param")
def rates_for_different_groups(ctx: Context) -> Iterator[Finding]:
    """Lists of learning rates that cannot match the optimizer's parameter groups.

    A list needs one number per parameter group. Two lists of different lengths can never both match, and an
    empty list never matches.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0.0],
        "warmup_max_lr": [0.001, 0.0001]}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.0,
        "warmup_max_lr": 0.001}}}
    """
    arguments = configured_params(ctx, "scheduler")
    lists = {key: value for key, value in arguments.items() if isinstance(value, list)}
    if not lists:
        return
    chosen = built_scheduler(ctx)
    for key, value in lists.items():
        if not value and key in _RATES and _accepts_param(chosen, key):
            yield ctx.at(
                f"scheduler.params.{key}",
                f"`{key}` is an empty list, but there is at least one parameter group",
                help="use one number for all groups",
            )
    for low, high in _PAIRS:
        low_rates, high_rates = lists.get(low), lists.get(high)
        if low_rates and high_rates and len(low_rates) != len(high_rates) and _accepts_param(chosen, low):
            yield ctx.at(
                f"scheduler.params.{high}",
                f"`{high}` has {len(high_rates)} rates and `{low}` has {len(low_rates)}, but each needs one"
                " per parameter group",
                help="use one number for all groups, or lists of the same length",
                related=[("the other list is here", f"scheduler.params.{low}")],
            )


_RATES = ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "cycle_max_lr", "lr_range_test_min_lr")


# Warmup: its length and its curve.

_PARAMS = "scheduler.params"
_WARMUP = f"{_PARAMS}.warmup_num_steps"
_CURVE = f"{_PARAMS}.warmup_type"
_MIN_STEPS = 500
"""Number of warmup steps below which the shape of the curve hardly matters."""


def _warmup_steps(ctx: Context) -> Json:
    """Return the number of warmup steps, or None if the schedule has no warmup.

    Raises:
        SkipRule: the consumer resolves the number.
    """
    chosen = built_scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_num_steps" not in chosen.accepts:
        return None
    steps = ctx.value(_WARMUP) if ctx.has(_WARMUP) else chosen.params["warmup_num_steps"].default
    return as_number(steps)


@rule("DSC561", effect="altered", since="0.3.12", source=f"{_FILE}:WarmupLR.__init__")
def single_warm_up_step(ctx: Context) -> Iterator[Finding]:
    """`warmup_num_steps` is less than 2, and DeepSpeed uses 2.

    Since 0.19.3 this applies only to 1: DeepSpeed rejects 0 and negative numbers.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}
    """
    if "scheduler" not in ctx.data or not ctx.has(_WARMUP):
        return
    steps = _warmup_steps(ctx)
    if steps is not None and steps < 2 and (steps == 1 or ctx.before("0.19.3")):
        yield ctx.at(
            _WARMUP,
            f"`warmup_num_steps` is {quote_value(steps)}, but DeepSpeed uses 2",
            help="set it to 2",
            fix=Fix("replace with 2", (SetValue(("scheduler", "params", "warmup_num_steps"), 2),), safe=True),
        )


@rule("DSC562", effect="wasteful", since="0.3.1", source=f"{_FILE}:WarmupDecayLR.__init__")
def schedule_shorter_than_warm_up(ctx: Context) -> Iterator[Finding]:
    """`total_num_steps` is less than the number of warmup steps.

    Training ends before the learning rate reaches its maximum. `warmup_num_steps` is 1000 by default.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500,
        "warmup_num_steps": 50}}}
    """
    total = configured_params(ctx, "scheduler").get("total_num_steps")
    chosen = built_scheduler(ctx)
    if not is_number(total) or (chosen and "total_num_steps" not in chosen.accepts):
        return
    steps = _warmup_steps(ctx)
    if steps is not None and total < steps:
        default = "" if ctx.has(_WARMUP) else " (the default of `warmup_num_steps`)"
        yield ctx.at(
            f"{_PARAMS}.total_num_steps",
            f"`total_num_steps` is {quote_value(total)}, but warmup alone takes {steps} steps{default}",
            help=f"set `warmup_num_steps` to less than {quote_value(total)}, or set `total_num_steps` to "
            f"more than {steps}",
            related=[("the warmup is set here", _WARMUP)] if ctx.has(_WARMUP) else [],
        )


@rule("DSC563", effect="altered", since="0.5.7", source=f"{_FILE}:WarmupLR.__init__")
def unknown_warm_up_curve(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is neither "log" nor "linear", and DeepSpeed uses "log".

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}}
    """
    curve = configured_params(ctx, "scheduler").get("warmup_type", "log")
    if curve in ("log", "linear"):
        return
    chosen = built_scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_type" not in chosen.accepts:
        return
    crashes = isinstance(curve, list | dict)  # DeepSpeed looks it up in a set, and lists are not hashable
    intended = curve.strip().lower() if isinstance(curve, str) else ""
    yield ctx.at(
        _CURVE,
        f'`warmup_type` is {quote_value(curve)}, but DeepSpeed supports only `"log"` and `"linear"`'
        + ("" if crashes else ', and uses `"log"`'),
        help='use `"linear"` or `"log"`',
        effect="crashes" if crashes else "altered",
        fix=Fix(
            'replace with `"log"`, the effective value',
            (SetValue(("scheduler", "params", "warmup_type"), "log"),),
            safe=True,
        )
        if not crashes and intended != "linear"
        else Fix('replace with `"linear"`', (SetValue(("scheduler", "params", "warmup_type"), "linear"),))
        if intended == "linear"
        else None,
    )


@rule("DSC564", effect="wasteful", since="0.5.7", source=f"{_FILE}:WarmupLR._get_gamma")
def logarithmic_warm_up(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is not set, so the warmup is logarithmic and steep, not linear.

    Most frameworks warm up linearly. With DeepSpeed's default, the learning rate completes half of its
    increase after the square root of the steps, so a long warmup runs mostly near the maximum rate. Reported
    for warmups of 500 steps or more.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "log"}}}
    """
    arguments = configured_params(ctx, "scheduler")
    if "warmup_num_steps" not in arguments or "warmup_type" in arguments:
        return
    steps = _warmup_steps(ctx)
    if steps is not None and _MIN_STEPS <= steps < inf:
        yield ctx.at(
            _WARMUP,
            f"the warmup is logarithmic unless `warmup_type` is set: half of the increase is over by step"
            f" {isqrt(int(steps))} of {quote_value(steps)}",
            help='add `"warmup_type": "linear"`, or `"log"` to keep the curve',
            fix=Fix(
                'set `warmup_type` to `"log"`, the effective value',
                (SetValue(("scheduler", "params", "warmup_type"), "log"),),
            ),
        )


# Valid step counts.

_POSITIVE_INTEGERS = {"warmup_num_steps": "0.19.3", "lr_range_test_step_size": "0.19.4"}
"""Params that have to be positive integers, and the first release that checks them."""
_CYCLE_HALVES = {
    "cycle_first_step_size": "a positive number",
    "cycle_second_step_size": "a non-negative number",
}
"""Halves of a `OneCycle`, which DeepSpeed also converts from strings, and the numbers that it accepts for them."""


@rule("DSC560", effect="crashes", source=f"{_FILE}:WarmupLR.__init__")
def invalid_step_count(ctx: Context) -> Iterator[Finding]:
    """A step count is 0, negative, or not an integer.

    `warmup_num_steps` (since 0.19.3) and `lr_range_test_step_size` (since 0.19.4) have to be positive
    integers. Neither 0, to disable the warmup, nor 1000.0 is accepted. For `OneCycle`, the first half has to
    be longer than 0, and the second may be 0.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}
    """
    arguments = configured_params(ctx, "scheduler")
    chosen = built_scheduler(ctx) if arguments else None
    if chosen is None:
        return
    for key in arguments.keys() & chosen.accepts:
        accepted = _describe_accepted_values(ctx, chosen, key)
        if accepted is not None:
            path = f"{_PARAMS}.{key}"
            value = ctx.value(path)
            yield ctx.at(
                path,
                f"`{key}` is {_format_value_with_type(value)}, but {chosen.built} requires {accepted}",
                help="use 1 for almost no warmup"
                if key == "warmup_num_steps" and value == 0
                else f"use {quote_value(int(value))}"
                if isinstance(value, float) and value > 0 and value.is_integer()
                else f"use {accepted}",
                fix=_fix_step_count(key, value),
            )


def _format_value_with_type(value: Json) -> str:
    return (
        quote_value(value)
        if value is None or isinstance(value, int | float)
        else f"{json_kind(value)}, {quote_value(value)}"
    )


def _describe_accepted_values(ctx: Context, chosen: BuiltClass, key: str) -> str | None:
    """Describe the values that the release accepts, or return None if the configured value is valid."""
    if chosen.kind is None:
        return None
    if key in _POSITIVE_INTEGERS:
        value = ctx.value(f"{_PARAMS}.{key}")
        if value == "auto":  # reported by `unresolved-auto`
            return None
        if ctx.since(_POSITIVE_INTEGERS[key]):
            return None if isinstance(value, int) and value > 0 else "a positive integer"
        return "a nonzero number" if value == 0 and key == "lr_range_test_step_size" else None
    if key in _CYCLE_HALVES:
        value = ctx.value(f"{_PARAMS}.{key}")
        return None if _is_valid_cycle_half(ctx, key, value) else _CYCLE_HALVES[key]
    return None


def _is_valid_cycle_half(ctx: Context, key: str, value: Json) -> bool:
    if value is None:
        return key == "cycle_second_step_size"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    if ctx.before("0.19.4"):  # no check yet, but OneCycle divides by the length of the cycle
        other = "cycle_second_step_size" if key == "cycle_first_step_size" else ""
        return number != 0 or not other or bool(configured_params(ctx, "scheduler").get(other))
    return number > 0 or (number == 0 and key == "cycle_second_step_size")


def _fix_step_count(key: str, value: Json) -> Fix | None:
    path = ("scheduler", "params", key)
    if isinstance(value, float) and value.is_integer() and value > 0 and key in _POSITIVE_INTEGERS:
        return Fix(f"replace with {quote_value(int(value))}", (SetValue(path, int(value)),), safe=True)
    if (number := parse_integer(value)) is not None and number > 0:
        return Fix(
            f"replace with {quote_value(number)}, without quotes", (SetValue(path, number),), safe=True
        )
    if key == "warmup_num_steps" and isinstance(value, int) and value == 0:
        return Fix("replace with 1", (SetValue(path, 1),))
    return None


# How `OneCycle` changes the optimizer's momentum.

_MOMENTUM = "runtime/lr_schedules.py:OneCycle._initialize_momentum"
_SWITCH = ("scheduler", "params", "cycle_momentum")


def _is_one_cycle(ctx: Context) -> bool:
    return written_type(ctx, "scheduler") == "OneCycle"


@rule("DSC575", effect="altered", source=_MOMENTUM)
def cycled_momentum_over_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` also cycles the momentum and overwrites the optimizer's `betas`.

    Unless `cycle_momentum` is false, the first beta moves from `cycle_max_mom` to `cycle_min_mom` and back,
    and the second is 0.99, whatever the config sets.

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
    arguments = configured_params(ctx, "scheduler")
    betas = configured_params(ctx, "optimizer").get("betas")
    if not isinstance(betas, list) or not _is_one_cycle(ctx) or not arguments.get("cycle_momentum", True):
        return
    if not _has_betas(ctx):
        return
    high, low = arguments.get("cycle_max_mom", 0.9), arguments.get("cycle_min_mom", 0.8)
    yield ctx.at(
        "optimizer.params.betas",
        f"`betas` is {quote_value(betas)}, but is never used: `OneCycle` moves the first between {quote_value(low)} and"
        f" {quote_value(high)}, and sets the second to 0.99",
        help="set `scheduler.params.cycle_momentum` to `false`, or remove `betas`",
        related=[("the schedule is set here", "scheduler.type")],
        fix=Fix("set `cycle_momentum` to `false`", (SetValue(_SWITCH, False),)),
    )


def _has_betas(ctx: Context) -> bool:
    """Return whether the configured optimizer class has `betas`; Muon does not."""
    chosen = built_optimizer(ctx)
    return chosen is not None and chosen.name != "Muon" and "betas" in chosen.accepts


_MOMENTUM_KEYS = ("cycle_momentum", "cycle_min_mom", "cycle_max_mom", "decay_mom_rate")


@rule("DSC576", effect="ignored", source=_MOMENTUM)
def momentum_cycle_without_betas(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` is configured to cycle the momentum of an optimizer without `betas`.

    It does not cycle any other momentum: that of `SGD`, `RMSprop` or Muon does not change, and DeepSpeed logs a
    warning.

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
    arguments = configured_params(ctx, "scheduler")
    unused = [key for key in _MOMENTUM_KEYS if key in arguments]
    if not unused or not arguments.get("cycle_momentum", True):
        return
    chosen = built_optimizer(ctx)
    if chosen is None or _has_betas(ctx):
        return
    names = join_alternatives((f"`{key}`" for key in unused), "and")
    yield ctx.at(
        f"scheduler.params.{unused[0]}",
        f"{names} {'has' if len(unused) == 1 else 'have'} no effect: `OneCycle` cycles momentum only through"
        f" `betas`, which {chosen.built} does not have",
        help="remove " + ("it" if len(unused) == 1 else "them"),
        part="key",
        related=[("the optimizer is set here", "optimizer.type")],
        fix=Fix(
            f"remove {names}", tuple(RemoveKey(("scheduler", "params", key)) for key in unused), safe=True
        ),
    )


@rule("DSC577", effect="ignored", since="0.5.5", source="runtime/lr_schedules.py:OneCycle._initialize_cycle")
def decay_without_step_size(ctx: Context) -> Iterator[Finding]:
    """`OneCycle` has a decay rate, but `decay_step_size` is 0, its default.

    Then nothing decays, whatever `decay_lr_rate` and `decay_mom_rate` are.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.0001,
        "cycle_max_lr": 0.001, "decay_lr_rate": 0.1, "decay_step_size": 1000}}}
    """
    arguments = configured_params(ctx, "scheduler")
    rates = [key for key in ("decay_lr_rate", "decay_mom_rate") if arguments.get(key)]
    if rates and _is_one_cycle(ctx) and arguments.get("decay_step_size", 0) == 0:
        names = join_alternatives((f"`{key}`" for key in rates), "and")
        yield ctx.at(
            f"scheduler.params.{rates[0]}",
            f"{names} {'has' if len(rates) == 1 else 'have'} no effect: `decay_step_size` is 0"
            + ("" if "decay_step_size" in arguments else ", its default")
            + ", so nothing decays",
            help="add `decay_step_size`, the number of steps from one decay to the next",
        )
