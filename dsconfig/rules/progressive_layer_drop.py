"""Progressive layer dropping."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import join_alternatives
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding


@rule(
    "DSC936",
    effect="crashes",
    until="0.19.7",
    source="runtime/engine.py:DeepSpeedEngine._configure_progressive_layer_drop",
)
def layer_drop_without_numbers(ctx: Context) -> Iterator[Finding]:
    """Progressive layer dropping is enabled without `theta` or `gamma`.

    DeepSpeed defines defaults for both but does not apply them: the engine looks up both keys during
    initialization.

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
    missing = {key: value for key, value in _DEFAULTS.items() if key not in section}
    if missing:
        names = join_alternatives([f"`{key}`" for key in missing], "and")
        yield ctx.at(
            "progressive_layer_drop",
            f"`progressive_layer_drop` is enabled without {names}, which the engine looks up",
            help=f"add {names}: DeepSpeed's intended {'defaults are' if len(missing) > 1 else 'default is'} "
            f"{join_alternatives(missing.values(), 'and')}",
            part="key",
            fix=Fix(
                f"add {names}",
                tuple(SetValue(("progressive_layer_drop", key), missing[key]) for key in missing),
            ),
        )


_DEFAULTS = {"theta": 0.5, "gamma": 0.001}
"""Defaults that DeepSpeed intends but does not apply."""
