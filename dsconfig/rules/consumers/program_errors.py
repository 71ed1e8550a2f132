"""What the program of a launch file refuses before it hands a config over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.launch.find_jobs import job_of
from dsconfig.launch.launched_job import Job
from dsconfig.launch.program_errors import Refused, refused

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


@rule(
    "DSC810",
    effect="rejected",
    source="the program's own check: consumers/launchers/refusals.py cites each",
    reads="job",
)
def refused_beside_deepspeed(ctx: Context) -> Iterator[Finding]:
    """A launch file asks for what its program refuses with this config, or with DeepSpeed at all.

    LLaMA-Factory refuses GaLore and APOLLO beside DeepSpeed, and with ZeRO-3 `pure_bf16`, Unsloth,
    KTransformers, PiSSA and `predict_with_generate`. Axolotl refuses the optimizers muon, polora, q_galore
    and flash_…, ReLoRA and FSDP. ms-swift refuses FSDP, and processes that see several GPUs. Whatever ends in
    Transformers' Trainer takes one of `bf16` and `fp16`, and numbers where it calculates.

    Bad:

        {"base_model": "m", "datasets": [], "optimizer": "muon", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}

    Good:

        {"base_model": "m", "datasets": [], "optimizer": "adamw_torch", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}
    """
    try:
        job = job_of(ctx.document)
    except OSError:  # its note says so
        raise SkipRule from None
    for each in refused(job, ctx.version) if job is not None else ():
        key = ".".join(each.place).removeprefix("ENV.")
        yield ctx.at(
            _path(job, each),
            f"`{key}` is {quoted(each.value)}, which {each.program} refuses {each.refusal.how}",
            help=each.refusal.help,
        )._replace(span=job.line_span if job else None)


def _path(job: Job | None, each: Refused) -> KeyPath:
    """The key that is refused, or, of a flag, that of the commands it stands in."""
    if job is None or job.arguments is None or job.line is not None:
        return each.place
    return tuple(job.format.commands[0].split("."))
