"""Data efficiency: what a curriculum and dynamic batches need as soon as they are switched on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.rules._context import Context, Finding
from dsconfig.rules._rule import rule
from dsconfig.words import kind, quoted

_FILE = "runtime/data_pipeline/config.py"
_CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
_BATCHING = "data_efficiency.data_sampling.dynamic_batching"


@rule("DSC945", effect="rejected", since="0.8.0", source=f"{_FILE}:get_curriculum_learning")
def curriculum_without_metrics(ctx: Context) -> Iterator[Finding]:
    """Curriculum learning is on, and `curriculum_metrics` is not given.

    The metrics say what difficulty means. `enabled` is tested for truth, so that `"false"` in quotes counts
    as on; and it counts also where `data_sampling` and `data_efficiency` are off.

    Bad:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {
            "curriculum_learning": {"enabled": true}}}}

    Good:

        {"train_batch_size": 8, "data_efficiency": {"data_sampling": {"curriculum_learning": {
            "enabled": true, "curriculum_metrics": {"seqlen": {"difficulty_type": "value"}}}}}}
    """
    if ctx.on(f"{_CURRICULUM}.enabled") and not ctx.has(f"{_CURRICULUM}.curriculum_metrics"):
        yield _needs(
            ctx, _CURRICULUM, "curriculum learning", "curriculum_metrics", "an object with a metric or more"
        )


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
        yield _needs(ctx, _BATCHING, "dynamic batching", "max_tokens", "the most tokens in a batch")


def _needs(ctx: Context, section: str, what: str, key: str, meaning: str) -> Finding:
    switch = ctx.written(f"{section}.enabled")
    truth = "" if isinstance(switch, bool) else f" (`enabled` is {quoted(switch)}, which counts as true)"
    return ctx.at(
        section,
        f"{what} is on{truth}, but `{key}` is not given",
        help=f"add `{key}` ({meaning}), or set `enabled` to `false`",
        part="key",
        related=[(f"{what} is switched on here", f"{section}.enabled")],
    )


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


def _converts(value: Any) -> bool:
    try:
        int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
