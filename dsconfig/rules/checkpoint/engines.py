"""The fast writer and DataStates, which are on without being asked for."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal

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
    if ctx.written(_SWITCH) == {} and ctx.key(_SWITCH) is not None:
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
    writer = ctx.written(_SWITCH)
    if _DATASTATES in ctx.data and ctx.data[_DATASTATES] is not False and isinstance(writer, dict):
        yield ctx.at(
            _DATASTATES,
            f"`{_DATASTATES}` has no effect: `checkpoint.writer` is there, and wins",
            help="keep one of the two",
            part="key",
            related=[("the writer is chosen here", _SWITCH)],
        )
