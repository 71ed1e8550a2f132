"""`checkpoint` and `datastates_ckpt`: unknown values, and writers that are enabled unintentionally."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import join_alternatives, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import effective_stage, training_dtype
from dsconfig.rules._fixes import remove_key

# Enum values.


class _EnumKey(NamedTuple):
    """A key that accepts one of several words, ignoring case."""

    path: str
    members: tuple[str, ...]
    accepts_null: bool = False


_ENUMS = (
    _EnumKey("checkpoint.tag_validation", ("WARN", "IGNORE", "FAIL")),
    _EnumKey("checkpoint.writer.type", ("MOCK", "PYTHON", "FAST"), accepts_null=True),
    _EnumKey("checkpoint.writer.data_parallel", ("REPLICA", "SOCKET", "MACHINE"), accepts_null=True),
)


@rule("DSC910", effect="rejected", source="runtime/config.py:get_checkpoint_tag_validation_mode")
def unknown_checkpoint_word(ctx: Context) -> Iterator[Finding]:
    """An enum key of the `checkpoint` section has an unknown value.

    DeepSpeed converts `tag_validation`, `writer.type` and `writer.data_parallel` to upper case when it loads
    the config, so case does not matter. The two keys of `writer` also accept null.

    Bad:

        {"train_batch_size": 8, "checkpoint": {"tag_validation": "error"}}

    Good:

        {"train_batch_size": 8, "checkpoint": {"tag_validation": "fail"}}
    """
    for row in _ENUMS:
        if ctx.key(row.path) is None or not ctx.has(row.path):
            continue
        value = ctx.value(row.path)
        if (value is None and row.accepts_null) or (isinstance(value, str) and value.upper() in row.members):
            continue
        key = row.path.rsplit(".", 1)[1]
        yield ctx.at(
            row.path,
            f"`{key}` is {_format_value(value)}, but DeepSpeed accepts only {join_alternatives(row.members, 'and')}",
            help=f"use {join_alternatives(row.members)}",
        )


def _format_value(value: Json) -> str:
    return (
        quote_value(value)
        if isinstance(value, str) or value is None
        else f"{json_kind(value)}, {quote_value(value)}"
    )


@rule(
    "DSC911",
    effect="rejected",
    since="0.7.4",
    source="runtime/config.py:get_checkpoint_parallel_write_pipeline",
)
def pipeline_stage_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """`checkpoint.parallel_write.pipeline_stage` is not a boolean.

    DeepSpeed asserts that this value is true or false. The numbers 1 and 0 pass, because they equal true and
    false in Python.

    Bad:

        {"train_batch_size": 8, "checkpoint": {"parallel_write": {"pipeline_stage": "true"}}}

    Good:

        {"train_batch_size": 8, "checkpoint": {"parallel_write": {"pipeline_stage": true}}}
    """
    path = "checkpoint.parallel_write.pipeline_stage"
    value = ctx.value(path)
    if value not in (True, False):
        yield ctx.at(
            path,
            f"`pipeline_stage` is {_format_value(value)}, but DeepSpeed expects `true` or `false`",
            help="write `true` or `false`",
        )


# The fast writer and DataStates, which an empty or disabled section switches on.

_WRITER = "runtime/model_checkpointing/config.py:get_checkpoint_writer_config"
_DATASTATES = "datastates_ckpt"
_SWITCH = "checkpoint.writer"


@rule("DSC917", effect="altered", since="0.17.1", source=_WRITER)
def empty_checkpoint_writer(ctx: Context) -> Iterator[Finding]:
    """`checkpoint.writer` is an empty object, which enables the fast writer.

    The section has no `enabled` key: its presence enables the writer, with asynchronous I/O and default settings.

    Bad:

        {"train_batch_size": 8, "checkpoint": {"writer": {}}}

    Good:

        {"train_batch_size": 8, "checkpoint": {"writer": {"type": "fast"}}}

    Good:

        {"train_batch_size": 8, "checkpoint": {"writer": null}}

    Fixed:

        {"train_batch_size": 8, "checkpoint": {}}
    """
    if ctx.raw(_SWITCH) == {} and ctx.key(_SWITCH) is not None:
        yield ctx.at(
            _SWITCH,
            "`writer` is `{}`, but even an empty section enables the fast writer",
            help='remove it for the default writer, or add `"type": "fast"`',
            fix=remove_key(("checkpoint", "writer")),
        )


@rule("DSC918", effect="altered", since="0.18.1", source="datastates/config.py:DeepSpeedDataStatesConfig")
def datastates_not_switched_off(ctx: Context) -> Iterator[Finding]:
    """`datastates_ckpt` looks disabled, but every value except `false` enables it.

    Even `{"enabled": false}` and null enable it. The engine then fails to start if the DataStates package is not
    installed.

    Bad:

        {"train_batch_size": 8, "datastates_ckpt": {"enabled": false}}

    Good:

        {"train_batch_size": 8, "datastates_ckpt": false}

    Fixed:

        {"train_batch_size": 8}
    """
    if _DATASTATES not in ctx.data:
        return
    value = ctx.data[_DATASTATES]
    off = isinstance(value, dict) and "enabled" in value and not value["enabled"]
    if value is None or off or (value == 0 and value is not False):
        yield ctx.at(
            _DATASTATES,
            f"`{_DATASTATES}` is {quote_value(value)}, but every value except `false` enables it",
            help="remove it",
            part="key",
            fix=remove_key((_DATASTATES,)),
        )


@rule(
    "DSC919",
    effect="ignored",
    since="0.18.1",
    source="runtime/checkpoint_engine/utils.py:create_checkpoint_engine",
)
def datastates_beside_writer(ctx: Context) -> Iterator[Finding]:
    """`datastates_ckpt` has no effect, because `checkpoint.writer` is set.

    Bad:

        {"train_batch_size": 8, "datastates_ckpt": {"host_cache_size": 16},
         "checkpoint": {"writer": {"type": "fast"}}}

    Good:

        {"train_batch_size": 8, "datastates_ckpt": {"host_cache_size": 16}}
    """
    writer = ctx.raw(_SWITCH)
    if _DATASTATES in ctx.data and ctx.data[_DATASTATES] is not False and isinstance(writer, dict):
        yield ctx.at(
            _DATASTATES,
            f"`{_DATASTATES}` has no effect: `checkpoint.writer` is set and takes precedence",
            help="keep one of the two",
            part="key",
            related=[("the writer is set here", _SWITCH)],
        )


@rule("DSC928", effect="altered", since="0.7.0", source="runtime/engine.py:DeepSpeedEngine.load_checkpoint")
def universal_checkpoint_without_zero(ctx: Context) -> Iterator[Finding]:
    """`checkpoint.load_universal` is on, but ZeRO is off, so `load_checkpoint` raises.

    Only the optimizers of stages 1 to 3 and `BF16_Optimizer` load a universal checkpoint. Without ZeRO, in fp16 and
    fp32, `load_checkpoint` ends in "object has no attribute 'update_lp_params'".

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "checkpoint": {"load_universal": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "checkpoint": {"load_universal": true},
        "zero_optimization": {"stage": 1}}
    """
    path = "checkpoint.load_universal"
    if (
        ctx.is_on(path)
        and effective_stage(ctx) == 0
        and training_dtype(ctx) in ("fp16", "fp32")
        and not ctx.has("pipeline")
    ):
        yield ctx.at(
            path,
            "`load_universal` is on, but ZeRO is off: the optimizer cannot load a universal checkpoint",
            help="set `zero_optimization.stage` to 1, or remove it",
        )
