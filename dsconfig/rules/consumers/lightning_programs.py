"""Python programs that start DeepSpeed through Lightning without a config of their own."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.launch.hostfile import span_of_line
from dsconfig.launch.lightning_strategies import lightning_problems


@rule(
    "DSC870",
    effect="crashes",
    source="lightning pytorch/strategies/deepspeed.py:DeepSpeedStrategy",
    reads="program",
)
def lightning_strategy_rejected(ctx: Context) -> Iterator[Finding]:
    """Lightning rejects arguments of a `Trainer` or `Fabric` with a DeepSpeed strategy.

    Lightning knows a fixed list of strategy names, such as "deepspeed_stage_2_offload"; other combinations need a
    `DeepSpeedStrategy`. With DeepSpeed it requires CUDA GPUs, rejects double precision and clipping by value, and
    supports one optimizer only. dsconfig reads this from the Python source, if the values are in the same file.

    Good:

        {"train_batch_size": 8}
    """
    for problem in lightning_problems(ctx.document):
        yield ctx.at((), problem.message, help=problem.help)._replace(
            span=span_of_line(ctx.document.text, problem.line)
        )
