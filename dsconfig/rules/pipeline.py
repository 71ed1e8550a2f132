"""The pipeline engine: what it makes of `pipeline`, and what it refuses beside it.

Only a `PipelineModule` gets this engine, and no config says what the model is. But the section is there for
nothing else, so that what the engine refuses is without effect at best.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.wording import compact, described, quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import stage, stage_path

_ENGINE = "runtime/pipe/engine.py:PipelineEngine.__init__"


def _requires_section(ctx: Context) -> None:
    """Go on only where the section is written, with something in it.

    Raises:
        SkipRule: it is not.
    """
    if not isinstance(ctx.data.get("pipeline"), dict) or not ctx.data["pipeline"]:
        raise SkipRule


@rule("DSC720", effect="ignored", source=_ENGINE)
def pipeline_switch_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """A switch of `pipeline` is not a boolean, and the pipeline engine takes no other truth.

    It asserts that `pipe_partitioned` and `grad_partitioned` are booleans, and does not start otherwise;
    `use_reentrant` counts as true unless it is `false` itself. Other engines look at none of them.

    Bad:

        {"train_batch_size": 8, "pipeline": {"pipe_partitioned": "true"}}

    Good:

        {"train_batch_size": 8, "pipeline": {"pipe_partitioned": true}}

    Bad:

        {"train_batch_size": 8, "pipeline": {"use_reentrant": 0}}

    Good:

        {"train_batch_size": 8, "pipeline": {"use_reentrant": false}}
    """
    _requires_section(ctx)
    for key in ("pipe_partitioned", "grad_partitioned", "use_reentrant"):
        path = f"pipeline.{key}"
        if not ctx.has(path) or ctx.key(path) is None:
            continue
        value = ctx.written(path)
        if isinstance(value, bool) or (key == "use_reentrant" and (value or value is None)):
            continue
        yield ctx.at(
            path,
            f"`{key}` is {described(value)} and counts as `true`: the engine compares it with `false` itself"
            if key == "use_reentrant"
            else f"`{key}` is {described(value)} and the pipeline engine starts only with `true` or `false`",
            help="write `true` or `false`",
        )


@rule("DSC721", effect="ignored", source=_ENGINE)
def checkpoint_interval_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`pipeline.activation_checkpoint_interval` is not a number.

    The pipeline engine compares it with 0, and fails on text and null; other engines do not look at it.

    Bad:

        {"train_batch_size": 8, "pipeline": {"activation_checkpoint_interval": "auto"}}

    Good:

        {"train_batch_size": 8, "pipeline": {"activation_checkpoint_interval": 1}}
    """
    _requires_section(ctx)
    path = "pipeline.activation_checkpoint_interval"
    value = ctx.written(path)
    if ctx.has(path) and not isinstance(value, int | float):
        yield ctx.at(
            path,
            f"`activation_checkpoint_interval` is {quoted(value)}, which the pipeline engine compares with 0",
            help="give a number of layers, or remove the key: the default is `0`",
            fix=Fix("remove the key", (Remove(("pipeline", "activation_checkpoint_interval")),)),
        )


@rule("DSC722", effect="ignored", since="0.3.16", source=_ENGINE)
def pipeline_above_zero_stage_1(ctx: Context) -> Iterator[Finding]:
    """`pipeline` is given beside ZeRO stage 2 or 3.

    The pipeline engine refuses these stages, and no other engine reads the section: either it does not start,
    or what the section says does not happen.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "pipeline": {"pipe_partitioned": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "pipeline": {"pipe_partitioned": true}}
    """
    _requires_section(ctx)
    if stage(ctx) > 1:
        yield ctx.at(
            "pipeline",
            f"`pipeline` stands beside ZeRO stage {compact(stage(ctx))}, and the pipeline engine takes only "
            "0 and 1",
            help="use stage 1 for a `PipelineModule`, or remove `pipeline` for any other model",
            part="key",
            related=[("the stage is set here", stage_path(ctx))],
        )


@rule(
    "DSC723",
    effect="altered",
    since="0.4.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def overlap_with_pipeline(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization.overlap_comm` is on beside `pipeline`.

    For a `PipelineModule` DeepSpeed switches the overlap off, with a warning.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "overlap_comm": true},
         "pipeline": {"pipe_partitioned": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "overlap_comm": false},
         "pipeline": {"pipe_partitioned": true}}
    """
    _requires_section(ctx)
    path = "zero_optimization.overlap_comm"
    if stage(ctx) == 1 and ctx.has(path) and ctx.on(path):
        yield ctx.at(
            path,
            "`overlap_comm` is on beside `pipeline`, and DeepSpeed switches it off for a pipeline",
            help="set it to `false`",
            related=[("the pipeline is described here", "pipeline")],
            fix=Fix("set `overlap_comm` to `false`", (Set(ctx.place(path), False),)),
        )
