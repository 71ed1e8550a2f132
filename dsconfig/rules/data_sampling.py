"""`data_sampling`: curriculum learning, the legacy curriculum, and dynamic batching."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.wording import describe_value, join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._suggest_section import format_key

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# Missing keys of an enabled technique.


def report_missing_key(ctx: Context, section: str, technique: str, key: str, meaning: str) -> Finding:
    """Report that a technique is on without its required key."""
    switch = ctx.raw(f"{section}.enabled")
    truth = (
        ""
        if isinstance(switch, bool)
        else f" (`{section}.enabled` is {quote_value(switch)}, which counts as true)"
    )
    return ctx.at(
        section,
        f"{technique} is on{truth}, but `{key}` is not set",
        help=f"add `{key}` ({meaning}), or set `enabled` to `false`",
        part="key",
        related=[(f"{technique} is switched on here", f"{section}.enabled")],
    )


# Enabled curricula: the legacy one by sequence length, and those of data efficiency.

_LEGACY = "curriculum_learning"
NEW = "data_efficiency.data_sampling.curriculum_learning"


class Curriculum(NamedTuple):
    """A curriculum: its path, data, required keys, and the effect of an error."""

    path: KeyPath
    data: JsonObject
    effect: EffectName
    keys: tuple[str, ...]

    @property
    def config(self) -> JsonObject:
        """The curriculum's `schedule_config`; empty if missing or not an object."""
        config = self.data.get("schedule_config")
        return config if isinstance(config, dict) else {}


def enabled_curricula(ctx: Context) -> Iterator[Curriculum]:
    """Yield every curriculum that is on."""
    legacy = ctx.data.get(_LEGACY)
    if isinstance(legacy, dict) and ctx.between("0.5.0", "0.19.7") and ctx.is_on(f"{_LEGACY}.enabled"):
        yield Curriculum((_LEGACY,), legacy, "crashes", ("curriculum_type", *_BOUNDS))
    for name, metric in curriculum_metrics(ctx).items():
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


def curriculum_metrics(ctx: Context) -> JsonObject:
    """Return the metrics of the data-efficiency curriculum; empty if it is off."""
    section = ctx.raw(NEW)
    if not isinstance(section, dict) or not section.get("enabled") or ctx.before("0.8.0"):
        return {}
    metrics = section.get("curriculum_metrics")
    return metrics if isinstance(metrics, dict) else {}


# Missing keys of curricula.

_FILE = "runtime/data_pipeline/config.py"
_SCHEDULER = "runtime/data_pipeline/curriculum_scheduler.py:CurriculumScheduler.__init__"
_SAMPLER = "runtime/data_pipeline/data_sampling/data_sampler.py:DeepSpeedDataSampler.__init__"
_SCHEDULE_KEYS: dict[str, tuple[str, ...]] = {
    "fixed_discrete": ("difficulty", "max_step"),
    "fixed_root": ("total_curriculum_step", "difficulty_step", "root_degree"),
    "fixed_linear": ("total_curriculum_step", "difficulty_step"),
}
"""Required keys of `schedule_config` by `schedule_type`."""
_EXAMPLES: JsonObject = {
    "fixed_discrete": {"difficulty": [8, 64], "max_step": [1000]},
    "fixed_root": {"total_curriculum_step": 10000, "difficulty_step": 8, "root_degree": 2},
    "fixed_linear": {"total_curriculum_step": 10000, "difficulty_step": 8},
}
"""Example of a `schedule_config` by `schedule_type`."""
_MAX_SHOWN = 12


@rule("DSC945", effect="rejected", since="0.8.0", source=f"{_FILE}:get_curriculum_learning")
def curriculum_without_metrics(ctx: Context) -> Iterator[Finding]:
    """Curriculum learning is on, but `curriculum_metrics` is not set.

    The metrics define the difficulty. DeepSpeed tests the truth value of `enabled`, so the string `"false"` enables it,
    even if `data_sampling` and `data_efficiency` are off.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "curriculum_learning": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"curriculum_learning": {
            "enabled": true, "curriculum_metrics": {"seqlen": {"difficulty_type": "value"}}}}}}
    """
    if ctx.is_on(f"{NEW}.enabled") and not ctx.has(f"{NEW}.curriculum_metrics"):
        yield report_missing_key(
            ctx, NEW, "curriculum learning", "curriculum_metrics", "an object with at least one metric"
        )


