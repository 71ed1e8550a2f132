"""Sections that a consumer never comes to use."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.json_types import NamedTuple
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named

_ALL = (*HUGGING_FACE, "lightning")


class _Idle(NamedTuple):
    """A key without effect for some consumers; `why` they never look at it, and what to do there."""

    path: str
    consumers: tuple[str, ...]
    why: str
    help: str


_DATA = "data loaders are not made by DeepSpeed here"
_ROWS = (
    _Idle(
        "activation_checkpointing",
        HUGGING_FACE,
        "it calls no `deepspeed.checkpointing.configure`, for which the section is",
        "remove it; `gradient_checkpointing` of the model takes its place",
    ),
    _Idle("dataloader_drop_last", _ALL, _DATA, "remove it; `drop_last` of the data loader takes its place"),
    _Idle(
        "data_efficiency.data_sampling.curriculum_learning.enabled",
        _ALL,
        _DATA,
        "leave it off: the sampler of the curriculum is part of DeepSpeed's own loader",
    ),
    _Idle("pipeline", _ALL, "it builds no `PipelineModule`, which alone reads the section", "remove it"),
    _Idle(
        "checkpoint.parallel_write.pipeline_stage",
        _ALL,
        "it builds no `PipelineModule`, which alone reads the key",
        "remove it",
    ),
)


@rule(
    "DSC990",
    effect="ignored",
    source="accelerate accelerator.py:Accelerator._prepare_deepspeed, "
    "lightning strategies/deepspeed.py:DeepSpeedStrategy",
)
def section_unused_by_consumer(ctx: Context) -> Iterator[Finding]:
    """The program that reads the config never comes to what a section is for.

    Transformers, Accelerate and Lightning make the data loaders themselves and build no pipelines; the first
    two do not configure DeepSpeed's activation checkpointing either, which has no effect of itself. A script
    of one's own may do so behind them.

    Bad, read by transformers:

        {"train_batch_size": "auto", "activation_checkpointing": {"partition_activations": true}}

    Good, read by transformers:

        {"train_batch_size": "auto"}

    Fixed, read by transformers:

        {"train_batch_size": "auto"}
    """
    if ctx.consumer == "deepspeed":
        return
    reader = "the Trainer" if ctx.consumer == "transformers" else ctx.consumer.capitalize()
    for row in _ROWS:
        parts = row.path.split(".")
        if ctx.consumer not in row.consumers or parts[0] not in ctx.data or not _asks(ctx, row.path):
            continue
        what = tuple(parts if parts[-1] != "enabled" else parts[:-1])
        yield ctx.at(
            row.path,
            f"{named(what)} has no effect under {reader}: {row.why}",
            help=row.help,
            part="key",
            fix=removal(tuple(parts)) if len(parts) == 1 else None,
        )


def _asks(ctx: Context, path: str) -> bool:
    """Whether something is asked for there: a switch that is on, a section in which something is."""
    value = ctx.written(path)
    if not ctx.has(path) or ctx.key(path) is None:
        return False
    return any(map(bool, value.values())) if isinstance(value, dict) else bool(value)
