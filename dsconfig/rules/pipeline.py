"""The pipeline engine: how it uses `pipeline`, and settings that it rejects.

Only a `PipelineModule` uses this engine, and the config does not say what the model is. But no other engine
reads the section, so a setting that the pipeline engine rejects has no effect at best.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.wording import describe_value, format_number, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._effective_values import effective_stage, stage_path

_ENGINE = "runtime/pipe/engine.py:PipelineEngine.__init__"


def _require_pipeline_section(ctx: Context) -> None:
    """Skip the rule unless the config has a nonempty `pipeline` section.

    Raises:
        SkipRule: the section is absent or empty.
    """
    if not isinstance(ctx.data.get("pipeline"), dict) or not ctx.data["pipeline"]:
        raise SkipRule


@rule("DSC720", effect="ignored", source=_ENGINE)
def pipeline_switch_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """A switch of `pipeline` is not a boolean.

    The pipeline engine asserts that `pipe_partitioned` and `grad_partitioned` are booleans, and does not
    start otherwise. It treats `use_reentrant` as true unless it is exactly `false`. Other engines ignore all
    three.

    Bad:

        {"train_batch_size": 8, "pipeline": {"pipe_partitioned": "true"}}

    Good:

        {"train_batch_size": 8, "pipeline": {"pipe_partitioned": true}}

    Bad:

        {"train_batch_size": 8, "pipeline": {"use_reentrant": 0}}

    Good:

        {"train_batch_size": 8, "pipeline": {"use_reentrant": false}}
    """
    _require_pipeline_section(ctx)
    for key in ("pipe_partitioned", "grad_partitioned", "use_reentrant"):
        path = f"pipeline.{key}"
        if not ctx.has(path) or ctx.key(path) is None:
            continue
        value = ctx.raw(path)
        if isinstance(value, bool) or (key == "use_reentrant" and (value or value is None)):
            continue
        yield ctx.at(
            path,
            f"`{key}` is {describe_value(value)} and is treated as `true`: only `false` itself turns it off"
            if key == "use_reentrant"
            else f"`{key}` is {describe_value(value)} but the pipeline engine accepts only `true` or `false`",
            help="use `true` or `false`",
        )


@rule("DSC721", effect="ignored", source=_ENGINE)
def checkpoint_interval_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`pipeline.activation_checkpoint_interval` is not a number.

    The pipeline engine compares it with 0, which raises for strings and null. Other engines ignore it.

    Bad:

        {"train_batch_size": 8, "pipeline": {"activation_checkpoint_interval": "auto"}}

    Good:

        {"train_batch_size": 8, "pipeline": {"activation_checkpoint_interval": 1}}
    """
    _require_pipeline_section(ctx)
    path = "pipeline.activation_checkpoint_interval"
    value = ctx.raw(path)
    if ctx.has(path) and not isinstance(value, int | float):
        yield ctx.at(
            path,
            f"`activation_checkpoint_interval` is {quote_value(value)}, but the pipeline engine compares it with"
            " 0",
            help="use a number of layers, or remove the key: the default is `0`",
            fix=Fix("remove the key", (RemoveKey(("pipeline", "activation_checkpoint_interval")),)),
        )


@rule("DSC722", effect="ignored", since="0.3.16", source=_ENGINE)
def pipeline_above_zero_stage_1(ctx: Context) -> Iterator[Finding]:
    """`pipeline` is combined with ZeRO stage 2 or 3.

    The pipeline engine rejects these stages, and no other engine reads the section. Either engine
    initialization fails, or the section has no effect.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "pipeline": {"pipe_partitioned": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "pipeline": {"pipe_partitioned": true}}
    """
    _require_pipeline_section(ctx)
    if effective_stage(ctx) > 1:
        yield ctx.at(
            "pipeline",
            f"`pipeline` is combined with ZeRO stage {format_number(effective_stage(ctx))}, but the pipeline "
            "engine supports"
            " only stages 0 and 1",
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
    """`zero_optimization.overlap_comm` is enabled together with `pipeline`.

    DeepSpeed disables the overlap for a `PipelineModule`, with a warning.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "overlap_comm": true},
         "pipeline": {"pipe_partitioned": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "overlap_comm": false},
         "pipeline": {"pipe_partitioned": true}}
    """
    _require_pipeline_section(ctx)
    path = "zero_optimization.overlap_comm"
    if effective_stage(ctx) == 1 and ctx.has(path) and ctx.is_on(path):
        yield ctx.at(
            path,
            "`overlap_comm` is `true`, but DeepSpeed disables it for pipeline parallelism",
            help="set it to `false`",
            related=[("the pipeline is configured here", "pipeline")],
            fix=Fix("set `overlap_comm` to `false`", (SetValue(ctx.written_path(path), False),)),
        )