@rule("DSC949", effect="crashes", since="0.5.0", source=f"{_SCHEDULER}, {_SAMPLER}")
def incomplete_curriculum(ctx: Context) -> Iterator[Finding]:
    """A required key of an enabled curriculum is missing.

    A curriculum requires both bounds of the difficulty, `schedule_type`, and in `schedule_config` the keys of that
    type: `difficulty` and `max_step` for fixed_discrete; `total_curriculum_step` and `difficulty_step` for fixed_linear
    and fixed_root, and also `root_degree` for fixed_root. A metric of data efficiency also requires `difficulty_type`
    and `clustering_type`, and unless it has a single cluster, index files.

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
    for curriculum in enabled_curricula(ctx):
        yield from _report_missing_keys(ctx, curriculum)
    if curriculum_metrics(ctx) and not ctx.has(f"{NEW}.data_cluster_path"):
        yield ctx.at(
            NEW,
            f"`{NEW}` has no `data_cluster_path`, which its sampler requires",
            help="add `data_cluster_path`, a directory for sample clusters",
            part="key",
            effect="ignored",
        )


def _report_missing_keys(ctx: Context, curriculum: Curriculum) -> Iterator[Finding]:
    schedule_type = str(curriculum.data.get("schedule_type"))
    missing_in_config = [key for key in _SCHEDULE_KEYS.get(schedule_type, ()) if key not in curriculum.config]
    missing = [key for key in curriculum.keys if key not in curriculum.data]
    if missing or (missing_in_config and "schedule_config" not in curriculum.data):
        yield _report_missing_in_section(ctx, curriculum, missing, schedule_type if missing_in_config else "")
    if missing_in_config and "schedule_config" in curriculum.data:
        yield _report_missing_in_schedule_config(ctx, curriculum, missing_in_config, schedule_type)


def _report_missing_in_section(
    ctx: Context, curriculum: Curriculum, missing: list[str], schedule_type: str
) -> Finding:
    """Report the keys that a curriculum lacks, including a `schedule_config` if its schedule type requires one."""
    reasons = []
    if missing:
        reasons.append(f"no {join_alternatives(f'`{key}`' for key in missing)}, which a curriculum requires")
    added = [f"`{key}`" for key in missing if key != "schedule_type"]
    if "schedule_type" in missing:
        schedule_type = "fixed_linear"
        added.append(f'`"schedule_type": "{schedule_type}"`')
    elif schedule_type and "schedule_config" not in curriculum.data:
        required = join_alternatives([f"`{key}`" for key in _SCHEDULE_KEYS[schedule_type]], "and")
        reasons.append(
            f"no `schedule_config` with {required}, which the schedule {quote_value(schedule_type)} requires"
        )
    if schedule_type and "schedule_config" not in curriculum.data:
        added.append(f'`"schedule_config": {json.dumps(_EXAMPLES[schedule_type])}`')
    return ctx.at(
        curriculum.path,
        f"{format_key(curriculum.path)} has {', and '.join(reasons)}",
        help=f"add {join_alternatives(added, 'and')}",
        part="key",
        effect=curriculum.effect,
    )


def _report_missing_in_schedule_config(
    ctx: Context, curriculum: Curriculum, missing: list[str], schedule_type: str
) -> Finding:
    """Report the keys that a curriculum's `schedule_config` lacks."""
    path, config = (*curriculum.path, "schedule_config"), curriculum.data["schedule_config"]
    requires = f"the schedule {quote_value(schedule_type)} requires"
    if isinstance(config, dict):
        names = join_alternatives(f"`{key}`" for key in missing)
        message = f"{format_key(path)} has no {names}, which {requires}"
        example = _example_schedule_config(schedule_type, config)
        added = join_alternatives(
            [f"`{json.dumps(key)}: {json.dumps(example[key])}`" for key in missing], "and"
        )
        return ctx.at(path, message, help=f"add {added}", part="key", effect=curriculum.effect)
    names = join_alternatives((f"`{key}`" for key in missing), "and")
    message = f"{format_key(path)} is {describe_value(config)} but {requires} an object with {names}"
    advice = f"write an object, such as `{json.dumps(_EXAMPLES[schedule_type])}`"
    return ctx.at(path, message, help=advice, effect=curriculum.effect)


def _example_schedule_config(schedule_type: str, config: JsonObject) -> JsonObject:
    """Return an example `schedule_config` for a schedule type.

    The example matches the length of `difficulty` or `max_step`, if one of them is set.
    """
    example, levels, steps = dict(_EXAMPLES[schedule_type]), config.get("difficulty"), config.get("max_step")
    if isinstance(levels, list) and 1 < len(levels) <= _MAX_SHOWN:
        example["max_step"] = [1000 * number for number in range(1, len(levels))]
    if isinstance(steps, list) and 0 < len(steps) < _MAX_SHOWN:
        example["difficulty"] = [8 * number for number in range(1, len(steps) + 2)]
    return example


# Schedules of curricula.

_TYPES = ("fixed_discrete", "fixed_root", "fixed_linear", "custom")


