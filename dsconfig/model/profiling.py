"""Profilers: FLOPS of the model, sizes and times of collectives, throughput of the engine."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, NonObjectValues, SectionReading
from dsconfig.model.section import Names, RootKeys, Section


class FlopsProfiler(Section):
    """Reports the operations, parameters and latency of each module in one step."""

    SOURCE = "profiling/config.py:DeepSpeedFlopsProfilerConfig._initialize"

    enabled: Annotated[bool, Key(since="0.3.11")] = False
    """Profile one step, which becomes slow; also enables `wall_clock_breakdown`."""
    recompute_fwd_factor: Annotated[float, Key(since="0.9.3")] = 0.0
    """Extra forward passes to count in each step: 1.0 when all activations are recomputed."""
    profile_step: Annotated[int, Key(since="0.3.12", unit="steps", miswritten=("flops_profiler.step",))] = 1
    """Global step to profile; choose one after the warm-up."""
    module_depth: Annotated[int, Key(since="0.3.11")] = -1
    """Depth of the module tree to which totals are printed; -1 prints all levels."""
    top_modules: Annotated[int, Key(since="0.3.11", defaults=(("0.3.16", 3),))] = 1
    """Number of modules to list at each depth, most expensive first."""
    detailed: Annotated[bool, Key(since="0.3.12")] = True
    """Print the profile of every module in the tree, not only the totals."""
    output_file: Annotated[str | None, Key(since="0.4.0")] = None
    """File for the report; null prints it."""
    start_step: Annotated[
        int,
        Key(since="0.3.11", until="0.3.11", replaced_by="flops_profiler.profile_step", rewrite="rename"),
    ] = 5
    """First step to profile."""
    end_step: Annotated[
        int, Key(since="0.3.11", until="0.3.11", replaced_by="flops_profiler.profile_step")
    ] = 6
    """Step at which profiling ends."""


class CommsLogger(Section):
    """Logs size, time and bandwidth of every collective that goes through `deepspeed.comm`."""

    SOURCE = "comm/config.py:CommsLoggerConfig"
    READS = (
        SectionReading("pydantic", since="0.7.0", until="0.14.5", unknown="rejected"),
        SectionReading("pydantic", since="0.15.0", unknown="rejected", drops_auto=True),
    )

    enabled: Annotated[bool, Key(since="0.7.0")] = False
    """Log collectives. Each of them is synchronized, which slows training down."""
    prof_all: Annotated[bool, Key(since="0.7.0")] = True
    """Log every operation; `prof_ops` is then ignored."""
    prof_ops: Annotated[Names, Key(since="0.7.0")] = Field(default=[])
    """Operations to log if `prof_all` is false, by their names in `deepspeed.comm`."""
    verbose: Annotated[bool, Key(since="0.7.0")] = False
    """Print each collective as it happens, not only a summary on request."""
    debug: Annotated[bool, Key(since="0.7.0")] = False
    """Add the calling function to the name of each entry."""


class ThroughputTimer(Section):
    """Timer for the samples per second that the engine prints."""

    SOURCE = "utils/config.py:DeepSpeedThroughputTimerConfig"
    READS = (SectionReading("pydantic", since="0.14.3", unknown="rejected", drops_auto=True),)

    enabled: Annotated[bool, Key(since="0.14.3")] = True
    """Measure throughput."""
    synchronized: Annotated[bool, Key(since="0.14.3")] = True
    """Synchronize the device before the timer is read: exact, but interrupts the queue of kernels."""


class Timers(Section):
    """Timers of the engine. Only `throughput` is read."""

    SOURCE = "utils/config.py:get_timers_config"

    throughput: Annotated[ThroughputTimer, Key(since="0.14.3")] = Field(default_factory=ThroughputTimer)
    """Settings of the throughput timer."""


class ProfilingRootKeys(RootKeys):
    """Root keys of profilers and timers."""

    flops_profiler: Annotated[
        FlopsProfiler,
        Key(
            since="0.3.11",
            source="profiling/config.py:DeepSpeedFlopsProfilerConfig.__init__",
            opened_by="flops_profiler.enabled",
        ),
    ] = Field(default_factory=FlopsProfiler)
    """Profiles operations, parameters and latency of each module."""
    comms_logger: Annotated[
        CommsLogger,
        Key(
            since="0.7.0",
            source="comm/config.py:DeepSpeedCommsConfig.__init__",
            miswritten=("comms_config",),
        ),
    ] = Field(default_factory=CommsLogger)
    """Logs size and bandwidth of collectives."""
    timers: Annotated[
        Timers,
        Key(
            since="0.14.3",
            source="utils/config.py:get_timers_config",
            takes=(NonObjectValues(("[]", "list", "string", "auto"), since="0.14.3"),),
        ),
    ] = Field(default_factory=Timers)
    """Timers of the engine: how throughput is measured."""
