"""Data efficiency: what a curriculum, dynamic batches and random-LTD need as soon as they are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.words import kind, one_of, quoted

_FILE = "runtime/data_pipeline/config.py"
_CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
_BATCHING = "data_efficiency.data_sampling.dynamic_batching"


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
    if ctx.on(f"{_CURRICULUM}.enabled") and not ctx.has(f"{_CURRICULUM}.curriculum_metrics"):
        yield _needs(
            ctx, _CURRICULUM, "curriculum learning", "curriculum_metrics", "an object with a metric or more"
        )


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
    if ctx.on(f"{_BATCHING}.enabled") and not ctx.has(f"{_BATCHING}.max_tokens"):
        yield _needs(ctx, _BATCHING, "dynamic batching", "max_tokens", "the most tokens in a batch")


def _needs(ctx: Context, section: str, what: str, key: str, meaning: str) -> Finding:
    switch = ctx.written(f"{section}.enabled")
    truth = "" if isinstance(switch, bool) else f" (`enabled` is {quoted(switch)}, which counts as true)"
    return ctx.at(
        section,
        f"{what} is on{truth}, but `{key}` is not given",
        help=f"add `{key}` ({meaning}), or set `enabled` to `false`",
        part="key",
        related=[(f"{what} is switched on here", f"{section}.enabled")],
    )


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
    if ctx.on(f"{_BATCHING}.enabled"):
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


def _converts(value: Any) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


_SAMPLING, _ROUTING = "data_efficiency.data_sampling", "data_efficiency.data_routing"
_LTD = f"{_ROUTING}.random_ltd"
_SCHEDULER = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"


@rule(
    "DSC957",
    effect="ignored",
    since="0.8.0",
    source="runtime/engine.py:DeepSpeedEngine.curriculum_learning_enabled, random_ltd_enabled",
)
def outer_switch_without_effect(ctx: Context) -> Iterator[Finding]:
    """A switch around a technique of data efficiency is off, and the technique is on all the same.

    Nothing reads `enabled` of `data_efficiency`, of `data_sampling` and of `data_routing`. The innermost
    switch decides alone.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"enabled": false, "data_sampling": {
            "dynamic_batching": {"enabled": true, "max_tokens": 8192}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"enabled": true, "data_sampling": {
            "enabled": true, "dynamic_batching": {"enabled": true, "max_tokens": 8192}}}}
    """
    if not isinstance(ctx.data.get("data_efficiency"), dict):
        return
    for inner, outer in ((_CURRICULUM, _SAMPLING), (_BATCHING, _SAMPLING), (_LTD, _ROUTING)):
        if ctx.key(inner) is None or not ctx.on(f"{inner}.enabled"):
            continue
        for place in ("data_efficiency", outer):
            path = f"{place}.enabled"
            if ctx.has(path) and not ctx.value(path):
                name = inner.rsplit(".", 1)[-1]
                yield ctx.at(
                    path,
                    f"`enabled` is {quoted(ctx.written(path))} here, which nothing reads: `{name}` stays on",
                    help=f"set `{inner}.enabled` to `false` to switch it off",
                    related=[(f"`{name}` is switched on here", f"{inner}.enabled")],
                    fix=Fix(f"switch `{name}` off", (Set(ctx.place(f"{inner}.enabled"), False),)),
                )


_NEEDED = ("total_layer_num", "random_ltd_layer_num", "random_ltd_schedule")
_NEEDED_TO_SCHEDULE = ("min_value", "max_value", "schedule_config", "schedule_type")
_NEEDED_TO_PACE = ("require_steps", "seq_per_step")


@rule("DSC958", effect="crashes", since="0.8.0", source=_SCHEDULER)
def incomplete_random_ltd(ctx: Context) -> Iterator[Finding]:
    """Random-LTD is on, and lacks a key.

    The engine looks up `total_layer_num`, `random_ltd_layer_num` and `random_ltd_schedule` when it starts; in
    the schedule `min_value`, `max_value`, `schedule_type` and `schedule_config`; and in the last one, at the
    first step, `require_steps` and `seq_per_step`.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": {
                "min_value": 128, "max_value": 2048, "schedule_type": "fixed_linear",
                "schedule_config": {"require_steps": 200000, "seq_per_step": 16}}}}}}
    """
    section = ctx.written(_LTD)
    if not isinstance(section, dict) or not ctx.on(f"{_LTD}.enabled"):
        return
    schedule = section.get("random_ltd_schedule")
    pace = schedule.get("schedule_config") if isinstance(schedule, dict) else None
    yield from _lacking(ctx, _LTD, section, _NEEDED)
    if isinstance(schedule, dict):
        yield from _lacking(ctx, f"{_LTD}.random_ltd_schedule", schedule, _NEEDED_TO_SCHEDULE)
    if isinstance(schedule, dict) and isinstance(pace, dict) and _grows(schedule):
        yield from _lacking(ctx, f"{_LTD}.random_ltd_schedule.schedule_config", pace, _NEEDED_TO_PACE)


def _grows(schedule: dict[str, Any]) -> bool:
    """Whether the schedule computes anything: with equal bounds it stays where it is."""
    low, high = schedule.get("min_value"), schedule.get("max_value")
    return isinstance(low, int | float) and isinstance(high, int | float) and low < high


def _lacking(ctx: Context, path: str, section: dict[str, Any], keys: tuple[str, ...]) -> Iterator[Finding]:
    missing = [f"`{key}`" for key in keys if key not in section]
    if missing:
        name = path.rsplit(".", 1)[-1]
        yield ctx.at(
            path,
            f"`{name}` has no {one_of(missing, 'and')}, which random-LTD needs",
            help=f"add {one_of(missing, 'and')}",
            part="key",
            related=[("random-LTD is switched on here", f"{_LTD}.enabled")],
        )


@rule("DSC959", effect="crashes", since="0.8.0", source=f"{_SCHEDULER}, get_value")
def unfinished_part_of_random_ltd(ctx: Context) -> Iterator[Finding]:
    """Random-LTD is on with something that DeepSpeed never finished.

    `layer_token_lr_schedule` ends in NotImplementedError where it is on, and in a KeyError where it does not
    say; every `schedule_type` but fixed_linear ends with the first step.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "layer_token_lr_schedule": {"enabled": true},
            "total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": {
                "min_value": 128, "max_value": 2048, "schedule_type": "fixed_linear",
                "schedule_config": {"require_steps": 200000, "seq_per_step": 16}}}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "layer_token_lr_schedule": {"enabled": false},
            "total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": {
                "min_value": 128, "max_value": 2048, "schedule_type": "fixed_linear",
                "schedule_config": {"require_steps": 200000, "seq_per_step": 16}}}}}}
    """
    section = ctx.written(_LTD)
    if not isinstance(section, dict) or not ctx.on(f"{_LTD}.enabled"):
        return
    rate = section.get("layer_token_lr_schedule")
    if isinstance(rate, dict) and rate.get("enabled", True):
        said = "is on" if "enabled" in rate else "does not say `enabled`"
        yield ctx.at(
            f"{_LTD}.layer_token_lr_schedule",
            f"`layer_token_lr_schedule` {said}, and DeepSpeed has not implemented it",
            help="remove it",
            part="key",
            fix=Fix(
                "remove `layer_token_lr_schedule`", (Remove((*_LTD.split("."), "layer_token_lr_schedule")),)
            ),
        )
    schedule = section.get("random_ltd_schedule")
    if isinstance(schedule, dict) and "schedule_type" in schedule and _grows(schedule):
        kind_ = schedule["schedule_type"]
        if kind_ != "fixed_linear":
            yield ctx.at(
                f"{_LTD}.random_ltd_schedule.schedule_type",
                f'`schedule_type` is {quoted(kind_)}, and random-LTD has only `"fixed_linear"`',
                help='write `"fixed_linear"`',
                fix=Fix(
                    'write `"fixed_linear"`',
                    (Set((*_LTD.split("."), "random_ltd_schedule", "schedule_type"), "fixed_linear"),),
                ),
            )


@rule(
    "DSC960",
    effect="ignored",
    since="0.8.0",
    source="runtime/engine.py:DeepSpeedEngine.random_ltd_initialize",
)
def random_ltd_layers_miscounted(ctx: Context) -> Iterator[Finding]:
    """`random_ltd_layer_num` is not the number of layers that `random_ltd_layer_id` lists.

    Converting the model raises then; and without converting the model no token is dropped.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "random_ltd_layer_num": 3, "random_ltd_layer_id": [1, 2]}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "random_ltd_layer_num": 2, "random_ltd_layer_id": [1, 2]}}}}
    """
    section = ctx.written(_LTD)
    if not isinstance(section, dict) or not ctx.on(f"{_LTD}.enabled"):
        return
    number, layers = section.get("random_ltd_layer_num"), section.get("random_ltd_layer_id")
    if isinstance(number, int) and isinstance(layers, list) and number != len(layers):
        yield ctx.at(
            f"{_LTD}.random_ltd_layer_num",
            f"`random_ltd_layer_num` is {quoted(number)}, but `random_ltd_layer_id` lists {len(layers)}",
            help=f"set it to {len(layers)}, or list {number} layers",
            related=[("the layers are listed here", f"{_LTD}.random_ltd_layer_id")],
        )
