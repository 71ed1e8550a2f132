"""Profilers, timers and the communication logger: invalid switches and their cost."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import describe_value, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding

# Timers and other diagnostic switches.

_SWITCHES = ("wall_clock_breakdown", "flops_profiler.enabled")


@rule(
    "DSC912",
    effect="rejected",
    since="0.4.0",
    source="runtime/config.py:DeepSpeedConfig._initialize_params",
)
def timer_switch_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """`wall_clock_breakdown` or `flops_profiler.enabled` is neither a boolean nor an integer.

    The profiler needs the timers, so DeepSpeed combines the two keys with a bitwise or, which raises for
    strings, null and fractions. An unresolved "auto" is a string.

    Bad:

        {"train_batch_size": 8, "wall_clock_breakdown": "auto"}

    Good:

        {"train_batch_size": 8, "wall_clock_breakdown": false}
    """
    values = [ctx.value(path) for path in _SWITCHES]
    if _supports_or_operator(*values):
        return
    for path, value in zip(_SWITCHES, values, strict=True):
        if not _supports_or_operator(value, False):
            yield ctx.at(
                path,
                f"`{path}` is {describe_value(value)} but DeepSpeed combines "
                f"`{_SWITCHES[0]}` and `{_SWITCHES[1]}` with a bitwise or",
                help=f"set `{path}` to `true` or `false`",
            )


def _supports_or_operator(left: Json, right: Json) -> bool:
    try:
        left | right
    except TypeError:
        return False
    return True


@rule("DSC913", effect="rejected", since="0.14.3", source="utils/config.py:get_timers_config")
def throughput_outside_an_object(ctx: Context) -> Iterator[Finding]:
    """`timers` is a list or a string that contains "throughput".

    DeepSpeed tests `"throughput" in timers`, which is true for such a list or string, and then uses it as a key, which
    raises.

    Bad:

        {"train_batch_size": 8, "timers": ["throughput"]}

    Good:

        {"train_batch_size": 8, "timers": {"throughput": {"enabled": true}}}
    """
    timers = ctx.raw("timers")
    if timers is not MISSING and isinstance(timers, list | str) and "throughput" in timers:
        yield ctx.at(
            "timers",
            f"`timers` is {describe_value(timers)} but DeepSpeed expects an object",
            help='use `{"throughput": {"enabled": true}}`',
        )


class _CostlySwitch(NamedTuple):
    """A diagnostic switch, and the cost of leaving it on."""

    path: str
    cost: str
    off: Json = False


_COSTS = (
    _CostlySwitch(
        "wall_clock_breakdown", "the device is synchronized around every forward, backward and step"
    ),
    _CostlySwitch("memory_breakdown", "device memory is queried and logged several times per step"),
    _CostlySwitch("flops_profiler.enabled", "the timers of `wall_clock_breakdown` run in every step too"),
    _CostlySwitch("comms_logger.enabled", "the device is synchronized after every collective, logged or not"),
    _CostlySwitch(
        "zero_optimization.enable_sanity_checks", "the device is synchronized to check every gradient"
    ),
)


@rule(
    "DSC921",
    effect="wasteful",
    source="runtime/engine.py:DeepSpeedEngine, comm/comm.py:timed_op",
)
def diagnosis_left_on(ctx: Context) -> Iterator[Finding]:
    """A diagnostic switch is on and slows down every training step.

    `wall_clock_breakdown`, `memory_breakdown`, the flops profiler, the communication logger and ZeRO's sanity
    checks synchronize the device, so computation and communication no longer overlap. The flops profiler also
    enables `wall_clock_breakdown`. Use them for a few steps, not for a whole run.

    Bad:

        {"train_batch_size": 8, "wall_clock_breakdown": true}

    Good:

        {"train_batch_size": 8, "wall_clock_breakdown": false}

    Fixed:

        {"train_batch_size": 8, "wall_clock_breakdown": false}
    """
    for row in _COSTS:
        if not ctx.has(row.path) or ctx.key(row.path) is None:
            continue
        if ctx.is_on(row.path) and isinstance(ctx.value(row.path), int):
            name = row.path.rsplit(".", 1)[-1] if row.path.count("enabled") == 0 else row.path
            yield ctx.at(
                row.path,
                f"`{name}` is on: {row.cost}",
                help=f"set `{name}` to `false`, unless you are profiling or debugging",
                fix=Fix(f"set `{name}` to `false`", (SetValue(ctx.written_path(row.path), row.off),)),
            )


# The flops profiler: the step that it profiles.


@rule("DSC922", effect="ignored", since="0.3.12", source="runtime/engine.py:DeepSpeedEngine.forward")
def flops_profile_of_no_step(ctx: Context) -> Iterator[Finding]:
    """`flops_profiler.profile_step` is not the number of a step, so nothing is profiled.

    The profiler runs in one step, whose number, counted from 0, is this value. No step has a negative or
    fractional number.

    Bad:

        {"train_batch_size": 8, "flops_profiler": {"enabled": true, "profile_step": -1}}

    Good:

        {"train_batch_size": 8, "flops_profiler": {"enabled": true, "profile_step": 10}}
    """
    path = "flops_profiler.profile_step"
    if not isinstance(ctx.data.get("flops_profiler"), dict) or not ctx.is_on("flops_profiler.enabled"):
        return
    step = ctx.value(path)
    if isinstance(step, int | float) and not (step >= 0 and step % 1 == 0):
        yield ctx.at(
            path,
            f"`profile_step` is {quote_value(step)}, but no step has this number, so nothing is profiled",
            help="use a positive integer; step 0 includes the warmup",
            related=[("the profiler is enabled here", "flops_profiler.enabled")],
        )


@rule("DSC923", effect="wasteful", since="0.3.12", source="runtime/engine.py:DeepSpeedEngine.forward")
def flops_profile_of_first_step(ctx: Context) -> Iterator[Finding]:
    """`flops_profiler.profile_step` is 0, the step that includes all warmup.

    The first step allocates memory, creates communicators and compiles kernels. Its latencies do not
    represent the other steps.

    Bad:

        {"train_batch_size": 8, "flops_profiler": {"enabled": true, "profile_step": 0}}

    Good:

        {"train_batch_size": 8, "flops_profiler": {"enabled": true, "profile_step": 10}}
    """
    path = "flops_profiler.profile_step"
    if not isinstance(ctx.data.get("flops_profiler"), dict) or not ctx.is_on("flops_profiler.enabled"):
        return
    if ctx.has(path) and ctx.value(path) == 0:
        yield ctx.at(
            path,
            "`profile_step` is `0`, the first step, whose latencies include the warmup",
            help="use the number of a later step",
        )


# The communication logger.


@rule("DSC920", effect="ignored", since="0.7.0", source="comm/comm.py:timed_op")
def listed_operations_without_effect(ctx: Context) -> Iterator[Finding]:
    """`comms_logger.prof_ops` lists operations, but `prof_all` logs all of them.

    `prof_all` is true unless it is set to false.

    Bad:

        {"train_batch_size": 8, "comms_logger": {"enabled": true, "prof_ops": ["all_reduce"]}}

    Good:

        {"train_batch_size": 8, "comms_logger": {
            "enabled": true, "prof_all": false, "prof_ops": ["all_reduce"]}}

    Fixed:

        {"train_batch_size": 8, "comms_logger": {
            "enabled": true, "prof_ops": ["all_reduce"], "prof_all": false}}
    """
    path = "comms_logger.prof_ops"
    if not isinstance(ctx.data.get("comms_logger"), dict):
        return
    listed = ctx.value(path)
    if listed and ctx.is_on("comms_logger.enabled") and ctx.is_on("comms_logger.prof_all"):
        is_set = ctx.has("comms_logger.prof_all")
        yield ctx.at(
            path,
            f"`prof_ops` is {quote_value(listed)}, but `prof_all` is `true`{'' if is_set else ' by default'}, "
            "which logs every operation",
            help="set `prof_all` to `false`, or remove `prof_ops`",
            related=[("logging of every operation is set here", "comms_logger.prof_all")] if is_set else [],
            fix=Fix("set `prof_all` to `false`", (SetValue(("comms_logger", "prof_all"), False),)),
        )
