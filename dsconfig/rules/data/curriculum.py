"""Curricula that lack a key, the old one by sequence length and the one of data efficiency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._homes import named
from dsconfig.rules.data._curricula import NEW, Curriculum, curricula, metrics_of
from dsconfig.rules.data._needs import needs
from dsconfig.words import one_of, quoted

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


_FILE = "runtime/data_pipeline/config.py"
_SCHEDULER = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"
_NEEDS: dict[str, tuple[str, ...]] = {
    "fixed_discrete": ("difficulty", "max_step"),
    "fixed_root": ("total_curriculum_step", "difficulty_step", "root_degree"),
    "fixed_linear": ("total_curriculum_step", "difficulty_step"),
}
"""Keys of `schedule_config` by the type of the schedule."""


@rule("DSC945", effect="rejected", since="0.8.0", source=f"{_FILE}:get_curriculum_learning")
def curriculum_without_metrics(ctx: Context) -> Iterator[Finding]:
    """Curriculum learning is on, and `curriculum_metrics` is not given.

    The metrics say what difficulty means. `enabled` is tested for truth, so that `"false"` in quotes counts
    as on; and it counts also where `data_sampling` and `data_efficiency` are off.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "curriculum_learning": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"curriculum_learning": {
            "enabled": true, "curriculum_metrics": {"seqlen": {"difficulty_type": "value"}}}}}}
    """
    if ctx.on(f"{NEW}.enabled") and not ctx.has(f"{NEW}.curriculum_metrics"):
        yield needs(ctx, NEW, "curriculum learning", "curriculum_metrics", "an object with a metric or more")


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
    for found in curricula(ctx):
        yield from _incomplete(ctx, found)
    if metrics_of(ctx) and not ctx.has(f"{NEW}.data_cluster_path"):
        yield ctx.at(
            NEW,
            f"`{NEW}` has no `data_cluster_path`, which its sampler needs",
            help="add `data_cluster_path`, a directory for clusters of samples",
            part="key",
            effect="ignored",
        )


def _incomplete(ctx: Context, found: Curriculum) -> Iterator[Finding]:
    missing = [key for key in found.keys if key not in found.data]
    if missing:
        yield _lacks(ctx, found, found.path, missing)
    kind = found.data.get("schedule_type")
    missing = [key for key in _NEEDS.get(str(kind), ()) if key not in found.config]
    if missing:
        place = (*found.path, "schedule_config") if "schedule_config" in found.data else found.path
        yield _lacks(ctx, found, place, missing, f"the schedule {quoted(kind)} needs")


def _lacks(ctx: Context, found: Curriculum, place: KeyPath, missing: list[str], why: str = "") -> Finding:
    names = one_of([f"`{key}`" for key in missing], "and")
    return ctx.at(
        place,
        f"{named(place)} has no {names}, which {why or 'a curriculum needs'}",
        help=f"add {names}",
        part="key",
        effect=found.effect,
    )
