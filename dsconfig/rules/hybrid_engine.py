"""The hybrid engine: how its inference groups share out the ranks."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._model_facts import is_known, model
from dsconfig.rules._numbers import division


@rule(
    "DSC740",
    effect="ignored",
    since="0.9.0",
    source="runtime/hybrid_engine.py:DeepSpeedHybridEngine.create_inference_module",
)
def world_size_not_divided_by_inference_groups(ctx: Context) -> Iterator[Finding]:
    """The world size is not a multiple of `hybrid_engine.inference_tp_size`.

    Groups are counted by a division without remainder. The ranks left over get no group, and fail when they
    generate; where the model is not one of those that the hybrid engine knows, nothing is split at all.

    Bad, world size 6:

        {"train_batch_size": 12, "hybrid_engine": {"enabled": true, "inference_tp_size": 4}}

    Good, world size 8:

        {"train_batch_size": 16, "hybrid_engine": {"enabled": true, "inference_tp_size": 4}}
    """
    if not ctx.world_size or not isinstance(ctx.data.get("hybrid_engine"), dict):
        return
    size, world = ctx.value("hybrid_engine.inference_tp_size"), ctx.world_size
    if ctx.is_on("hybrid_engine.enabled") and isinstance(size, int) and size > 1 and world % size:
        yield ctx.at(
            "hybrid_engine.inference_tp_size",
            f"`inference_tp_size` {size} does not divide the world size {world}: "
            f"{division(world, size)}, and {world % size} ranks get no group",
            help=f"use one of {one_of(divisors(world)[:12])}, or another number of ranks",
        )


_POLICIES = frozenset(
    "bert bloom clip clip_text_model distilbert gpt2 gpt_neo gpt_neox gptj internlm llama opt".split()  # noqa: SIM905
)
"""Types of models that have a policy (module_inject/replace_policy.py, `replace_policies`)."""


@rule(
    "DSC712",
    effect="ignored",
    since="0.19.7",
    source="runtime/hybrid_engine.py:DeepSpeedHybridEngine.populate_all_inference_policies",
)
def hybrid_engine_without_policy(ctx: Context) -> Iterator[Finding]:
    """`hybrid_engine` is on, and DeepSpeed has no inference policy for the model.

    The engine says that acceleration is not available, and generates as the model does by itself. Reported
    where the model is known.

    Bad:

        {"train_batch_size": 8, "hybrid_engine": {"enabled": true}, "$dsconfig": {"model": "qwen3-8b"}}

    Good:

        {"train_batch_size": 8, "hybrid_engine": {"enabled": true}, "$dsconfig": {"model": "llama-2-7b"}}
    """
    if not is_known(ctx) or not ctx.has("hybrid_engine") or not ctx.is_on("hybrid_engine.enabled"):
        return
    found = model(ctx)
    own_code = "auto_map" in found.config
    if found.kinds and not own_code and not _POLICIES.intersection(found.kinds):
        yield ctx.at(
            "hybrid_engine.enabled",
            f"the hybrid engine is on, and has no policy for models of the type {found.kinds[0]}, as"
            f" {found.shown} is",
            help="set `hybrid_engine.enabled` to false",
        )