@rule("DSC950", effect="crashes", since="0.5.0", source=_SCHEDULER)
def unsupported_curriculum_schedule(ctx: Context) -> Iterator[Finding]:
    """`schedule_type` of a curriculum is a type that DeepSpeed does not implement.

    Bad, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "linear"}}

    Good, release 0.18.9:

        {"train_batch_size": 8, "curriculum_learning": {
            "enabled": true, "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
            "schedule_type": "custom"}}
    """
    for curriculum in enabled_curricula(ctx):
        types = _TYPES if ctx.since("0.8.0") else _TYPES[:3]
        schedule_type = curriculum.data.get("schedule_type", "custom")
        if schedule_type not in types and "schedule_type" in curriculum.data:
            path = (*curriculum.path, "schedule_type")
            yield ctx.at(
                path,
                f"{format_key(path)} is {quote_value(schedule_type)}, but DeepSpeed accepts only "
                f"{join_alternatives(types, 'and')}",
                help=f"use {join_alternatives(types)}; `schedule_config` must contain the keys that the type requires",
                effect=curriculum.effect,
            )


@rule("DSC951", effect="crashes", since="0.5.0", source=_SCHEDULER)
def curriculum_steps_of_wrong_length(ctx: Context) -> Iterator[Finding]:
    """In a discrete curriculum, `max_step` does not have exactly one entry less than `difficulty`.

    Each difficulty except the last one ends at a step of `max_step`.

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
    for curriculum in enabled_curricula(ctx):
        levels, steps = curriculum.config.get("difficulty"), curriculum.config.get("max_step")
        if curriculum.data.get("schedule_type") != "fixed_discrete":
            continue
        if isinstance(levels, list) and isinstance(steps, list) and not 0 < len(steps) == len(levels) - 1:
            required = len(levels) - 1
            yield ctx.at(
                (*curriculum.path, "schedule_config", "max_step"),
                f"`max_step` has {len(steps)} {'entry' if len(steps) == 1 else 'entries'}, but "
                + (
                    f"{len(levels)} difficulties require {required}"
                    if required > 0
                    else "a discrete curriculum requires at least two difficulties"
                ),
                help=f"list {required} step{'s' * (required > 1)}: the end of each difficulty except the last"
                if required > 0
                else "list at least two difficulties, and one step fewer",
                effect=curriculum.effect,
                related=[
                    ("the difficulties are set here", (*curriculum.path, "schedule_config", "difficulty"))
                ],
            )


@rule("DSC952", effect="wasteful", since="0.5.0", source=_SCHEDULER)
def curriculum_step_off_tensor_cores(ctx: Context) -> Iterator[Finding]:
    """`difficulty_step` of a curriculum by sequence length is not a multiple of 8.

    Not all sequence lengths are then multiples of 8, which slows down 16-bit matrix products on tensor
    cores. DeepSpeed logs a warning.

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
    for curriculum in enabled_curricula(ctx):
        step = curriculum.config.get("difficulty_step")
        is_by_length = "seqlen" in (curriculum.path[-1], curriculum.data.get("curriculum_type"))
        uses_step = curriculum.data.get("schedule_type") in ("fixed_root", "fixed_linear")
        if is_by_length and uses_step and isinstance(step, int) and step % 8:
            yield ctx.at(
                (*curriculum.path, "schedule_config", "difficulty_step"),
                f"`difficulty_step` is {quote_value(step)}, so not all sequence lengths are multiples of 8, which is"
                " slower on tensor cores",
                help="use a multiple of 8",
            )


# Dynamic batching.

_BATCHING = "data_efficiency.data_sampling.dynamic_batching"


@rule("DSC946", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_without_max_tokens(ctx: Context) -> Iterator[Finding]:
    """Dynamic batching is on, but `max_tokens` is not set.

    DeepSpeed fills each batch up to this number of tokens, and has no default for it. It converts `enabled` with
    bool(), so the string `"false"` enables it.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {
            "enabled": true, "max_tokens": 8192}}}}
    """
    if ctx.is_on(f"{_BATCHING}.enabled") and not ctx.has(f"{_BATCHING}.max_tokens"):
        yield report_missing_key(
            ctx, _BATCHING, "dynamic batching", "max_tokens", "the maximum number of tokens in a batch"
        )


@rule("DSC947", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A size of dynamic batching cannot be converted to an integer.

    DeepSpeed calls int() on `min_batch_size` and `max_batch_size`, even if dynamic batching is off, and on `max_tokens`
    if it is on. Quoted integers are accepted, and fractions are truncated; null, lists, infinity and words raise an
    error. To set no limit, remove `max_batch_size`.

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
        if ctx.has(path) and not _is_convertible(ctx.value(path)):
            value = ctx.value(path)
            kind, detail = ("`null`", "") if value is None else (json_kind(value), f", {quote_value(value)}")
            yield ctx.at(
                path,
                f"`{key}` is {kind}{detail}, which `int()` cannot convert",
                help="set it to an integer" + (", or remove it" if key != "max_tokens" else ""),
            )


def _is_convertible(value: Json) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
