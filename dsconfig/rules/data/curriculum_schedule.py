"""The schedule of a curriculum's difficulty."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.data._curricula import curricula

_SCHEDULER = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
_TYPES = ("fixed_discrete", "fixed_root", "fixed_linear", "custom")


@rule("DSC950", effect="crashes", since="0.5.0", source=_SCHEDULER)
def unsupported_curriculum_schedule(ctx: Context) -> Iterator[Finding]:
    """The schedule of a curriculum is of a type that DeepSpeed does not have.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "linear"}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "custom"}}
    """
    for found in curricula(ctx):
        types = _TYPES if ctx.since("0.8.0") else _TYPES[:3]
        word = found.data.get("schedule_type", "custom")
        if word not in types and "schedule_type" in found.data:
            path = (*found.path, "schedule_type")
            yield ctx.at(
                path,
                f"{named(path)} is {quoted(word)}, but DeepSpeed knows only {one_of(types, 'and')}",
                help=f"use {one_of(types)}; each fixed one needs its keys of `schedule_config`",
                effect=found.effect,
            )


@rule("DSC951", effect="crashes", since="0.5.0", source=_SCHEDULER)
def curriculum_steps_of_wrong_length(ctx: Context) -> Iterator[Finding]:
    """A discrete curriculum does not have one `max_step` fewer than it has difficulties.

    Each difficulty but the last one ends at a step; the last one stays.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 64,
            "schedule_type": "fixed_discrete",
            "schedule_config": {"difficulty": [8, 64], "max_step": [100, 200]}}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 64,
            "schedule_type": "fixed_discrete",
            "schedule_config": {"difficulty": [8, 32, 64], "max_step": [100, 200]}}}
    """
    for found in curricula(ctx):
        levels, steps = found.config.get("difficulty"), found.config.get("max_step")
        if found.data.get("schedule_type") != "fixed_discrete":
            continue
        if isinstance(levels, list) and isinstance(steps, list) and not 0 < len(steps) == len(levels) - 1:
            need = len(levels) - 1
            yield ctx.at(
                (*found.path, "schedule_config", "max_step"),
                f"`max_step` has {len(steps)} {'entry' if len(steps) == 1 else 'entries'}, and "
                + (
                    f"{len(levels)} difficulties need {need}"
                    if need > 0
                    else "two difficulties or more need it"
                ),
                help=f"list {need}: the last step of every difficulty but the last"
                if need > 0
                else "list two difficulties or more, and one step fewer",
                effect=found.effect,
                related=[("the difficulties stand here", (*found.path, "schedule_config", "difficulty"))],
            )


@rule("DSC952", effect="wasteful", since="0.5.0", source=_SCHEDULER)
def curriculum_step_off_tensor_cores(ctx: Context) -> Iterator[Finding]:
    """`difficulty_step` of a curriculum by sequence length is not a multiple of 8.

    Sequence lengths then are not multiples of 8 either, which the tensor cores of GPUs want for 16-bit
    numbers. DeepSpeed warns of it.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "fixed_linear",
            "schedule_config": {"total_curriculum_step": 15000, "difficulty_step": 2}}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "fixed_linear",
            "schedule_config": {"total_curriculum_step": 15000, "difficulty_step": 8}}}
    """
    for found in curricula(ctx):
        step = found.config.get("difficulty_step")
        by_length = "seqlen" in (found.path[-1], found.data.get("curriculum_type"))
        paced = found.data.get("schedule_type") in ("fixed_root", "fixed_linear")
        if by_length and paced and isinstance(step, int) and step % 8:
            yield ctx.at(
                (*found.path, "schedule_config", "difficulty_step"),
                f"`difficulty_step` is {quoted(step)}, and sequence lengths will not be multiples of 8",
                help="use a multiple of 8, which suits tensor cores",
            )
