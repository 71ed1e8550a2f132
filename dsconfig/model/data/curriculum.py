"""The curriculum of 0.5.0, by sequence length; still read up to 0.19.7."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import ABSENT
from dsconfig.model.key import ANYTHING, Key, Reads
from dsconfig.model.section import Section

_NEW = "data_efficiency.data_sampling.curriculum_learning"
_METRIC = f"{_NEW}.curriculum_metrics.*"
Pacing: TypeAlias = Literal["fixed_linear", "fixed_root", "fixed_discrete", "custom"]
PACINGS = (
    ("fixed_linear", "rises evenly"),
    ("fixed_root", "rises as a root does: fast, then slower"),
    ("fixed_discrete", "rises in steps that the config lists"),
    ("custom", "set from Python"),
)
_KEPT = (Reads("hand", since="0.5.0", unknown="kept"),)


class LengthSchedule(Section):
    """Numbers of the pacing function; which are needed depends on `schedule_type`."""

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = _KEPT

    total_curriculum_step: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            unit="steps",
            replaced_by=f"{_METRIC}.schedule_config.total_curriculum_step",
        ),
    ] = ABSENT
    """Steps from the lowest to the highest difficulty. For fixed_linear and fixed_root."""
    difficulty_step: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.difficulty_step",
        ),
    ] = ABSENT
    """Difficulty is rounded to multiples of this; 8 or 16 suits tensor cores. Not for fixed_discrete."""
    root_degree: Annotated[
        int,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.root_degree",
        ),
    ] = ABSENT
    """Degree of the root: 1 is linear, 2 rises fast and then slows down. For fixed_root."""
    difficulty: Annotated[
        list[int],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_config.difficulty",
        ),
    ] = ABSENT
    """Difficulties in turn. For fixed_discrete."""
    max_step: Annotated[
        list[int],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            unit="steps",
            replaced_by=f"{_METRIC}.schedule_config.max_step",
        ),
    ] = ABSENT
    """Last step of each difficulty but the final one, so one entry fewer. For fixed_discrete."""


class CurriculumLearning(Section):
    """Short sequences first. The engine hands the current length to the model as an argument."""

    SOURCE = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
    READS = _KEPT

    enabled: Annotated[
        bool,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            source="runtime/data_pipeline/config.py:get_curriculum_enabled_legacy",
            replaced_by=f"{_NEW}.enabled",
        ),
    ]
    """Turn the curriculum on. The section is refused without this key."""
    curriculum_type: Annotated[
        Literal["seqlen"],
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            wrong_type="ignored",
            source="runtime/engine.py:DeepSpeedEngine.forward",
            replaced_by=f"{_NEW}.curriculum_metrics",
            means=(("seqlen", "sequence length"),),
        ),
    ] = ABSENT
    """What difficulty means; only sequence length is offered. Needed when the curriculum is on."""
    min_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.min_difficulty"),
    ] = ABSENT
    """Difficulty at the first step. Needed when the curriculum is on."""
    max_difficulty: Annotated[
        int,
        Key(since="0.5.0", until="0.19.7", deprecated="0.8.0", replaced_by=f"{_METRIC}.max_difficulty"),
    ] = ABSENT
    """Difficulty at the end, usually the full length. Needed when the curriculum is on."""
    schedule_type: Annotated[
        Pacing,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            replaced_by=f"{_METRIC}.schedule_type",
            means=PACINGS,
        ),
    ] = ABSENT
    """Pacing function; custom is set from Python. Needed when the curriculum is on."""
    schedule_config: Annotated[
        LengthSchedule,
        Key(
            since="0.5.0",
            until="0.19.7",
            deprecated="0.8.0",
            takes=(ANYTHING,),
            replaced_by=f"{_METRIC}.schedule_config",
        ),
    ] = Field(default_factory=LengthSchedule)
    """Numbers of the pacing function; needed unless it is custom."""
