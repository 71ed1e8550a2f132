"""Keys that DeepSpeed takes and never looks at."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.keys._replacements import instead


@rule("DSC109", effect="ignored")
def key_without_effect(ctx: Context) -> Iterator[Finding]:
    """A key is taken, and then nothing in DeepSpeed ever looks at it.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "cpu_offload_use_pin_memory": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for entry in ctx.walk.unread:
        info = entry.key.info
        yield ctx.at(
            entry.path,
            f"{named(entry.path)} has no effect: DeepSpeed takes it and never looks at it",
            help=instead(ctx, info, entry),
            part="key",
        )
