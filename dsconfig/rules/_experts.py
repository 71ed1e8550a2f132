"""Models with experts, as Transformers builds them: which blocks call an expert only where it has tokens."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._model_facts import Model

BLOCKS = {
    "deepseek_v2": "DeepseekV2MoE",
    "deepseek_v3": "DeepseekV3MoE",
    "dots1": "Dots1MoE",
    "ernie4_5_moe": "Ernie4_5_MoeSparseMoeBlock",
    "glm4_moe": "Glm4MoeMoE",
    "glm4v_moe": "Glm4vMoeTextMoE",
    "hunyuan_v1_moe": "HunYuanMoEV1Moe",
    "jamba": "JambaSparseMoeBlock",
    "longcat_flash": "LongcatFlashMoE",
    "minimax": "MiniMaxSparseMoeBlock",
    "mixtral": "MixtralSparseMoeBlock",
    "phimoe": "PhimoeSparseMoeBlock",
    "qwen2_moe": "Qwen2MoeSparseMoeBlock",
    "qwen3_moe": "Qwen3MoeSparseMoeBlock",
    "qwen3_next": "Qwen3NextSparseMoeBlock",
    "switch_transformers": "SwitchTransformersSparseMLP",
}
"""By `model_type`, the class of the block that skips experts (transformers 4.57.1, models/*/modeling_*.py).

Not here, since each of their experts is called on every rank, or all are one tensor: OLMoE, FlexOlmo,
GraniteMoE, JetMoE, DBRX, gpt-oss, Llama 4, Qwen3-VL-MoE, NLLB-MoE. From Transformers 5 on none skips any.
"""
DENSE = frozenset(
    (
        *("bert", "bloom", "clip", "distilbert", "roberta", "t5", "vit", "opt"),
        *("gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "starcoder2"),
        *("gemma", "gemma2", "gemma3_text", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3"),
    )
)
"""Types of models that have no experts."""


TENSORS = frozenset(("dbrx", "gpt_oss", "llama4", "llama4_text", "qwen3_vl_moe", "qwen3_vl_moe_text"))
"""Those whose experts are one tensor of three dimensions in Transformers 4, too."""
FUSED = 5
"""The version of Transformers from which on all experts of a layer are one tensor."""


def block_of(found: Model) -> str | None:
    """The class of the block whose experts may be skipped; None where there is none, or it is unknown."""
    return next((BLOCKS[kind] for kind in found.kinds if kind in BLOCKS), None)


def transformers_version(ctx: Context) -> int | None:
    """The first number of the version of Transformers; None where nothing says it."""
    if ctx.consumer == "transformers" and ctx.version is not None:
        found: str | None = ctx.version
    else:
        from dsconfig.launch.installed_versions import version_of

        pinned = version_of("transformers", ctx.document.name)
        found = pinned and pinned[0]
    return int(found.partition(".")[0]) if found else None


def names(ctx: Context, path: str) -> list[str]:
    """A list of names that may be written as one."""
    value = ctx.value(path)
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
