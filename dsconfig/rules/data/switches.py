"""Switches around a technique that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule

_CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
_BATCHING = "data_efficiency.data_sampling.dynamic_batching"
_SAMPLING = "data_efficiency.data_sampling"
_ROUTING = "data_efficiency.data_routing"
_LTD = f"{_ROUTING}.random_ltd"


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
        if ctx.key(inner) is None or not ctx.on(f"{inner}.enabled"):
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
        f"`enabled` is {quoted(ctx.written(path))} here, which nothing reads: {stays}",
        help=", and ".join(f"set `{switch}` to `false`" for switch in switches),
        related=[(f"{name} is switched on here", switch) for switch, name in names.items()],
        fix=Fix(
            f"switch {one_of(names.values(), 'and')} off",
            tuple(Set(ctx.place(switch), False) for switch in switches),
        ),
    )
