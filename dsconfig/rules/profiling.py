"""Profilers, timers and the communication logger: their switches, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import described, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule

# Timers and other switches for diagnosis.

_SWITCHES = ("wall_clock_breakdown", "flops_profiler.enabled")


@rule(
    "DSC912",
    effect="rejected",
    since="0.4.0",
    source="runtime/config.py:DeepSpeedConfig._initialize_params",
)
def timer_switch_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """`wall_clock_breakdown` or `flops_profiler.enabled` is neither a boolean nor an integer.

    The profiler needs the timers, so DeepSpeed combines the two with a bitwise or, which takes no text, no
    null and no fractions. An "auto" is text.

    Bad:

        {"train_batch_size": 8, "wall_clock_breakdown": "auto"}

    Good:

        {"train_batch_size": 8, "wall_clock_breakdown": false}
    """
    values = [ctx.value(path) for path in _SWITCHES]
    if _combine(*values):
        return
    for path, value in zip(_SWITCHES, values, strict=True):
        if not _combine(value, False):
            yield ctx.at(
                path,
                f"`{path}` is {described(value)} and DeepSpeed combines "
                f"`{_SWITCHES[0]}` and `{_SWITCHES[1]}` with a bitwise or",
                help="write `true` or `false`",
            )


def _combine(left: Json, right: Json) -> bool:
    try:
        left | right
    except TypeError:
        return False
    return True


@rule("DSC913", effect="rejected", since="0.14.3", source="utils/config.py:get_timers_config")
def throughput_outside_an_object(ctx: Context) -> Iterator[Finding]:
    """`timers` is a list or a text that contains the word "throughput".

    DeepSpeed asks whether "throughput" is in `timers`, which a list and a text can answer too, and then looks
    it up as a key, which they cannot.

    Bad:

        {"train_batch_size": 8, "timers": ["throughput"]}

    Good:

        {"train_batch_size": 8, "timers": {"throughput": {"enabled": true}}}
    """
    timers = ctx.raw("timers")
    if timers is not MISSING and isinstance(timers, list | str) and "throughput" in timers:
        yield ctx.at(
            "timers",
            f"`timers` is {described(timers)} where DeepSpeed expects an object",
            help='write `{"throughput": {"enabled": true}}`',
        )


class _Cost(NamedTuple):
    """A switch for diagnosis, and what it costs as long as it is on."""

    path: str
    cost: str
    off: Json = False


_COSTS = (
    _Cost("wall_clock_breakdown", "the device is waited for around every forward, backward and step"),
    _Cost("memory_breakdown", "device memory is queried and logged several times in every step"),
    _Cost("flops_profiler.enabled", "the timers of `wall_clock_breakdown` run in every step too"),
    _Cost("comms_logger.enabled", "the device is waited for after every collective, logged or not"),
    _Cost("zero_optimization.enable_sanity_checks", "the device is waited for to check every gradient"),
)


@rule(
    "DSC921",
    effect="wasteful",
    source="runtime/engine.py:DeepSpeedEngine, comm/comm.py:timed_op",
)
def diagnosis_left_on(ctx: Context) -> Iterator[Finding]:
    """A switch for diagnosis is on, and slows every step of the training down.

    `wall_clock_breakdown`, `memory_breakdown`, the flops profiler, the log of collectives and ZeRO's sanity
    checks wait for the device, so that computing and communicating no longer overlap. The flops profiler also
    turns `wall_clock_breakdown` on. They are for a few steps, not for a whole run.

    Bad:

        {"train_batch_size": 8, "wall_clock_breakdown": true}

    Good:

        {"train_batch_size": 8, "wall_clock_breakdown": false}

    Fixed:

        {"train_batch_size": 8, "wall_clock_breakdown": false}
    """
    for row in _COSTS:
        if row.path.split(".", 1)[0] not in ctx.data or not ctx.has(row.path) or ctx.key(row.path) is None:
            continue
        if ctx.is_on(row.path) and isinstance(ctx.value(row.path), int):
            name = row.path.rsplit(".", 1)[-1] if row.path.count("enabled") == 0 else row.path
            yield ctx.at(
                row.path,
                f"`{name}` is on: {row.cost}",
                help="switch it off for training that is not being examined",
                fix=Fix(f"set `{name}` to `false`", (Set(ctx.written_path(row.path), row.off),)),
            )


# The flops profiler: which step it profiles.


@rule("DSC922", effect="ignored", since="0.3.12", source="runtime/engine.py:DeepSpeedEngine.forward")
def flops_profile_of_no_step(ctx: Context) -> Iterator[Finding]:
    """`flops_profiler.profile_step` is a step that never comes.

    One step is profiled: the one whose number, counted from 0, is this. No step has a negative number.

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
            f"`profile_step` is {quoted(step)}, and no step has this number: nothing is profiled",
            help="give the number of a step, 1 or more to leave the warm-up out",
            related=[("the profiler is switched on here", "flops_profiler.enabled")],
        )


@rule("DSC923", effect="wasteful", since="0.3.12", source="runtime/engine.py:DeepSpeedEngine.forward")
def flops_profile_of_first_step(ctx: Context) -> Iterator[Finding]:
    """`flops_profiler.profile_step` is 0, the step in which everything is slow.

    The first step allocates memory, builds communicators and compiles kernels, and its latencies say nothing
    of the others.

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
            "`profile_step` is `0`, the first step, whose latencies hold the warm-up",
            help="give the number of a later step",
        )


# The log of collectives.


@rule("DSC920", effect="ignored", since="0.7.0", source="comm/comm.py:timed_op")
def listed_operations_without_effect(ctx: Context) -> Iterator[Finding]:
    """`comms_logger.prof_ops` lists operations, and `prof_all` logs all of them anyway.

    `prof_all` is true unless it is switched off.

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
        said = ctx.has("comms_logger.prof_all")
        yield ctx.at(
            path,
            f"`prof_ops` is {quoted(listed)}, but `prof_all` is `true`{'' if said else ' by default'}, "
            "which logs every operation",
            help="set `prof_all` to `false`, or remove `prof_ops`",
            related=[("every operation is asked for here", "comms_logger.prof_all")] if said else [],
            fix=Fix("set `prof_all` to `false`", (Set(("comms_logger", "prof_all"), False),)),
        )
