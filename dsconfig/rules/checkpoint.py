"""Checkpoint section: values of enums, and engines that are on by default."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import kind, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal

# Keys that take one of a few words.


class _Word(NamedTuple):
    """A key that takes one of a few words, in any case of letters."""

    path: str
    words: tuple[str, ...]
    takes_null: bool = False


_WORDS = (
    _Word("checkpoint.tag_validation", ("WARN", "IGNORE", "FAIL")),
    _Word("checkpoint.writer.type", ("MOCK", "PYTHON", "FAST"), takes_null=True),
    _Word("checkpoint.writer.data_parallel", ("REPLICA", "SOCKET", "MACHINE"), takes_null=True),
)


@rule("DSC910", effect="rejected", source="runtime/config.py:get_checkpoint_tag_validation_mode")
def unknown_checkpoint_word(ctx: Context) -> Iterator[Finding]:
    """A key of the `checkpoint` section takes one of a few words, and this is none of them.

    `tag_validation`, `writer.type` and `writer.data_parallel` are compared in upper case when the config is
    loaded, so that the case of letters does not matter. The two of the writer also take null.

    Bad:

        {"train_batch_size": 8, "checkpoint": {"tag_validation": "error"}}

    Good:

        {"train_batch_size": 8, "checkpoint": {"tag_validation": "fail"}}
    """
    for row in _WORDS:
        if ctx.key(row.path) is None or not ctx.has(row.path):
            continue
        value = ctx.value(row.path)
        if (value is None and row.takes_null) or (isinstance(value, str) and value.upper() in row.words):
            continue
        key = row.path.rsplit(".", 1)[1]
        yield ctx.at(
            row.path,
            f"`{key}` is {_shown(value)}, but DeepSpeed knows only {one_of(row.words, 'and')}",
            help=f"use {one_of(row.words)}",
        )


def _shown(value: Json) -> str:
    return quoted(value) if isinstance(value, str) or value is None else f"{kind(value)}, {quoted(value)}"


@rule(
    "DSC911",
    effect="rejected",
    since="0.7.4",
    source="runtime/config.py:get_checkpoint_parallel_write_pipeline",
)
def pipeline_stage_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """`checkpoint.parallel_write.pipeline_stage` is neither true nor false.

    It is one of the few booleans that DeepSpeed checks by hand. The numbers 1 and 0 pass, as they equal true
    and false.

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
            f"`pipeline_stage` is {_shown(value)}, where DeepSpeed expects `true` or `false`",
            help="write `true` or `false`",
        )


# The fast writer and DataStates, which are on without being asked for.

_WRITER = "runtime/model_checkpointing/config.py:get_checkpoint_writer_config"
_DATASTATES = "datastates_ckpt"
_SWITCH = "checkpoint.writer"


@rule("DSC917", effect="altered", since="0.17.1", source=_WRITER)
def empty_checkpoint_writer(ctx: Context) -> Iterator[Finding]:
    """`checkpoint.writer` is an empty object, which switches the fast writer on.

    The section has no `enabled`: being there, it is on, with asynchronous I/O and defaults for everything.

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
            "`writer` is `{}`, and being there switches the fast writer on",
            help='remove it for the ordinary writer, or say `"type": "fast"`',
            fix=removal(("checkpoint", "writer")),
        )


@rule("DSC918", effect="altered", since="0.18.1", source="datastates/config.py:DeepSpeedDataStatesConfig")
def datastates_not_switched_off(ctx: Context) -> Iterator[Finding]:
    """`datastates_ckpt` is written as if it were off, and that switches it on.

    Every value but `false` counts as on, even `{"enabled": false}` and null. Where the DataStates package is
    not installed, the engine does not start then.

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
            f"`{_DATASTATES}` is {quoted(value)}, and every value but `false` switches it on",
            help="remove it",
            part="key",
            fix=removal((_DATASTATES,)),
        )


@rule(
    "DSC919",
    effect="ignored",
    since="0.18.1",
    source="runtime/checkpoint_engine/utils.py:create_checkpoint_engine",
)
def datastates_beside_writer(ctx: Context) -> Iterator[Finding]:
    """`datastates_ckpt` is on, and `checkpoint.writer` takes its place.

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
            f"`{_DATASTATES}` has no effect: `checkpoint.writer` is there, and wins",
            help="keep one of the two",
            part="key",
            related=[("the writer is chosen here", _SWITCH)],
        )
