"""The learning-rate scheduler that DeepSpeed builds, and the params that each type of it takes."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializeAsAny

from dsconfig.model.annotations import ABSENT, Auto, Checked, FreeForm, NonNegativeInt, PositiveInt
from dsconfig.model.key import ANY_SHAPE, Key, Reads, Takes, Was
from dsconfig.model.section import RootKeys, Section

Rates: TypeAlias = float | list[float]
"""One learning rate, or one for each parameter group."""
Whole: TypeAlias = Annotated[int, Checked(("float", None, None, None, None))]
"""Meant to be whole; DeepSpeed calculates with fractions just as well."""
Length: TypeAlias = Annotated[int | float, Checked(("float", None, None, None, None))]
Curve: TypeAlias = Annotated[Literal["log", "linear"], Checked(("any",))]
"""Any other word counts as "log", with a warning."""
_CURVES = (("log", "steep at first"), ("linear", "straight"))


class SchedulerParams(Section):
    """Keyword arguments of a scheduler; this class holds what DeepSpeed's own share."""

    SOURCE = "runtime/config.py:get_scheduler_params"
    READS = (Reads("hand", unknown="kept"),)

    last_batch_iteration: Annotated[Whole, Key(since="0.1.0", source="runtime/lr_schedules.py")] = -1
    """Step after which to go on; -1 begins anew."""


class LRRangeTestParams(SchedulerParams):
    """Raise the learning rate until training breaks, to learn how high it may go."""

    SOURCE = "runtime/lr_schedules.py:LRRangeTest"

    lr_range_test_min_lr: Annotated[Rates, Key(since="0.1.0")] = 1e-3
    """Learning rate to begin with."""
    lr_range_test_step_size: Annotated[
        PositiveInt, Key(since="0.1.0", unit="steps", was=(Was("0.19.3", float),))
    ] = 2000
    """Steps from one rise to the next."""
    lr_range_test_step_rate: Annotated[float, Key(since="0.1.0")] = 1.0
    """How much the learning rate gains in that time, as a multiple of the first one."""
    lr_range_test_staircase: Annotated[bool, Key(since="0.1.0")] = False
    """Rise in jumps instead of at every step."""


class OneCycleParams(SchedulerParams):
    """Up, down, and then slowly towards nothing; the momentum goes the other way."""

    SOURCE = "runtime/lr_schedules.py:OneCycle"

    cycle_min_lr: Annotated[Rates, Key(since="0.1.0")]
    """Learning rate at both ends of the cycle."""
    cycle_max_lr: Annotated[Rates, Key(since="0.1.0")]
    """Learning rate at the top of the cycle."""
    cycle_first_step_size: Annotated[
        Annotated[PositiveInt, Checked(("any",))], Key(since="0.1.0", unit="steps")
    ] = 2000
    """Length of the way up."""
    cycle_second_step_size: Annotated[
        Annotated[NonNegativeInt | None, Checked(("any",))], Key(since="0.1.0", unit="steps")
    ] = None
    """Length of the way down; null makes it as long as the way up."""
    cycle_first_stair_count: Annotated[Whole, Key(since="0.1.0")] = 0
    """Stairs on the way up; 0 is a smooth slope."""
    cycle_second_stair_count: Annotated[Whole | None, Key(since="0.1.0")] = None
    """Stairs on the way down; null takes as many as on the way up."""
    decay_step_size: Annotated[Whole, Key(since="0.1.0", unit="steps")] = 0
    """Steps of one decay after the cycle; 0 decays not at all."""
    decay_lr_rate: Annotated[float, Key(since="0.1.0")] = 0.0
    """How strongly the learning rate falls with each decay."""
    cycle_momentum: Annotated[bool, Key(since="0.1.0")] = True
    """Move the momentum too; writes over the optimizer's betas."""
    cycle_min_mom: Annotated[float, Key(since="0.1.0")] = 0.8
    """Momentum at the top of the cycle."""
    cycle_max_mom: Annotated[float, Key(since="0.1.0")] = 0.9
    """Momentum at both ends of the cycle."""
    decay_mom_rate: Annotated[float, Key(since="0.1.0")] = 0.0
    """How strongly the momentum changes with each decay."""


class WarmupLRParams(SchedulerParams):
    """Up to a learning rate, and then stay there."""

    SOURCE = "runtime/lr_schedules.py:WarmupLR"

    warmup_min_lr: Annotated[Rates | Auto, Key(since="0.1.0", fills=("transformers", "accelerate"))] = 0.0
    """Learning rate to begin with."""
    warmup_max_lr: Annotated[
        Rates | Auto | None,
        Key(
            since="0.1.0",
            fills=("transformers", "accelerate"),
            defaults=(("0.17.1", 0.001),),
            was=(Was("0.17.1", Rates),),
        ),
    ] = None
    """Learning rate to reach; null takes the optimizer's."""
    warmup_num_steps: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.1.0",
            unit="steps",
            fills=("transformers", "accelerate"),
            was=(Was("0.19.2", float),),
        ),
    ] = 1000
    """Length of the way up; 1 counts as 2."""
    warmup_type: Annotated[
        Curve,
        Key(
            since="0.5.7",
            known=("log", "linear"),
            means=_CURVES,
        ),
    ] = "log"
    """Shape of the way up: steep at first, or straight. Any other word becomes log, with a warning."""


