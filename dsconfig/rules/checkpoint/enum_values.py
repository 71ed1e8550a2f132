"""Keys that take one of a few words."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import kind, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule


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
