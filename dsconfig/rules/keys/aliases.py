"""Keys that are written under both of their names."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.walk_events import KnownKey
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named

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
    for entry in ctx.walk.doubles:
        yield ctx.at(
            entry.path,
            f"{named(entry.path)} is another name of `{entry.key.info.name}`, and both are written",
            help=f"keep `{entry.key.info.name}` alone",
            part="key",
            fix=removal(entry.path, safe=_said_twice(ctx, entry)),
        )


def _said_twice(ctx: Context, entry: KnownKey) -> bool:
    """Whether the key's other name holds the same value."""
    other = ctx.document.node((*entry.path[:-1], entry.key.info.name))
    return other is not None and type(other.value) is type(entry.value) and other.value == entry.value