class WarmupDecayLRParams(WarmupLRParams):
    """Up to a learning rate, and then straight down to zero."""

    SOURCE = "runtime/lr_schedules.py:WarmupDecayLR"

    total_num_steps: Annotated[
        Length | Auto, Key(since="0.3.1", unit="steps", fills=("transformers", "accelerate"))
    ]
    """Length of the whole schedule, the way up included."""
    warmup_max_lr: Annotated[
        Rates | Auto | None,
        Key(since="0.3.1", fills=("transformers", "accelerate"), was=(Was("0.17.1", Rates),)),
    ] = 0.001
    """Learning rate to reach; null takes the optimizer's."""


class WarmupCosineLRParams(SchedulerParams):
    """Up to the optimizer's learning rate, and then down along a cosine; in shares of that rate."""

    SOURCE = "runtime/lr_schedules.py:WarmupCosineLR"

    total_num_steps: Annotated[
        Length | Auto, Key(since="0.12.3", unit="steps", fills=("transformers", "accelerate"))
    ]
    """Length of the whole schedule, the way up included."""
    warmup_min_ratio: Annotated[float, Key(since="0.12.3")] = 0.0
    """Share of the learning rate to begin with."""
    warmup_num_steps: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.12.3",
            unit="steps",
            fills=("transformers", "accelerate"),
            was=(Was("0.19.2", float),),
        ),
    ] = 1000
    """Length of the way up; 1 counts as 2."""
    cos_min_ratio: Annotated[float, Key(since="0.12.3")] = 0.0001
    """Share of the learning rate to end with."""
    warmup_type: Annotated[
        Curve,
        Key(
            since="0.12.3",
            known=("log", "linear"),
            means=_CURVES,
        ),
    ] = "log"
    """Shape of the way up: steep at first, or straight. Any other word becomes log, with a warning."""


@dataclass(frozen=True, slots=True)
class SchedulerType:
    """A class of DeepSpeed's own, named exactly so."""

    name: str
    params: type[SchedulerParams]
    since: str
    until: str | None = None
    required: tuple[str, ...] = ()
    notes: str = ""


SCHEDULERS: tuple[SchedulerType, ...] = (
    SchedulerType("LRRangeTest", LRRangeTestParams, "0.1.0"),
    SchedulerType("OneCycle", OneCycleParams, "0.1.0", required=("cycle_min_lr", "cycle_max_lr")),
    SchedulerType("WarmupLR", WarmupLRParams, "0.1.0"),
    SchedulerType("WarmupDecayLR", WarmupDecayLRParams, "0.3.1", required=("total_num_steps",)),
    SchedulerType("WarmupCosineLR", WarmupCosineLRParams, "0.12.3", required=("total_num_steps",)),
)
"""DeepSpeed's own types; any other name is looked up in `torch.optim.lr_scheduler`, letter by letter."""


class Scheduler(Section):
    """The learning-rate scheduler that the engine builds, and moves on after every optimizer step."""

    SOURCE = "runtime/config.py:get_scheduler_name"

    type: Annotated[
        str | None,
        Key(since="0.1.0", known=tuple(kind.name for kind in SCHEDULERS), miswritten=("scheduler_name",)),
    ] = None
    """Name of the scheduler: one of DeepSpeed's own or a class of `torch.optim.lr_scheduler`. The latter
    work only without ZeRO, in fp32. Without it the whole section has no effect."""
    params: Annotated[
        SerializeAsAny[SchedulerParams] | FreeForm,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_scheduler_params",
            takes=(Takes(ANY_SHAPE, since="0.1.0"),),
            opened_by="scheduler.type",
        ),
    ] = ABSENT
    """Arguments for the scheduler: the params class of its type, or, for a class of PyTorch, a free mapping
    with that class's own keywords. Must be there, if only as an empty object; no release looks at its shape
    at load."""


class SchedulerKeys(RootKeys):
    """The root key of the scheduler."""

    scheduler: Annotated[Scheduler, Key(since="0.1.0", source="runtime/config.py:get_scheduler_name")] = (
        Field(default_factory=Scheduler)
    )
    """The learning-rate scheduler that DeepSpeed builds. One that the script passes replaces it from 0.14.5
    on; up to 0.14.4 that is used only where this section names no `type`."""
