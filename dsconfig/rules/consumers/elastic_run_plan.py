"""Check the plan that `dsconfig elastic run` derives from the `elasticity` section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.diagnostic import Fix, RemoveKey, dotted_path
from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import EffectiveValueIs, KeyIsRequired, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import Context, Finding

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from elastic.planning.plan import Plan

_CONSUMER = ("elastic",)
_REJECTS = "`dsconfig elastic run` rejects the config"
_BLOCK = "elasticity"
_NAMED = re.compile(r"`elasticity\.(\w+)[^`]*`")


def elastic_run_plan(ctx: Context) -> Plan | Exception | None:
    """Return the plan for the `elasticity` section, or its error; None for other consumers."""
    if not ctx.is_elastic:
        return None
    from elastic.errors import ElasticityError
    from elastic.planning.plan import plan

    try:
        return plan(ctx.original_data)
    except (ElasticityError, ArithmeticError, TypeError, ValueError) as error:
        return error


def planned_gpu_counts(ctx: Context) -> tuple[int, ...] | None:
    """Return the GPU counts in the plan, or None without a plan."""
    outcome = ctx.cached(elastic_run_plan)
    return None if outcome is None or isinstance(outcome, Exception) else outcome.gpu_counts


@rule(
    "DSC609",
    effect="rejected",
    source="elastic/planning/plan.py:plan",
    conditions=(SchemaCondition("Config", (), KeyIsRequired(_BLOCK), consumers=_CONSUMER),),
)
def elasticity_without_plan(ctx: Context) -> Iterator[Finding]:
    """`dsconfig elastic run` cannot plan batch sizes from the config, and does not start the job.

    It validates the section strictly: the types of all keys, the version, and their consistency. It then removes the
    section, and passes the rest to DeepSpeed with the batch sizes of the plan, so that any release can train.

    Bad, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000.5, "micro_batch_sizes": [2, 4, 6]}}

    Good, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}}
    """
    error = ctx.cached(elastic_run_plan)
    if not isinstance(error, Exception):
        return
    block = ctx.original_data.get(_BLOCK)
    if not isinstance(block, dict):
        problem = (
            f"`{_BLOCK}` is {quote_value(block)}, not an object"
            if _BLOCK in ctx.original_data
            else f"`{_BLOCK}` is missing"
        )
        yield ctx.at(
            (_BLOCK,),
            f"{_REJECTS}: {problem}",
            help=f"set `{_BLOCK}` to an object with `enabled`, `max_train_batch_size` and `micro_batch_sizes`",
        )
        return
    named = [key for key in _NAMED.findall(str(error)) if key in block]
    path = (_BLOCK, named[0]) if named else (_BLOCK,)
    reason, _, _ = str(error).partition("; ")
    yield ctx.at(path, f"{_REJECTS}: {reason}", help=_help_for_plan(block, path))


def _help_for_plan(block: JsonObject, path: tuple[str, ...]) -> str:
    if not block.get("enabled"):
        return f"set `{_BLOCK}.enabled` to `true`"
    missing = next((key for key in ("max_train_batch_size", "micro_batch_sizes") if key not in block), None)
    if missing:
        return f"add `{missing}`"
    return f"change `{dotted_path(path)}`; `dsconfig elastic plan` shows the resulting batch and world sizes"


@rule(
    "DSC610",
    effect="rejected",
    source="elastic/planning/plan.py:apply_row",
    conditions=tuple(
        SchemaCondition(
            "Config",
            (EffectiveValueIs("elasticity.ignore_non_elastic_batch_info", (False,)),),
            KeyMustBeAbsent(key, f"`dsconfig elastic run` computes `{key}`"),
            consumers=_CONSUMER,
        )
        for key in KEYS
    ),
)
def batch_size_beside_plan(ctx: Context) -> Iterator[Finding]:
    """The config sets a batch key that `dsconfig elastic run` computes from `elasticity`.

    `dsconfig elastic run` rejects the config, unless `ignore_non_elastic_batch_info` allows it to overwrite the
    key.

    Bad, read by elastic:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, read by elastic:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    outcome = ctx.cached(elastic_run_plan)
    if outcome is None or isinstance(outcome, Exception) or outcome.block.ignore_non_elastic_batch_info:
        return
    if batch_keys := [key for key in KEYS if key in ctx.original_data]:
        first, *others = batch_keys
        yield ctx.at(
            (first,),
            f"`{first}` is set, but `dsconfig elastic run` computes the batch sizes",
            help=f"remove {join_alternatives((f'`{key}`' for key in batch_keys), 'and')}, or set "
            "`elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is also set", (key,)) for key in others],
            fix=Fix("remove the batch keys", tuple(RemoveKey((key,)) for key in batch_keys)),
        )


@rule("DSC611", effect="wasteful", source="elastic/agent/job_settings.py:Job.size")
def world_size_not_planned(ctx: Context) -> Iterator[Finding]:
    """The world size is not one of the GPU counts of the elastic plan.

    The job trains on the largest smaller count in the plan, and the other ranks stay idle until more ranks join. If
    there is no smaller count, `dsconfig elastic run` does not start.

    Bad, read by elastic, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, read by elastic, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    planned_counts = planned_gpu_counts(ctx)
    world_size = ctx.world_size
    if planned_counts is None or world_size is None or world_size in planned_counts:
        return
    below = [count for count in planned_counts if count < world_size]
    above = [count for count in planned_counts if count > world_size]
    closest = " or ".join(str(count) for count in (*below[-1:], *above[:1]))
    idle = world_size - max(below, default=0)
    outcome = (
        f": {below[-1]} ranks train and {idle} {'stay' if idle > 1 else 'stays'} idle"
        if below
        else ", and neither is a smaller one"
    )
    yield ctx.at(
        (_BLOCK,),
        f"world size {world_size} is not in the elastic plan{outcome}",
        help=f"use {closest} GPUs",
        effect=None if below else "rejected",
    )
