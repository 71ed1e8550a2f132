""" "auto" that nobody fills."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import expected, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk_events import KnownKey
from dsconfig.rules._suggest_section import named
from dsconfig.rules.types._refused_values import effect_of


@rule(
    "DSC117", effect="altered", source="runtime/config_utils.py:DeepSpeedConfigModel.__init__", general=True
)
def unfilled_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and nobody fills it.

    "auto" is Transformers' and Accelerate's: they put a number there before DeepSpeed sees the config.
    DeepSpeed itself drops the key in its strict sections, so that the default applies (stage "auto" is stage
    0, fp16 "auto" is off), and takes the text as it is everywhere else.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": "auto"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    for entry in ctx.walk.autos:
        unfilled = f'{named(entry.path)} is `"auto"`, which nobody fills here'
        if entry.section.drops_auto:
            default = f", {quoted(entry.key.default)}" if entry.key.default is not None else ""
            yield ctx.at(
                entry.path,
                f"{unfilled}: DeepSpeed drops the key and uses its default{default}",
                help=_auto_help(entry),
            )
        elif entry.key.type != ("bool",):
            yield ctx.at(
                entry.path,
                f"{unfilled}: DeepSpeed takes the text as it is where it needs {expected(entry.key.type)}",
                help=_auto_help(entry),
                effect=effect_of(ctx, entry),
            )


def _auto_help(entry: KnownKey) -> str:
    fillers = entry.key.info.fills
    if fillers:
        return (
            f"give a value, or check with `--consumer {fillers[0]}` if {' or '.join(fillers)} reads the file"
        )
    taken = "" if entry.key.type == ("never",) else f"give {expected(entry.key.type)}, or "
    return f"{taken}remove the key"
