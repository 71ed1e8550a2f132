"""Curricula that lack a key, the old one by sequence length and the one of data efficiency."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import described, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.data._curricula import NEW, Curriculum, curricula, metrics_of
from dsconfig.rules.data._required_keys import needs

_FILE = "runtime/data_pipeline/config.py"
_SCHEDULER = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"
_NEEDS: dict[str, tuple[str, ...]] = {
    "fixed_discrete": ("difficulty", "max_step"),
    "fixed_root": ("total_curriculum_step", "difficulty_step", "root_degree"),
    "fixed_linear": ("total_curriculum_step", "difficulty_step"),
}
"""Keys of `schedule_config` by the type of the schedule."""
_PACES: JsonObject = {
    "fixed_discrete": {"difficulty": [8, 64], "max_step": [1000]},
    "fixed_root": {"total_curriculum_step": 10000, "difficulty_step": 8, "root_degree": 2},
    "fixed_linear": {"total_curriculum_step": 10000, "difficulty_step": 8},
}
"""An example of each."""
_SHOWN = 12


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
    kind = str(found.data.get("schedule_type"))
    lacking = [key for key in _NEEDS.get(kind, ()) if key not in found.config]
    missing = [key for key in found.keys if key not in found.data]
    if missing or (lacking and "schedule_config" not in found.data):
        yield _lacks_keys(ctx, found, missing, kind if lacking else "")
    if lacking and "schedule_config" in found.data:
        yield _lacks_pace(ctx, found, lacking, kind)


def _lacks_keys(ctx: Context, found: Curriculum, missing: list[str], kind: str) -> Finding:
    """What is to stand beside the schedule's type, and what comes with the type, all at once."""
    why = (
        [f"no {one_of([f'`{key}`' for key in missing], 'and')}, which a curriculum needs"] if missing else []
    )
    added = [f"`{key}`" for key in missing if key != "schedule_type"]
    if "schedule_type" in missing:
        kind = "fixed_linear"
        added.append(f'`"schedule_type": "{kind}"`')
    elif kind and "schedule_config" not in found.data:
        needed = one_of([f"`{key}`" for key in _NEEDS[kind]], "and")
        why.append(f"no `schedule_config` with {needed}, which the schedule {quoted(kind)} needs")
    if kind and "schedule_config" not in found.data:
        added.append(f'`"schedule_config": {json.dumps(_PACES[kind])}`')
    return ctx.at(
        found.path,
        f"{named(found.path)} has {', and '.join(why)}",
        help=f"add {one_of(added, 'and')}",
        part="key",
        effect=found.effect,
    )


def _lacks_pace(ctx: Context, found: Curriculum, lacking: list[str], kind: str) -> Finding:
    """What the type of the schedule looks up in `schedule_config`."""
    path, config = (*found.path, "schedule_config"), found.data["schedule_config"]
    names = one_of([f"`{key}`" for key in lacking], "and")
    needs = f"the schedule {quoted(kind)} needs"
    if isinstance(config, dict):
        message = f"{named(path)} has no {names}, which {needs}"
        pace = _pace(kind, config)
        added = one_of([f"`{json.dumps(key)}: {json.dumps(pace[key])}`" for key in lacking], "and")
        return ctx.at(path, message, help=f"add {added}", part="key", effect=found.effect)
    message = f"{named(path)} is {described(config)} where {needs} an object with {names}"
    example = f"write an object, such as `{json.dumps(_PACES[kind])}`"
    return ctx.at(path, message, help=example, effect=found.effect)


def _pace(kind: str, config: JsonObject) -> JsonObject:
    """An example for the type; a step ends every difficulty but the last, where one of the two is there."""
    pace, levels, steps = dict(_PACES[kind]), config.get("difficulty"), config.get("max_step")
    if isinstance(levels, list) and 1 < len(levels) <= _SHOWN:
        pace["max_step"] = [1000 * number for number in range(1, len(levels))]
    if isinstance(steps, list) and 0 < len(steps) < _SHOWN:
        pace["difficulty"] = [8 * number for number in range(1, len(steps) + 2)]
    return pace
