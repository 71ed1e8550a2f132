"""`zero_optimization` as a boolean, the form of the first release."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Operation, Remove, Set
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import expected, quoted
from dsconfig.evaluation.coercion import Refused, read
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import ZERO


@rule("DSC140", effect="deprecated", source="runtime/zero/config.py:read_zero_config_deprecated")
def zero_optimization_as_boolean(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is a boolean, as in the first release.

    DeepSpeed still reads it, with a warning: true is stage 1, false stage 0, and a top-level `allgather_size`
    is the `allgather_bucket_size` of the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    switch = ctx.data.get(ZERO)
    if not isinstance(switch, bool) or ctx.plugged:  # which fail on it: DSC807
        return
    section: JsonObject = {"stage": int(switch)}
    operations: tuple[Operation, ...] = ()
    size = ctx.written("allgather_size")
    if switch and isinstance(size, int):
        section["allgather_bucket_size"] = size
        operations = (Remove(("allgather_size",)),)
    yield ctx.at(
        ZERO,
        f"`{ZERO}` is {quoted(switch)}, the form of the first release: it means stage {int(switch)}",
        help=f"write {quoted(section)}",
        fix=Fix(f"write {quoted(section)}", (Set((ZERO,), section), *operations), safe=True),
    )


@rule("DSC404", effect="rejected", since="0.7.0", source="runtime/zero/config.py:read_zero_config_deprecated")
def allgather_size_refused(ctx: Context) -> Iterator[Finding]:
    """`allgather_size` has a value that ZeRO does not take.

    Beside `"zero_optimization": true`, the first form of the section, DeepSpeed reads `allgather_size` as
    `zero_optimization.allgather_bucket_size`, and just as strictly.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": -1}

    Good:

        {"train_batch_size": 8, "zero_optimization": true, "allgather_size": 500000000}
    """
    written = ctx.written("allgather_size")
    section, bucket = ctx.section("zero_optimization"), ctx.key("zero_optimization.allgather_bucket_size")
    if (
        ctx.written("zero_optimization") is not True
        or written is MISSING
        or section is None
        or bucket is None
    ):
        return
    if written != "auto" and isinstance(read(bucket.type, written, section.dialect), Refused):
        yield ctx.at(
            "allgather_size",
            f"`allgather_size` is {quoted(written)}, but must be {expected(bucket.type)}: it becomes"
            " `zero_optimization.allgather_bucket_size`",
            help=f"give {expected(bucket.type)}, or write `zero_optimization` as an object",
            related=[("the boolean form of ZeRO stands here", "zero_optimization")],
        )
