"""`activation_checkpointing`: settings that `deepspeed.checkpointing.configure` applies."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding

_CONFIGURE = "runtime/activation_checkpointing/checkpointing.py:configure"
_SECTION = "activation_checkpointing"


@rule("DSC925", effect="ignored", source=_CONFIGURE)
def contiguous_checkpoints_without_partitions(ctx: Context) -> Iterator[Finding]:
    """`contiguous_memory_optimization` is on, but `partition_activations` is off.

    DeepSpeed copies the partitioned activations into one buffer, whose size it computes from
    `number_checkpoints`. If either key is missing, `deepspeed.checkpointing.configure` raises, unless the
    script passes it as an argument, as is common for the number. Without that call the whole section has no
    effect.

    Bad:

        {"train_batch_size": 8, "activation_checkpointing": {"contiguous_memory_optimization": true}}

    Good:

        {"train_batch_size": 8, "activation_checkpointing": {"contiguous_memory_optimization": true,
         "partition_activations": true, "number_checkpoints": 24}}
    """
    path = f"{_SECTION}.contiguous_memory_optimization"
    section = ctx.data.get(_SECTION)
    if not isinstance(section, dict) or not ctx.has(path) or not ctx.is_on(path):
        return
    parts, number = f"{_SECTION}.partition_activations", f"{_SECTION}.number_checkpoints"
    if not ctx.is_on(parts):
        also = " and `number_checkpoints` is not set" if ctx.value(number) is None else ""
        yield ctx.at(
            path,
            f"`contiguous_memory_optimization` is on, but `partition_activations` is off{also}: "
            "`deepspeed.checkpointing.configure` raises",
            help="set `partition_activations` to `true` and set `number_checkpoints`, or set "
            "`contiguous_memory_optimization` to `false`",
            related=[("partitioning is switched off here", parts)] if ctx.has(parts) else [],
            fix=Fix(
                "set `contiguous_memory_optimization` to `false`",
                (Set((_SECTION, "contiguous_memory_optimization"), False),),
            ),
        )
