"""Batches that are filled up to a number of tokens."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import kind, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.data._required_keys import needs

_FILE = "runtime/data_pipeline/config.py"
_BATCHING = "data_efficiency.data_sampling.dynamic_batching"


@rule("DSC946", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_without_max_tokens(ctx: Context) -> Iterator[Finding]:
    """Dynamic batching is on, and `max_tokens` is not given.

    Batches are filled up to that many tokens, so there is no default. `enabled` goes through bool(), so that
    `"false"` in quotes counts as on.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"dynamic_batching": {
            "enabled": true, "max_tokens": 8192}}}}
    """
    if ctx.on(f"{_BATCHING}.enabled") and not ctx.has(f"{_BATCHING}.max_tokens"):
        yield needs(ctx, _BATCHING, "dynamic batching", "max_tokens", "the most tokens in a batch")


@rule("DSC947", effect="rejected", since="0.16.5", source=f"{_FILE}:get_dynamic_batching")
def dynamic_batching_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A size of dynamic batching cannot be made an integer.

    DeepSpeed calls int() on `min_batch_size` and `max_batch_size`, also where dynamic batching is off, and on
    `max_tokens` where it is on. Digits in quotes pass and fractions are cut off; null, lists, infinity and
    words are refused. For no limit leave `max_batch_size` out.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "dynamic_batching": {"max_batch_size": null}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "dynamic_batching": {"max_batch_size": 64}}}}
    """
    keys = ["min_batch_size", "max_batch_size"]
    if ctx.on(f"{_BATCHING}.enabled"):
        keys.append("max_tokens")
    for key in keys:
        path = f"{_BATCHING}.{key}"
        if ctx.has(path) and not _converts(ctx.value(path)):
            value = ctx.value(path)
            shown = "" if value is None else f", {quoted(value)}"
            yield ctx.at(
                path,
                f"`{key}` is {kind(value)}{shown}, of which int() makes no number",
                help="give an integer" + (", or remove the key" if key != "max_tokens" else ""),
            )


def _converts(value: Json) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
