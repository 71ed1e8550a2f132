"""The flops profiler: which step it profiles."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule


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
    if not isinstance(ctx.data.get("flops_profiler"), dict) or not ctx.on("flops_profiler.enabled"):
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
    if not isinstance(ctx.data.get("flops_profiler"), dict) or not ctx.on("flops_profiler.enabled"):
        return
    if ctx.has(path) and ctx.value(path) == 0:
        yield ctx.at(
            path,
            "`profile_step` is `0`, the first step, whose latencies hold the warm-up",
            help="give the number of a later step",
        )
