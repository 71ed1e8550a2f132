"""The learning-rate scheduler that DeepSpeed builds, and the params of each type."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SerializeAsAny

from dsconfig.model.key import ANY_SHAPE, EarlierType, Key, NonObjectValues, SectionReading
from dsconfig.model.section import (
    ABSENT,
    Auto,
    FreeForm,
    NonNegativeInt,
    PositiveInt,
    RootKeys,
    Section,
    TypeCheckedByDeepSpeed,
)

Rates: TypeAlias = float | list[float]
"""One learning rate, or one per parameter group."""
Whole: TypeAlias = Annotated[int, TypeCheckedByDeepSpeed(("float", None, None, None, None))]
"""Number of steps; DeepSpeed also accepts fractions."""
Length: TypeAlias = Annotated[int | float, TypeCheckedByDeepSpeed(("float", None, None, None, None))]
Curve: TypeAlias = Annotated[Literal["log", "linear"], TypeCheckedByDeepSpeed(("any",))]
"""DeepSpeed replaces any other value with "log" and warns."""
_CURVES = (("log", "logarithmic: steep at first"), ("linear", "at a constant rate"))


class SchedulerParams(Section):
    """Params that all of DeepSpeed's own schedulers share."""

    SOURCE = "runtime/config.py:get_scheduler_params"
    READS = (SectionReading("hand", unknown="kept"),)

    last_batch_iteration: Annotated[Whole, Key(since="0.1.0", source="runtime/lr_schedules.py")] = -1
    """Step from which the schedule resumes; -1 starts a new one."""


class LRRangeTestParams(SchedulerParams):
    """Learning-rate range test: increase the learning rate until training diverges, to find its maximum."""

    SOURCE = "runtime/lr_schedules.py:LRRangeTest"

    lr_range_test_min_lr: Annotated[Rates, Key(since="0.1.0")] = 1e-3
    """Initial learning rate."""
    lr_range_test_step_size: Annotated[
        PositiveInt, Key(since="0.1.0", unit="steps", was=(EarlierType("0.19.3", float),))
    ] = 2000
    """Steps between two increases."""
    lr_range_test_step_rate: Annotated[float, Key(since="0.1.0")] = 1.0
    """Increase of the learning rate per `lr_range_test_step_size`, as a multiple of the initial learning
    rate."""
    lr_range_test_staircase: Annotated[bool, Key(since="0.1.0")] = False
    """Increase in jumps instead of at every step."""


class OneCycleParams(SchedulerParams):
    """1cycle policy: increase, decrease, then slowly decay; the momentum changes in the opposite direction."""

    SOURCE = "runtime/lr_schedules.py:OneCycle"

    cycle_min_lr: Annotated[Rates, Key(since="0.1.0")]
    """Learning rate at the start and the end of the cycle."""
    cycle_max_lr: Annotated[Rates, Key(since="0.1.0")]
    """Maximum learning rate of the cycle."""
    cycle_first_step_size: Annotated[
        Annotated[PositiveInt, TypeCheckedByDeepSpeed(("any",))], Key(since="0.1.0", unit="steps")
    ] = 2000
    """Steps from the minimum to the maximum of the cycle."""
    cycle_second_step_size: Annotated[
        Annotated[NonNegativeInt | None, TypeCheckedByDeepSpeed(("any",))],
        Key(since="0.1.0", unit="steps"),
    ] = None
    """Steps from the maximum back to the minimum; null uses `cycle_first_step_size`."""
    cycle_first_stair_count: Annotated[Whole, Key(since="0.1.0")] = 0
    """Stairs while the learning rate increases; 0 is a smooth slope."""
    cycle_second_stair_count: Annotated[Whole | None, Key(since="0.1.0")] = None
    """Stairs while the learning rate decreases; null uses `cycle_first_stair_count`."""
    decay_step_size: Annotated[Whole, Key(since="0.1.0", unit="steps")] = 0
    """Steps per decay interval after the cycle; 0 disables decay."""
    decay_lr_rate: Annotated[float, Key(since="0.1.0")] = 0.0
    """Decay rate of the learning rate per decay interval."""
    cycle_momentum: Annotated[bool, Key(since="0.1.0")] = True
    """Cycle the momentum too; overwrites the optimizer's betas."""
    cycle_min_mom: Annotated[float, Key(since="0.1.0")] = 0.8
    """Momentum at the maximum learning rate."""
    cycle_max_mom: Annotated[float, Key(since="0.1.0")] = 0.9
    """Momentum at the start and the end of the cycle."""
    decay_mom_rate: Annotated[float, Key(since="0.1.0")] = 0.0
    """Change of the momentum per decay interval."""


class WarmupLRParams(SchedulerParams):
    """Warm up to a learning rate, then keep it."""

    SOURCE = "runtime/lr_schedules.py:WarmupLR"

    warmup_min_lr: Annotated[Rates | Auto, Key(since="0.1.0", fills=("transformers", "accelerate"))] = 0.0
    """Initial learning rate."""
    warmup_max_lr: Annotated[
        Rates | Auto | None,
        Key(
            since="0.1.0",
            fills=("transformers", "accelerate"),
            defaults=(("0.17.1", 0.001),),
            was=(EarlierType("0.17.1", Rates),),
        ),
    ] = None
    """Learning rate after the warm-up; null uses the optimizer's."""
    warmup_num_steps: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.1.0",
            unit="steps",
            fills=("transformers", "accelerate"),
            was=(EarlierType("0.19.2", float),),
        ),
    ] = 1000
    """Warm-up steps; 1 has the effect of 2."""
    warmup_type: Annotated[
        Curve,
        Key(
            since="0.5.7",
            known=("log", "linear"),
            means=_CURVES,
        ),
    ] = "log"
    """Shape of the warm-up: logarithmic or linear. DeepSpeed replaces any other value with log and warns."""


