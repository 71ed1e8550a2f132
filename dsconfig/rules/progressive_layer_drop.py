"""Progressive layer dropping."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule


@rule(
    "DSC936",
    effect="crashes",
    until="0.19.7",
    source="runtime/engine.py:DeepSpeedEngine._configure_progressive_layer_drop",
)
def layer_drop_without_numbers(ctx: Context) -> Iterator[Finding]:
    """Progressive layer dropping is on, and `theta` or `gamma` is not given.

    DeepSpeed has defaults for the two and does not use them: the engine looks both up when it starts.

    Bad:

        {"train_batch_size": 8, "progressive_layer_drop": {"enabled": true, "theta": 0.5}}

    Good:

        {"train_batch_size": 8, "progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.001}}

    Fixed:

        {"train_batch_size": 8, "progressive_layer_drop": {"enabled": true, "theta": 0.5, "gamma": 0.001}}
    """
    section = ctx.data.get("progressive_layer_drop")
    if not isinstance(section, dict) or not section.get("enabled"):
        return
    missing = {key: value for key, value in _LAYER_DROP.items() if key not in section}
    if missing:
        names = one_of([f"`{key}`" for key in missing], "and")
        yield ctx.at(
            "progressive_layer_drop",
            f"`progressive_layer_drop` is on, and has no {names}, which the engine looks up",
            help=f"add {names}: {one_of(missing.values(), 'and')} {_MEANT[len(missing) > 1]}",
            part="key",
            fix=Fix(
                f"add {names}", tuple(Set(("progressive_layer_drop", key), missing[key]) for key in missing)
            ),
        )


_LAYER_DROP = {"theta": 0.5, "gamma": 0.001}
_MEANT = ("is the value that DeepSpeed means as default", "are the values that DeepSpeed means as defaults")
