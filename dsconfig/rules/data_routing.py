"""`data_routing`: random-LTD, and switches that have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._suggest_section import format_key

# Random-LTD: required keys and unimplemented features.

_ROUTING = "data_efficiency.data_routing"
_LTD = f"{_ROUTING}.random_ltd"
_SCHEDULER = "runtime/data_pipeline/data_routing/scheduler.py:RandomLTDScheduler.__init__"
_REQUIRED = ("total_layer_num", "random_ltd_layer_num", "random_ltd_schedule")
_REQUIRED_IN_SCHEDULE = ("min_value", "max_value", "schedule_config", "schedule_type")
_REQUIRED_IN_SCHEDULE_CONFIG = ("require_steps", "seq_per_step")


def _random_ltd_section(ctx: Context) -> JsonObject:
    """Return the `random_ltd` section if random-LTD is on.

    Raises:
        SkipRule: the section is off, or not an object.
    """
    section = ctx.raw(_LTD)
    if not isinstance(section, dict) or not ctx.is_on(f"{_LTD}.enabled"):
        raise SkipRule
    return section


@rule("DSC958", effect="crashes", since="0.8.0", source=_SCHEDULER)
def incomplete_random_ltd(ctx: Context) -> Iterator[Finding]:
    """Random-LTD is on, but a required key is missing.

    The engine looks up `total_layer_num`, `random_ltd_layer_num` and `random_ltd_schedule` when it starts, and
    in the schedule `min_value`, `max_value`, `schedule_type` and `schedule_config`. In the first step it looks
    up `require_steps` and `seq_per_step` in `schedule_config`.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "total_layer_num": 24, "random_ltd_layer_num": 22, "random_ltd_schedule": {
                "min_value": 128, "max_value": 2048, "schedule_type": "fixed_linear",
                "schedule_config": {"require_steps": 200000, "seq_per_step": 16}}}}}}
    """
    section = _random_ltd_section(ctx)
    schedule = section.get("random_ltd_schedule")
    schedule_config = schedule.get("schedule_config") if isinstance(schedule, dict) else None
    yield from _report_missing_keys(ctx, _LTD, section, _REQUIRED)
    if isinstance(schedule, dict):
        yield from _report_missing_keys(ctx, f"{_LTD}.random_ltd_schedule", schedule, _REQUIRED_IN_SCHEDULE)
    if isinstance(schedule, dict) and isinstance(schedule_config, dict) and _schedule_grows(schedule):
        path = f"{_LTD}.random_ltd_schedule.schedule_config"
        yield from _report_missing_keys(ctx, path, schedule_config, _REQUIRED_IN_SCHEDULE_CONFIG)


def _schedule_grows(schedule: JsonObject) -> bool:
    """Return whether the upper bound of a schedule exceeds its lower bound, so that it is not constant."""
    low, high = schedule.get("min_value"), schedule.get("max_value")
    return isinstance(low, int | float) and isinstance(high, int | float) and low < high


def _report_missing_keys(
    ctx: Context, path: str, section: JsonObject, keys: tuple[str, ...]
) -> Iterator[Finding]:
    missing = [f"`{key}`" for key in keys if key not in section]
    if missing:
        yield ctx.at(
            path,
            f"{format_key(ctx.written_path(path))} has no {join_alternatives(missing)}, which random-LTD requires",
            help=f"add {join_alternatives(missing, 'and')}",
            part="key",
            related=[("random-LTD is switched on here", f"{_LTD}.enabled")],
        )


@rule("DSC959", effect="crashes", since="0.8.0", source=f"{_SCHEDULER}, get_value")
def unfinished_part_of_random_ltd(ctx: Context) -> Iterator[Finding]:
    """Random-LTD is on, with a setting that DeepSpeed does not implement.

    `layer_token_lr_schedule` raises NotImplementedError if it is on, and a KeyError without `enabled`. Every
    `schedule_type` except fixed_linear fails in the first step.

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
    section = _random_ltd_section(ctx)
    lr_schedule = section.get("layer_token_lr_schedule")
    if isinstance(lr_schedule, dict) and lr_schedule.get("enabled", True):
        state = "is on, but" if "enabled" in lr_schedule else "is set (and has no `enabled`), but"
        yield ctx.at(
            f"{_LTD}.layer_token_lr_schedule",
            f"`layer_token_lr_schedule` {state} DeepSpeed does not implement it",
            help="remove it",
            part="key",
            fix=remove_key((*_LTD.split("."), "layer_token_lr_schedule")),
        )
    schedule = section.get("random_ltd_schedule")
    if isinstance(schedule, dict) and "schedule_type" in schedule and _schedule_grows(schedule):
        schedule_type = schedule["schedule_type"]
        if schedule_type != "fixed_linear":
            yield ctx.at(
                f"{_LTD}.random_ltd_schedule.schedule_type",
                f"`random_ltd_schedule.schedule_type` is {quote_value(schedule_type)}, but random-LTD supports only "
                '`"fixed_linear"`',
                help='write `"fixed_linear"`',
                fix=Fix(
                    'write `"fixed_linear"`',
                    (SetValue((*_LTD.split("."), "random_ltd_schedule", "schedule_type"), "fixed_linear"),),
                ),
            )


