"""Keys that are written under both of their names."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk import Event
from dsconfig.rules._fixes import removal

_STRICT = "runtime/config_utils.py:DeepSpeedConfigModel"


@rule("DSC108", effect="rejected", source=_STRICT)
def key_under_two_names(ctx: Context) -> Iterator[Finding]:
    """One key is written twice, under both of its names.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1,
        "prefetch_bucket_size": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage3_prefetch_bucket_size": 1}}
    """
    for event in ctx.walk.doubles:
        assert event.key is not None
        yield ctx.at(
            event.path,
            f"`{event.path[-1]}` is another name of `{event.key.info.name}`, and both are written",
            help=f"keep `{event.key.info.name}` alone",
            part="key",
            fix=removal(event.path, safe=_said_twice(ctx, event)),
        )


def _said_twice(ctx: Context, event: Event) -> bool:
    """Whether the key's other name holds the same value."""
    assert event.key is not None
    other = ctx.document.node((*event.path[:-1], event.key.info.name))
    return other is not None and type(other.value) is type(event.value) and other.value == event.value
