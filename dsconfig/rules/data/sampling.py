"""`data_sampling`: curricula with their schedules, the legacy curriculum, and dynamic batching."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.wording import described, kind, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# A technique that is on and lacks a key.


def needs(ctx: Context, section: str, what: str, key: str, meaning: str) -> Finding:
    """The finding that `what` is on without `key`."""
    switch = ctx.raw(f"{section}.enabled")
    truth = (
        ""
        if isinstance(switch, bool)
        else f" (`{section}.enabled` is {quoted(switch)}, which counts as true)"
    )
    return ctx.at(
        section,
        f"{what} is on{truth}, but `{key}` is not given",
        help=f"add `{key}` ({meaning}), or set `enabled` to `false`",
        part="key",
        related=[(f"{what} is switched on here", f"{section}.enabled")],
    )


# Curricula that are on: the old one by sequence length, and those of data efficiency.

_OLD = "curriculum_learning"
NEW = "data_efficiency.data_sampling.curriculum_learning"


class Curriculum(NamedTuple):
    """One scheduler in the making: where its keys stand, and what becomes of a mistake."""

    path: KeyPath
    data: JsonObject
    effect: EffectName
    keys: tuple[str, ...]

    @property
    def config(self) -> JsonObject:
        """Its `schedule_config`; empty where that is missing or no object."""
        config = self.data.get("schedule_config")
        return config if isinstance(config, dict) else {}


def curricula(ctx: Context) -> Iterator[Curriculum]:
    """Every curriculum that is switched on."""
    old = ctx.data.get(_OLD)
    if isinstance(old, dict) and ctx.between("0.5.0", "0.19.7") and ctx.is_on(f"{_OLD}.enabled"):
        yield Curriculum((_OLD,), old, "crashes", ("curriculum_type", *_BOUNDS))
    for name, metric in metrics_of(ctx).items():
        if isinstance(metric, dict):
            path = (*NEW.split("."), "curriculum_metrics", name)
            yield Curriculum(path, metric, "ignored", (*_BOUNDS, *_metric_keys(metric)))


_BOUNDS = ("min_difficulty", "max_difficulty", "schedule_type")


def _metric_keys(metric: JsonObject) -> Iterator[str]:
    yield from ("difficulty_type", "clustering_type")
    if metric.get("clustering_type") != "single_cluster":
        yield "index_to_sample_path"
        if metric.get("difficulty_type") == "value":
            yield "index_to_metric_path"


def metrics_of(ctx: Context) -> JsonObject:
    """The metrics of data efficiency's curriculum, where it is on."""
    section = ctx.raw(NEW)
    if not isinstance(section, dict) or not section.get("enabled") or ctx.before("0.8.0"):
        return {}
    metrics = section.get("curriculum_metrics")
    return metrics if isinstance(metrics, dict) else {}


# Curricula that lack a key, the old one by sequence length and the one of data efficiency.

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
    if ctx.is_on(f"{NEW}.enabled") and not ctx.has(f"{NEW}.curriculum_metrics"):
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


# The schedule of a curriculum's difficulty.

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


# Batches that are filled up to a number of tokens.

_BATCHING = "data_efficiency.data_sampling.dynamic_batching"


@rule("DSC946", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_without_max_tokens(ctx: Context) -> Iterator[Finding]:
    """Dynamic batching is on, and `max_tokens` is not given.

    Batches are filled up to that many tokens, so there is no default. `enabled` goes through bool(), so that
    `"false"` in quotes counts as on.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {
            "enabled": true, "max_tokens": 8192}}}}
    """
    if ctx.is_on(f"{_BATCHING}.enabled") and not ctx.has(f"{_BATCHING}.max_tokens"):
        yield needs(ctx, _BATCHING, "dynamic batching", "max_tokens", "the most tokens in a batch")


@rule("DSC947", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A size of dynamic batching cannot be made an integer.

    DeepSpeed calls int() on `min_batch_size` and `max_batch_size`, also where dynamic batching is off, and on
    `max_tokens` where it is on. Digits in quotes pass and fractions are cut off; null, lists, infinity and
    words are refused. For no limit leave `max_batch_size` out.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "dynamic_batching": {"max_batch_size": null}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "dynamic_batching": {"max_batch_size": 64}}}}
    """
    keys = ["min_batch_size", "max_batch_size"]
    if ctx.is_on(f"{_BATCHING}.enabled"):
        keys.append("max_tokens")
    for key in keys:
        path = f"{_BATCHING}.{key}"
        if ctx.has(path) and not _converts(ctx.value(path)):
            value = ctx.value(path)
            shown = "" if value is None else f", {quoted(value)}"
            yield ctx.at(
                path,
                f"`{key}` is {kind(value)}{shown}, of which int() makes no number",
                help="give an integer" + (", or remove the key" if key != "max_tokens" else ""),
            )


def _converts(value: Json) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
