"""`activation_checkpointing`: settings that `deepspeed.checkpointing.configure` applies."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.launch import repository_files

_CONFIGURE = "runtime/activation_checkpointing/checkpointing.py:configure"
_SECTION = "activation_checkpointing"


@rule("DSC925", effect="ignored", source=_CONFIGURE)
def contiguous_checkpoints_without_partitions(ctx: Context) -> Iterator[Finding]:
    """`contiguous_memory_optimization` is on, but `partition_activations` is off.

    DeepSpeed copies the partitioned activations into one buffer, whose size it computes from `number_checkpoints`. If
    either key is missing, `deepspeed.checkpointing.configure` raises, unless the script passes it as an argument.
    Without a call of that function, the section has no effect.

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
                (SetValue((_SECTION, "contiguous_memory_optimization"), False),),
            ),
        )


_OPTIONS = (
    "partition_activations",
    "cpu_checkpointing",
    "contiguous_memory_optimization",
    "number_checkpoints",
    "synchronize_checkpoint_boundary",
    "profile",
)


@rule("DSC927", effect="ignored", source=_CONFIGURE)
def checkpointing_never_configured(ctx: Context) -> Iterator[Finding]:
    """The section has no effect, because no program of the repository calls `deepspeed.checkpointing`.

    The engine does not read the section. It configures `deepspeed.checkpointing.checkpoint`, which a model must call
    instead of PyTorch's function, as Megatron's models do. Transformers models use PyTorch's function: enable it with
    `gradient_checkpointing=True` or `model.gradient_checkpointing_enable()`. Reported only if the program that loads
    the config is known.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    section = ctx.data.get(_SECTION)
    if not isinstance(section, dict) or not ctx.facts.program_files:
        return
    options = [name for name in _OPTIONS if section.get(name)]
    # With the libraries of Hugging Face, DSC990 says that nothing reads the section.
    if (
        options
        and ctx.consumer == "deepspeed"
        and not repository_files.configures_activation_checkpointing(ctx.document.name)
    ):
        yield ctx.at(
            _SECTION,
            f"`{options[0]}` is set, but only `deepspeed.checkpointing` reads it, which no program of the repository"
            " calls",
            help="remove it; for models of Transformers, switch on `gradient_checkpointing` in the training arguments",
            part="key",
        )