class WarmupDecayLRParams(WarmupLRParams):
    """Warm up to a learning rate, then decay linearly to zero."""

    SOURCE = "runtime/lr_schedules.py:WarmupDecayLR"

    total_num_steps: Annotated[
        Length | Auto, Key(since="0.3.1", unit="steps", fills=("transformers", "accelerate"))
    ]
    """Steps of the whole schedule, including the warm-up."""
    warmup_max_lr: Annotated[
        Rates | Auto | None,
        Key(since="0.3.1", fills=("transformers", "accelerate"), was=(EarlierType("0.17.1", Rates),)),
    ] = 0.001
    """Learning rate after the warm-up; null uses the optimizer's."""


class WarmupCosineLRParams(SchedulerParams):
    """Warm up to the optimizer's learning rate, then follow a cosine; rates are fractions of that rate."""

    SOURCE = "runtime/lr_schedules.py:WarmupCosineLR"

    total_num_steps: Annotated[
        Length | Auto, Key(since="0.12.3", unit="steps", fills=("transformers", "accelerate"))
    ]
    """Steps of the whole schedule, including the warm-up."""
    warmup_min_ratio: Annotated[float, Key(since="0.12.3")] = 0.0
    """Initial learning rate, as a fraction of the optimizer's."""
    warmup_num_steps: Annotated[
        PositiveInt | Auto,
        Key(
            since="0.12.3",
            unit="steps",
            fills=("transformers", "accelerate"),
            was=(EarlierType("0.19.2", float),),
        ),
    ] = 1000
    """Warm-up steps; 1 has the effect of 2."""
    cos_min_ratio: Annotated[float, Key(since="0.12.3")] = 0.0001
    """Final learning rate, as a fraction of the optimizer's."""
    warmup_type: Annotated[
        Curve,
        Key(
            since="0.12.3",
            known=("log", "linear"),
            means=_CURVES,
        ),
    ] = "log"
    """Shape of the warm-up: logarithmic or linear. DeepSpeed replaces any other value with log and warns."""


@dataclass(frozen=True, slots=True)
class SchedulerTypeInfo:
    """A scheduler type of DeepSpeed, whose name is case-sensitive."""

    name: str
    params: type[SchedulerParams]
    since: str
    until: str | None = None
    required: tuple[str, ...] = ()
    notes: str = ""


SCHEDULERS: tuple[SchedulerTypeInfo, ...] = (
    SchedulerTypeInfo("LRRangeTest", LRRangeTestParams, "0.1.0"),
    SchedulerTypeInfo("OneCycle", OneCycleParams, "0.1.0", required=("cycle_min_lr", "cycle_max_lr")),
    SchedulerTypeInfo("WarmupLR", WarmupLRParams, "0.1.0"),
    SchedulerTypeInfo("WarmupDecayLR", WarmupDecayLRParams, "0.3.1", required=("total_num_steps",)),
    SchedulerTypeInfo("WarmupCosineLR", WarmupCosineLRParams, "0.12.3", required=("total_num_steps",)),
)
"""The types of DeepSpeed; it looks up any other name in `torch.optim.lr_scheduler`, where case matters."""


class Scheduler(Section):
    """The learning-rate scheduler that the engine builds and advances after every optimizer step."""

    SOURCE = "runtime/config.py:get_scheduler_name"

    type: Annotated[
        str | None,
        Key(since="0.1.0", known=tuple(kind.name for kind in SCHEDULERS), miswritten=("scheduler_name",)),
    ] = None
    """Name of the scheduler: one of DeepSpeed's own or a class of `torch.optim.lr_scheduler`. Classes of
    PyTorch work only in fp32 without ZeRO. Without `type` the whole section has no effect."""
    params: Annotated[
        SerializeAsAny[SchedulerParams] | FreeForm,
        Key(
            since="0.1.0",
            source="runtime/config.py:get_scheduler_params",
            takes=(NonObjectValues(ANY_SHAPE, since="0.1.0"),),
            opened_by="scheduler.type",
        ),
    ] = ABSENT
    """Keyword arguments of the scheduler: the params class of its type, or, for a class of PyTorch, a mapping
    with the arguments of that class. Required, if only as an empty object; no release validates it when
    the config is loaded."""


class SchedulerRootKeys(RootKeys):
    """The root key of the scheduler."""

    scheduler: Annotated[Scheduler, Key(since="0.1.0", source="runtime/config.py:get_scheduler_name")] = (
        Field(default_factory=Scheduler)
    )
    """The learning-rate scheduler that DeepSpeed builds. From 0.14.5 on, a scheduler passed by the script
    replaces it; up to 0.14.4, the script's scheduler is used only if this section has no `type`."""
