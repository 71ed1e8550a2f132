"""What `dsconfig elastic run` makes of the `elasticity` section, whatever the release: a plan, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.diagnostic import Fix, Remove, dotted
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import Absent, Condition, Counts, Needed, rule

if TYPE_CHECKING:
    from elastic.planning.plan import Plan

_READER = ("elastic",)
_REFUSES = "`dsconfig elastic run` does not start"
_BLOCK = "elasticity"
_NAMED = re.compile(r"`elasticity\.(\w+)[^`]*`")


def planned(ctx: Context) -> Plan | Exception | None:
    """The plan of the section, or why there is none; None where nothing asks for one."""
    if not ctx.elastic:
        return None
    from elastic.errors import ElasticityError
    from elastic.planning.plan import plan

    try:
        return plan(ctx.whole)
    except (ElasticityError, ArithmeticError, TypeError, ValueError) as error:
        return error


def planned_gpu_counts(ctx: Context) -> tuple[int, ...] | None:
    """The numbers of GPUs that the plan admits; None where there is none."""
    found = ctx.once(planned)
    return None if found is None or isinstance(found, Exception) else found.gpu_counts


@rule(
    "DSC609",
    effect="rejected",
    source="elastic/planning/plan.py:plan",
    conditions=(Condition("Config", (), Needed(_BLOCK), consumers=_READER),),
)
def elasticity_without_plan(ctx: Context) -> Iterator[Finding]:
    """`dsconfig elastic run` finds no plan in the config, and does not start the job.

    It reads the section strictly: whole numbers, `true` or `false`, and a version that is one of two, all of
    which must fit together. Where they do, it takes the section out, and hands DeepSpeed the rest with the
    batch of its plan, so that any release can train.

    Bad, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000.5, "micro_batch_sizes": [2, 4, 6]}}

    Good, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}}
    """
    found = ctx.once(planned)
    if not isinstance(found, Exception):
        return
    block = ctx.whole.get(_BLOCK)
    if not isinstance(block, dict):
        what = (
            f"`{_BLOCK}` is {quoted(block)}, and no object"
            if _BLOCK in ctx.whole
            else f"there is no `{_BLOCK}`"
        )
        yield ctx.at((_BLOCK,), f"{_REFUSES}: {what}", help=f"write `{_BLOCK}` as an object")
        return
    named = [key for key in _NAMED.findall(str(found)) if key in block]
    path = (_BLOCK, named[0]) if named else (_BLOCK,)
    why, _, _ = str(found).partition("; ")
    yield ctx.at(path, f"{_REFUSES}: {why}", help=_way_out(block, path))


def _way_out(block: JsonObject, path: tuple[str, ...]) -> str:
    if not block.get("enabled"):
        return f"set `{_BLOCK}.enabled` to `true`"
    lacks = next((key for key in ("max_train_batch_size", "micro_batch_sizes") if key not in block), None)
    return f"add `{lacks}`" if lacks else f"change `{dotted(path)}`: `dsconfig elastic plan` shows the sizes"


@rule(
    "DSC610",
    effect="rejected",
    source="elastic/planning/plan.py:apply_row",
    conditions=tuple(
        Condition(
            "Config",
            (Counts("elasticity.ignore_non_elastic_batch_info", (False,)),),
            Absent(key, f"`dsconfig elastic run` works `{key}` out"),
            consumers=_READER,
        )
        for key in KEYS
    ),
)
def batch_size_beside_plan(ctx: Context) -> Iterator[Finding]:
    """A batch key stands beside the section from which `dsconfig elastic run` plans the batch.

    It refuses to choose between the two, unless `ignore_non_elastic_batch_info` says that the keys may be
    overwritten.

    Bad, read by elastic:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    found = ctx.once(planned)
    if found is None or isinstance(found, Exception) or found.block.ignore_non_elastic_batch_info:
        return
    if given := [key for key in KEYS if key in ctx.whole]:
        first, *others = given
        yield ctx.at(
            (first,),
            f"`{first}` is given, but `dsconfig elastic run` works the batch sizes out",
            help=f"remove {one_of((f'`{key}`' for key in given), 'and')}, or set "
            "`elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is given too", (key,)) for key in others],
            fix=Fix("remove the batch keys", tuple(Remove((key,)) for key in given)),
        )


@rule("DSC611", effect="wasteful", source="elastic/agent/job.py:Job.size")
def world_size_not_planned(ctx: Context) -> Iterator[Finding]:
    """The world size is not one of those of the plan.

    The largest one below it trains, and the other ranks stand by until more come. Where there is none below,
    `dsconfig elastic run` refuses to start.

    Bad, read by elastic, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, read by elastic, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    admitted = planned_gpu_counts(ctx)
    world = ctx.world_size
    if admitted is None or world is None or world in admitted:
        return
    below = [size for size in admitted if size < world]
    above = [size for size in admitted if size > world]
    near = " or ".join(str(size) for size in (*below[-1:], *above[:1]))
    idle = f"{below[-1]} train, and {world - below[-1]} stand by" if below else "no smaller one is, either"
    yield ctx.at(
        (_BLOCK,),
        f"world size {world} is not planned: {idle}",
        help=f"change the number of GPUs to {near}",
        effect=None if below else "rejected",
    )
