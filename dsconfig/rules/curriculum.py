"""Curricula, the old one by sequence length and the one of data efficiency: what their scheduler needs.

The old one is built with the engine, so that it crashes there. The new one is built with the data loader that
DeepSpeed makes of a `training_data` argument, which no config tells of: without it the section has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsconfig.diagnostic import Path
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.words import one_of, quoted

_SCHEDULER = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"
_OLD = "curriculum_learning"
_NEW = ("data_efficiency", "data_sampling", "curriculum_learning")
_TYPES = ("fixed_discrete", "fixed_root", "fixed_linear", "custom")
_NEEDS: dict[str, tuple[str, ...]] = {
    "fixed_discrete": ("difficulty", "max_step"),
    "fixed_root": ("total_curriculum_step", "difficulty_step", "root_degree"),
    "fixed_linear": ("total_curriculum_step", "difficulty_step"),
}
"""Keys of `schedule_config` by the type of the schedule."""


@dataclass(frozen=True, slots=True)
class _Curriculum:
    """One scheduler in the making: where its keys stand, and what becomes of a mistake."""

    path: Path
    data: dict[str, Any]
    effect: str
    keys: tuple[str, ...]

    @property
    def config(self) -> dict[str, Any]:
        """Its `schedule_config`; empty where that is missing or no object."""
        config = self.data.get("schedule_config")
        return config if isinstance(config, dict) else {}


def _curricula(ctx: Context) -> Iterator[_Curriculum]:
    """Every curriculum that is switched on."""
    old = ctx.data.get(_OLD)
    if isinstance(old, dict) and ctx.between("0.5.0", "0.19.7") and ctx.on(f"{_OLD}.enabled"):
        yield _Curriculum((_OLD,), old, "crashes", ("curriculum_type", *_BOUNDS))
    for name, metric in _metrics(ctx).items():
        if isinstance(metric, dict):
            path = (*_NEW, "curriculum_metrics", name)
            yield _Curriculum(path, metric, "ignored", (*_BOUNDS, *_metric_keys(metric)))


_BOUNDS = ("min_difficulty", "max_difficulty", "schedule_type")


def _metric_keys(metric: dict[str, Any]) -> Iterator[str]:
    yield from ("difficulty_type", "clustering_type")
    if metric.get("clustering_type") != "single_cluster":
        yield "index_to_sample_path"
        if metric.get("difficulty_type") == "value":
            yield "index_to_metric_path"


def _metrics(ctx: Context) -> dict[str, Any]:
    """The metrics of data efficiency's curriculum, where it is on."""
    section: Any = ctx.data
    for part in _NEW:
        section = section.get(part) if isinstance(section, dict) else None
    if not isinstance(section, dict) or not section.get("enabled") or ctx.before("0.8.0"):
        return {}
    metrics = section.get("curriculum_metrics")
    return metrics if isinstance(metrics, dict) else {}


@rule("DSC949", effect="crashes", since="0.5.0", source=f"{_SCHEDULER}, {_SAMPLER}")
def incomplete_curriculum(ctx: Context) -> Iterator[Finding]:
    """A curriculum that is on lacks a key.

    It needs both bounds of the difficulty, the type of its schedule, and in `schedule_config` what the type
    goes by: `difficulty` and `max_step` for fixed_discrete; `total_curriculum_step` and `difficulty_step` for
    fixed_linear and fixed_root, which also needs `root_degree`. A metric of data efficiency needs
    `difficulty_type` and `clustering_type`, and its index files unless it is a single cluster.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "fixed_linear", "schedule_config": {"total_curriculum_step": 15000}}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "fixed_linear",
            "schedule_config": {"total_curriculum_step": 15000, "difficulty_step": 8}}}

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"curriculum_learning": {
            "enabled": true, "data_cluster_path": "clusters", "curriculum_metrics": {"seqlen": {
                "difficulty_type": "value", "clustering_type": "single_cluster", "min_difficulty": 8}}}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"curriculum_learning": {
            "enabled": true, "data_cluster_path": "clusters", "curriculum_metrics": {"seqlen": {
                "difficulty_type": "value", "clustering_type": "single_cluster",
                "min_difficulty": 8, "max_difficulty": 1024, "schedule_type": "custom"}}}}}}
    """
    for found in _curricula(ctx):
        missing = [key for key in found.keys if key not in found.data]
        if missing:
            yield _lacks(ctx, found, found.path, missing)
        kind = found.data.get("schedule_type")
        missing = [key for key in _NEEDS.get(str(kind), ()) if key not in found.config]
        if missing:
            place = (*found.path, "schedule_config") if "schedule_config" in found.data else found.path
            yield _lacks(ctx, found, place, missing, f"the schedule {quoted(kind)} needs")
    if _metrics(ctx) and not ctx.has(".".join((*_NEW, "data_cluster_path"))):
        yield ctx.at(
            _NEW,
            "`curriculum_learning` has no `data_cluster_path`, which its sampler needs",
            help="add `data_cluster_path`, a directory for clusters of samples",
            part="key",
            effect="ignored",
        )


def _lacks(ctx: Context, found: _Curriculum, place: Path, missing: list[str], why: str = "") -> Finding:
    names = one_of([f"`{key}`" for key in missing], "and")
    return ctx.at(
        place,
        f"`{place[-1]}` has no {names}, which {why or 'a curriculum needs'}",
        help=f"add {names}",
        part="key",
        effect=found.effect,
    )


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
    for found in _curricula(ctx):
        types = _TYPES if ctx.since("0.8.0") else _TYPES[:3]
        word = found.data.get("schedule_type", "custom")
        if word not in types and "schedule_type" in found.data:
            yield ctx.at(
                (*found.path, "schedule_type"),
                f"`schedule_type` is {quoted(word)}, but DeepSpeed knows only {one_of(types, 'and')}",
                help=f"use {one_of(types)}",
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
    for found in _curricula(ctx):
        levels, steps = found.config.get("difficulty"), found.config.get("max_step")
        if found.data.get("schedule_type") != "fixed_discrete":
            continue
        if isinstance(levels, list) and isinstance(steps, list) and not 0 < len(steps) == len(levels) - 1:
            yield ctx.at(
                (*found.path, "schedule_config", "max_step"),
                f"`max_step` has {len(steps)} entries, and {len(levels)} difficulties need {len(levels) - 1}",
                help=f"give {max(len(levels) - 1, 1)}, the last step of every difficulty but the last",
                effect=found.effect,
                related=[("the difficulties stand here", (*found.path, "schedule_config", "difficulty"))],
            )


@rule("DSC952", effect="wasteful", since="0.5.0", source=_SCHEDULER)
def curriculum_step_off_tensor_cores(ctx: Context) -> Iterator[Finding]:
    """`difficulty_step` of a curriculum by sequence length is no multiple of 8.

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
    for found in _curricula(ctx):
        step = found.config.get("difficulty_step")
        by_length = "seqlen" in (found.path[-1], found.data.get("curriculum_type"))
        paced = found.data.get("schedule_type") in ("fixed_root", "fixed_linear")
        if by_length and paced and isinstance(step, int) and step % 8:
            yield ctx.at(
                (*found.path, "schedule_config", "difficulty_step"),
                f"`difficulty_step` is {quoted(step)}, and sequence lengths will not be multiples of 8",
                help="use a multiple of 8, which suits tensor cores",
            )
