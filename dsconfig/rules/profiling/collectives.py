"""The log of collectives."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule


@rule("DSC920", effect="ignored", since="0.7.0", source="comm/comm.py:timed_op")
def listed_operations_without_effect(ctx: Context) -> Iterator[Finding]:
    """`comms_logger.prof_ops` lists operations, and `prof_all` logs all of them anyway.

    `prof_all` is true unless it is switched off.

    Bad:

        {"train_batch_size": 8, "comms_logger": {"enabled": true, "prof_ops": ["all_reduce"]}}

    Good:

        {"train_batch_size": 8, "comms_logger": {
            "enabled": true, "prof_all": false, "prof_ops": ["all_reduce"]}}

    Fixed:

        {"train_batch_size": 8, "comms_logger": {
            "enabled": true, "prof_ops": ["all_reduce"], "prof_all": false}}
    """
    path = "comms_logger.prof_ops"
    if not isinstance(ctx.data.get("comms_logger"), dict):
        return
    listed = ctx.value(path)
    if listed and ctx.on("comms_logger.enabled") and ctx.on("comms_logger.prof_all"):
        said = ctx.has("comms_logger.prof_all")
        yield ctx.at(
            path,
            f"`prof_ops` is {quoted(listed)}, but `prof_all` is `true`{'' if said else ' by default'}, "
            "which logs every operation",
            help="set `prof_all` to `false`, or remove `prof_ops`",
            related=[("every operation is asked for here", "comms_logger.prof_all")] if said else [],
            fix=Fix("set `prof_all` to `false`", (Set(("comms_logger", "prof_all"), False),)),
        )
