"""Hybrid engine: inference groups and models without an inference policy."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.version_ranges import parse_version_range
from dsconfig.core.wording import join_alternatives
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._batch_triplet import divisors
from dsconfig.rules._job_programs import program_versions
from dsconfig.rules._model_facts import has_model, trained_model


@rule(
    "DSC740",
    effect="ignored",
    since="0.9.0",
    source="runtime/hybrid_engine.py:DeepSpeedHybridEngine.create_inference_module",
)
def world_size_not_divided_by_inference_groups(ctx: Context) -> Iterator[Finding]:
    """The world size is not a multiple of `hybrid_engine.inference_tp_size`.

    DeepSpeed rounds the number of inference groups down. The remaining ranks are in no group, and fail when they
    generate. If the hybrid engine does not support the model, it does not split the model at all.

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
            f"`inference_tp_size` {size} does not divide the world size {world}, "
            f"so {world % size} ranks are in no group",
            help=f"set `inference_tp_size` to {join_alternatives(divisors(world)[:12])}, or change the number of ranks",
        )


_POLICIES = frozenset(
    "bert bloom clip clip_text_model distilbert gpt2 gpt_neo gpt_neox gptj internlm llama opt".split()  # noqa: SIM905
)
"""Model types with an inference policy (module_inject/replace_policy.py, `replace_policies`)."""


@rule(
    "DSC712",
    effect="ignored",
    since="0.19.7",
    source="runtime/hybrid_engine.py:DeepSpeedHybridEngine.populate_all_inference_policies",
)
def hybrid_engine_without_policy(ctx: Context) -> Iterator[Finding]:
    """`hybrid_engine` is on, but DeepSpeed has no inference policy for the model.

    The engine logs that acceleration is not available, and generates without it. dsconfig reports this only if
    it knows the model.

    Bad:

        {"train_batch_size": 8, "hybrid_engine": {"enabled": true}, "$dsconfig": {"model": "qwen3-8b"}}

    Good:

        {"train_batch_size": 8, "hybrid_engine": {"enabled": true}, "$dsconfig": {"model": "llama-2-7b"}}
    """
    if not has_model(ctx) or not ctx.has("hybrid_engine") or not ctx.is_on("hybrid_engine.enabled"):
        return
    trained = trained_model(ctx)
    has_custom_code = "auto_map" in trained.config
    if trained.kinds and not has_custom_code and not _POLICIES.intersection(trained.kinds):
        yield ctx.at(
            "hybrid_engine.enabled",
            f"the hybrid engine is on, but has no inference policy for {trained.shown} (model type"
            f" {trained.kinds[0]})",
            help="set `hybrid_engine.enabled` to `false`",
        )


_RENAMED_CACHE = parse_version_range(">=5.24")
"""Versions of Transformers in which OPT's decoder layer takes `cache` instead of `past_key_values`."""


@rule(
    "DSC884",
    effect="altered",
    since="0.19.8",
    source="runtime/hybrid_engine.py:DeepSpeedHybridEngine.populate_all_inference_policies",
)
def opt_layers_with_renamed_cache(ctx: Context) -> Iterator[Finding]:
    """The hybrid engine replaces the layers of an OPT model, but its own layers do not support the cache.

    DeepSpeed's OPT layers support only the tuple cache of older versions of Transformers. DeepSpeed leaves the model's
    own layers in place if their `forward` takes `past_key_values`, but Transformers 5.24 renamed that argument to
    `cache` (models/opt/modeling_opt.py:OPTDecoderLayer). dsconfig reports this only if it knows the model and the
    version of Transformers.

    Good, read by transformers==5.23:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "hybrid_engine": {"enabled": true}}
    """
    if not has_model(ctx) or not ctx.has("hybrid_engine") or not ctx.is_on("hybrid_engine.enabled"):
        return
    if "opt" not in trained_model(ctx).kinds:
        return
    transformers = program_versions(ctx, "transformers")
    if transformers is not None and transformers.versions.is_within(_RENAMED_CACHE):
        yield ctx.at(
            "hybrid_engine.enabled",
            f"the hybrid engine replaces the OPT layers in Transformers {transformers.text} with layers of its own,"
            " which do not support the model's cache",
            help="set `hybrid_engine.enabled` to `false`, or use Transformers before 5.24",
        )
