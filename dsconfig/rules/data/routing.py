"""`data_routing`: random-LTD, and switches of data efficiency without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named

# Random-LTD: what it needs, and what of it was never finished.

_ROUTING = "data_efficiency.data_routing"
_LTD = f"{_ROUTING}.random_ltd"
_SCHEDULER = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"
_NEEDED = ("total_layer_num", "random_ltd_layer_num", "random_ltd_schedule")
_NEEDED_TO_SCHEDULE = ("min_value", "max_value", "schedule_config", "schedule_type")
_NEEDED_TO_PACE = ("require_steps", "seq_per_step")


def _section(ctx: Context) -> JsonObject:
    """The section, where it is switched on.

    Raises:
        SkipRule: it is not, or it is not an object.
    """
    section = ctx.raw(_LTD)
    if not isinstance(section, dict) or not ctx.is_on(f"{_LTD}.enabled"):
        raise SkipRule
    return section


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
    section = _section(ctx)
    schedule = section.get("random_ltd_schedule")
    pace = schedule.get("schedule_config") if isinstance(schedule, dict) else None
    yield from _lacking(ctx, _LTD, section, _NEEDED)
    if isinstance(schedule, dict):
        yield from _lacking(ctx, f"{_LTD}.random_ltd_schedule", schedule, _NEEDED_TO_SCHEDULE)
    if isinstance(schedule, dict) and isinstance(pace, dict) and _grows(schedule):
        yield from _lacking(ctx, f"{_LTD}.random_ltd_schedule.schedule_config", pace, _NEEDED_TO_PACE)


def _grows(schedule: JsonObject) -> bool:
    """Whether the schedule computes anything: with equal bounds it stays where it is."""
    low, high = schedule.get("min_value"), schedule.get("max_value")
    return isinstance(low, int | float) and isinstance(high, int | float) and low < high


def _lacking(ctx: Context, path: str, section: JsonObject, keys: tuple[str, ...]) -> Iterator[Finding]:
    missing = [f"`{key}`" for key in keys if key not in section]
    if missing:
        yield ctx.at(
            path,
            f"{named(ctx.written_path(path))} has no {one_of(missing, 'and')}, which random-LTD needs",
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
    section = _section(ctx)
    rate = section.get("layer_token_lr_schedule")
    if isinstance(rate, dict) and rate.get("enabled", True):
        said = "is on" if "enabled" in rate else "does not say `enabled`"
        yield ctx.at(
            f"{_LTD}.layer_token_lr_schedule",
            f"`layer_token_lr_schedule` {said}, and DeepSpeed has not implemented it",
            help="remove it",
            part="key",
            fix=removal((*_LTD.split("."), "layer_token_lr_schedule")),
        )
    schedule = section.get("random_ltd_schedule")
    if isinstance(schedule, dict) and "schedule_type" in schedule and _grows(schedule):
        kind_ = schedule["schedule_type"]
        if kind_ != "fixed_linear":
            yield ctx.at(
                f"{_LTD}.random_ltd_schedule.schedule_type",
                f"`random_ltd_schedule.schedule_type` is {quoted(kind_)}, and random-LTD has only "
                '`"fixed_linear"`',
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
    section = _section(ctx)
    number, layers = section.get("random_ltd_layer_num"), section.get("random_ltd_layer_id")
    if isinstance(number, int) and isinstance(layers, list) and number != len(layers):
        yield ctx.at(
            f"{_LTD}.random_ltd_layer_num",
            f"`random_ltd_layer_num` is {quoted(number)}, but `random_ltd_layer_id` lists {len(layers)}",
            help=f"set it to {len(layers)}, or list {number} layers",
            related=[("the layers are listed here", f"{_LTD}.random_ltd_layer_id")],
        )


# Switches around a technique that nothing reads.

_CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
_BATCHING = "data_efficiency.data_sampling.dynamic_batching"
_SAMPLING = "data_efficiency.data_sampling"


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
    around: dict[str, list[str]] = {}
    for inner, outer in ((_CURRICULUM, _SAMPLING), (_BATCHING, _SAMPLING), (_LTD, _ROUTING)):
        if ctx.key(inner) is None or not ctx.is_on(f"{inner}.enabled"):
            continue
        for place in ("data_efficiency", outer):
            path = f"{place}.enabled"
            if ctx.has(path) and not ctx.value(path):
                around.setdefault(path, []).append(f"{inner}.enabled")
    for path, switches in around.items():
        yield _without_effect(ctx, path, switches)


def _without_effect(ctx: Context, path: str, switches: list[str]) -> Finding:
    """All that stays on in spite of a switch: the advice for one of them alone would not end the finding."""
    names = {switch: f"`{switch.split('.')[-2]}`" for switch in switches}
    stays = f"{one_of(names.values(), 'and')} {'stays' if len(switches) == 1 else 'stay'} on"
    return ctx.at(
        path,
        f"`enabled` is {quoted(ctx.raw(path))} here, which nothing reads: {stays}",
        help=", and ".join(f"set `{switch}` to `false`" for switch in switches),
        related=[(f"{name} is switched on here", switch) for switch, name in names.items()],
        fix=Fix(
            f"switch {one_of(names.values(), 'and')} off",
            tuple(Set(ctx.written_path(switch), False) for switch in switches),
        ),
    )
