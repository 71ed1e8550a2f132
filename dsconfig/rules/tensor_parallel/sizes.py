"""`autotp_size`: what it may be, the ranks that it divides, and the stage beside it."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import division
from dsconfig.rules._stage import STAGE, stage, stage_set_here
from dsconfig.rules._suggest_section import named
from dsconfig.rules.batch.world_sizes import divisors
from dsconfig.rules.tensor_parallel._size import AUTOTP, tensor_parallel

_APPLY = "runtime/engine.py:DeepSpeedEngine._apply_autotp_partitioning"


@rule("DSC703", effect="crashes", since="0.18.6", source="__init__.py:initialize")
def text_for_tensor_parallel_size(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` is "auto" or another text.

    The section itself would drop an "auto" and read digits in quotes. But `deepspeed.initialize` compares the
    value with 0 before that, as it is written, and fails.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": "auto"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": "4"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}}
    """
    value = ctx.written(AUTOTP)
    if isinstance(value, str) and value:
        number = ctx.value(AUTOTP) if value != "auto" else None
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is the string {quoted(value)}, and `deepspeed.initialize` compares it with 0",
            help="write the number of ranks that share each layer, or remove the key",
            fix=None
            if number is None
            else Fix(
                f"write {quoted(number)}", (Set(("tensor_parallel", "autotp_size"), number),), safe=True
            ),
        )


@rule("DSC704", effect="crashes", since="0.18.6", source=_APPLY)
def tensor_parallel_sizes_differ(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` and `tensor_parallel.tp.tp_size` say different numbers.

    The first counts; the second stems from the parser shared with inference, and must be 1 or the same.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "tp": {"tp_size": 4}}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    size, path = tensor_parallel(ctx), "tensor_parallel.tp.tp_size"
    if size > 1 and ctx.has(path) and (other := ctx.value(path)) not in (1, size):
        yield ctx.at(
            path,
            f"{named(ctx.place(path))} {quoted(other)} is neither 1 nor `autotp_size` {size}",
            help="remove it: `autotp_size` is enough",
            related=[("the size that counts", AUTOTP)],
            fix=removal(ctx.place(path)),
        )


@rule("DSC705", effect="crashes", since="0.16.4", source="utils/groups.py:_init_tp_mesh_device")
def world_size_not_divided_by_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """The world size is not a multiple of `tensor_parallel.autotp_size`.

    The ranks are laid out as a rectangle of data-parallel groups × `autotp_size`. Those left over belong to
    no group, and fail with an assertion or an index error that names neither number.

    Bad, world size 6:

        {"train_batch_size": 12, "tensor_parallel": {"autotp_size": 4}}

    Good, world size 8:

        {"train_batch_size": 16, "tensor_parallel": {"autotp_size": 4}}
    """
    size, world = tensor_parallel(ctx), ctx.world_size
    if size > 1 and world and world % size:
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` {size} does not divide the world size {world}: {division(world, size)}",
            help=f"use one of {one_of(divisors(world)[:12])}, or another number of ranks",
        )


@rule("DSC706", effect="ignored", since="0.16.4", source="runtime/engine.py:DeepSpeedEngine.__init__")
def tensor_parallel_size_without_effect(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.autotp_size` is negative, or it is 1, and other keys of the section are given.

    Only a size above 1 turns tensor parallelism on; nothing else checks the number, and the rest of the
    section has no effect then.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": -1}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    section = ctx.data.get("tensor_parallel")
    if not isinstance(section, dict) or "autotp_size" not in section:
        return
    size = tensor_parallel(ctx)
    if size < 0 or (size == 1 and len(section) > 1):
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is {quoted(size)}, which leaves tensor parallelism off"
            + ("" if len(section) == 1 else ", and the other keys of the section without effect"),
            help="give the number of ranks that share each layer, or remove the section",
            fix=removal(("tensor_parallel",)),
        )


@rule(
    "DSC713",
    effect="crashes",
    since="0.16.4",
    until="0.19.3",
    source="runtime/engine.py:DeepSpeedEngine._configure_tensor_parallel_states",
)
def tensor_parallel_at_stage_3(ctx: Context) -> Iterator[Finding]:
    """Tensor parallelism is on at ZeRO stage 3, which works from DeepSpeed 0.19.4 on.

    Up to 0.19.3 the engine stops as it starts: "Currently, the compatibility between 'autotp' and
    'zero_stage = 3' has not been validated".

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": {"stage": 2}}
    """
    size = tensor_parallel(ctx)
    if size > 1 and stage(ctx) == 3:
        yield ctx.at(
            AUTOTP,
            f"`autotp_size` is {size} at ZeRO stage 3, and DeepSpeed combines both from 0.19.4 on",
            help=f"set `{STAGE}` to 2, or upgrade DeepSpeed to 0.19.4 or later",
            related=stage_set_here(ctx),
        )