@rule(
    "DSC960",
    effect="ignored",
    since="0.8.0",
    source="runtime/engine.py:DeepSpeedEngine.random_ltd_initialize",
)
def random_ltd_layers_miscounted(ctx: Context) -> Iterator[Finding]:
    """`random_ltd_layer_num` differs from the number of layers in `random_ltd_layer_id`.

    Converting the model raises an error, and without the conversion random-LTD drops no tokens.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "random_ltd_layer_num": 3, "random_ltd_layer_id": [1, 2]}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_routing": {"random_ltd": {
            "enabled": true, "random_ltd_layer_num": 2, "random_ltd_layer_id": [1, 2]}}}}
    """
    section = _random_ltd_section(ctx)
    number, layers = section.get("random_ltd_layer_num"), section.get("random_ltd_layer_id")
    if isinstance(number, int) and isinstance(layers, list) and number != len(layers):
        yield ctx.at(
            f"{_LTD}.random_ltd_layer_num",
            f"`random_ltd_layer_num` is {quote_value(number)}, but `random_ltd_layer_id` lists {len(layers)} layers",
            help=f"set `random_ltd_layer_num` to {len(layers)}, or list {number} layers in `random_ltd_layer_id`",
            related=[("the layers are listed here", f"{_LTD}.random_ltd_layer_id")],
        )


# Outer switches that nothing reads.

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
    """An outer `enabled` of data efficiency is false, but a technique inside stays on.

    DeepSpeed does not read `enabled` of `data_efficiency`, `data_sampling` and `data_routing`. Only `enabled` of the
    technique itself matters.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"enabled": false, "data_sampling": {
            "dynamic_batching": {"enabled": true, "max_tokens": 8192}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"enabled": true, "data_sampling": {
            "enabled": true, "dynamic_batching": {"enabled": true, "max_tokens": 8192}}}}
    """
    if not isinstance(ctx.data.get("data_efficiency"), dict):
        return
    inner_switches: dict[str, list[str]] = {}
    for inner, outer in ((_CURRICULUM, _SAMPLING), (_BATCHING, _SAMPLING), (_LTD, _ROUTING)):
        if ctx.key(inner) is None or not ctx.is_on(f"{inner}.enabled"):
            continue
        for section in ("data_efficiency", outer):
            path = f"{section}.enabled"
            if ctx.has(path) and not ctx.value(path):
                inner_switches.setdefault(path, []).append(f"{inner}.enabled")
    for path, switches in inner_switches.items():
        yield _report_without_effect(ctx, path, switches)


def _report_without_effect(ctx: Context, path: str, switches: list[str]) -> Finding:
    """Report all techniques that stay on in one diagnostic, because all of them must be disabled."""
    names = {switch: f"`{switch.split('.')[-2]}`" for switch in switches}
    stays = f"{join_alternatives(names.values(), 'and')} {'stays' if len(switches) == 1 else 'stay'} on"
    return ctx.at(
        path,
        f"`{path}` is {quote_value(ctx.raw(path))}, but DeepSpeed does not read it: {stays}",
        help=", and ".join(f"set `{switch}` to `false`" for switch in switches),
        related=[(f"{name} is switched on here", switch) for switch, name in names.items()],
        fix=Fix(
            f"switch {join_alternatives(names.values(), 'and')} off",
            tuple(SetValue(ctx.written_path(switch), False) for switch in switches),
        ),
    )
