"""The format in which gradients travel."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._move_fix import renamed
from dsconfig.rules._parallel_sizes import device_mesh
from dsconfig.rules._stage import ZERO, stage, stage_set_here

_FORMAT = "communication_data_type"
_SEQUENCE = "sequence_parallel_size"


@rule(
    "DSC986",
    effect="wasteful",
    since="0.5.8",
    source="runtime/engine.py:DeepSpeedEngine.communication_data_type",
)
def gradients_travel_in_fp16(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` is "fp16", and the model does not train in fp16.

    Gradients of a bfloat16 or fp32 model reach farther than fp16 does: above 65504 they become infinite on
    the way, and without `fp16` no loss scale keeps them below.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "fp16"}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "bf16"}
    """
    word = ctx.value(_FORMAT) if ctx.has(_FORMAT) else None
    if isinstance(word, str) and word.lower() == "fp16":
        model = model_format(ctx)
        if model != "fp16":
            yield ctx.at(
                _FORMAT,
                f"gradients of a model in {model} travel as fp16, where all above 65504 is infinite, and no "
                "loss scale keeps them below",
                help=f"use {one_of(_wide(ctx))}, or remove the key",
                related=format_place(ctx),
            )


def _wide(ctx: Context) -> list[str]:
    """The release's words for formats with the range of fp32; bf16 was "bfp16" once."""
    key = ctx.key(_FORMAT)
    known = {word for arm in key.type[1:] if arm[0] == "enum" for word in arm[1:]} if key else set()
    return [word for word in ("bf16", "bfp16", "fp32") if word in known]


@rule(
    "DSC987",
    effect="altered",
    since="0.15.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def communication_format_of_sequence_parallel(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` is given, but sequence parallelism has a key of its own.

    With more than one rank for a sequence the engine takes `seq_parallel_communication_data_type`
    (`seq_parallel_comm_data_type` up to 0.16.4), fp32 where it is absent, for all gradients.

    Bad, as a dict:

        {"train_batch_size": 8, "communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "seq_parallel_communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}
    """
    if not ctx.has(_FORMAT) or not device_mesh(ctx):
        return
    key = "seq_parallel_communication_data_type" if ctx.since("0.16.5") else "seq_parallel_comm_data_type"
    size, wanted, used = ctx.value(_SEQUENCE), ctx.value(_FORMAT), ctx.value(key)
    if isinstance(size, int) and size > 1 and isinstance(wanted, str) and wanted != used:
        yield ctx.at(
            _FORMAT,
            f"`{_FORMAT}` is {quoted(wanted)}, but `{key}` takes its place while {size} ranks share a "
            f"sequence: gradients travel as {quoted(used)}" + ("" if ctx.has(key) else ", its default"),
            help=f"rename it to `{key}`",
            related=[("sequences are shared here", _SEQUENCE)],
            fix=renamed(ctx, (_FORMAT,), key, wanted),
        )


@rule(
    "DSC903",
    effect="crashes",
    since="0.3.3",
    until="0.8.3",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer,"
    " runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def fp32_communication_with_zero(ctx: Context) -> Iterator[Finding]:
    """Gradients are to travel in fp32, which ZeRO does not do before 0.9.0.

    The config is accepted, and the engine stops: up to 0.5.7 on `fp32_allreduce`, from 0.5.8 to 0.8.1 on
    `communication_data_type` "fp32", in 0.8.2 and 0.8.3 still at stages 1 and 2 with `reduce_scatter`.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "communication_data_type": "fp32",
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    if ctx.before("0.5.8"):
        path = "fp32_allreduce"
        asked = ctx.has(path) and ctx.on(path)
    else:
        path = _FORMAT
        word = ctx.value(path) if ctx.has(path) else None
        asked = isinstance(word, str) and word.lower() == "fp32"
    if not asked or stage(ctx) < 1:
        return
    if ctx.since("0.8.2") and (stage(ctx) > 2 or not ctx.on(f"{ZERO}.reduce_scatter") or bf16_optimizer(ctx)):
        return
    yield ctx.at(
        path,
        f"`{path}` is {quoted(ctx.written(path))}, and ZeRO in DeepSpeed {ctx.release_name} communicates"
        " in 16 bits alone",
        help="remove it, or upgrade DeepSpeed to 0.9.0 or later",
        related=stage_set_here(ctx),
        fix=removal((path,)),
    )
