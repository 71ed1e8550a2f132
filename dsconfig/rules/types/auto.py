""" "auto" that nobody fills."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk import Event
from dsconfig.rules.types._refusals import effect_of, name_of
from dsconfig.words import expected, quoted


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
    for event in ctx.walk.autos:
        assert event.key is not None
        if event.section.drops_auto:
            yield ctx.at(
                event.path,
                f'{name_of(event)} is `"auto"`, which nobody fills here: DeepSpeed drops the key and uses '
                "its default" + (f", {quoted(event.key.default)}" if event.key.default is not None else ""),
                help=_auto_help(event),
            )
        elif event.key.type != ("bool",):
            yield ctx.at(
                event.path,
                f'{name_of(event)} is `"auto"`, which nobody fills here: DeepSpeed takes the text as it is'
                f" where it needs {expected(event.key.type)}",
                help=_auto_help(event),
                effect=effect_of(ctx, event),
            )


def _auto_help(event: Event) -> str:
    assert event.key is not None
    fillers = event.key.info.fills
    if fillers:
        return (
            f"give a value, or check with `--consumer {fillers[0]}` if {' or '.join(fillers)} reads the file"
        )
    return f"give {expected(event.key.type)}, or remove the key"
