"""Names of the hub for shapes that are known."""

from __future__ import annotations

import re

from dsconfig.memory.models.presets import NAMES, preset
from dsconfig.memory.models.shape import Shape


def preset_of(name: str) -> Shape | None:
    """The preset of this name, or of the hub's name for it; capitals are as good as small letters."""
    maker, slash, last = name.lower().rpartition("/")
    if slash and maker not in MAKERS:
        return None
    known = next((found for found in _readings(last) if found in NAMES), None)
    return preset(known) if known else None


def similar(name: str) -> list[str]:
    """Names that are known and spelled most like one that is not."""
    from difflib import get_close_matches

    last = name.lower().rpartition("/")[2]
    return get_close_matches(_bare(last), [*NAMES, *HUB], 3, 0.6)


def _readings(last: str) -> list[str]:
    """A name as it is, then without what tells of training, then without its version."""
    bare = _bare(last)
    plain = re.sub(r"-(v\d+(\.\d+)?|\d{4})(?=-|$)", "", bare)
    return [HUB.get(found, found) for found in (last, bare, plain)]


def _bare(last: str) -> str:
    return re.sub(r"^meta-|-(hf|instruct|chat|base|it|pt|deduped|thinking)(?=-|$)", "", last)


MAKERS = frozenset(
    (
        *("meta-llama", "codellama", "huggyllama", "tinyllama", "nousresearch", "unsloth", "lmsys", "01-ai"),
        *("mistralai", "qwen", "deepseek-ai", "google", "microsoft", "allenai", "eleutherai", "facebook"),
        *("openai-community", "huggingfacetb", "google-bert", "facebookai"),
    )
)
"""Who puts models of these shapes on the hub under these names."""
HUB = {
    "vit-base-patch16-224": "vit-base",
    "vit-large-patch16-224": "vit-large",
    "llama-7b": "llama-2-7b",
    "llama-13b": "llama-2-13b",
    "llama-30b": "llama-1-30b",
    "llama-65b": "llama-1-65b",
    "vicuna-7b": "llama-2-7b",
    "vicuna-13b": "llama-2-13b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.3-70b": "llama-3-70b",
    "deepseek-r1-distill-llama-8b": "llama-3-8b",
    "deepseek-r1-distill-llama-70b": "llama-3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "qwen2-0.5b": "qwen2.5-0.5b",
    "qwen2-1.5b": "qwen2.5-1.5b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen2-72b": "qwen2.5-72b",
    "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2.5-coder-32b": "qwen2.5-32b",
    "qwen2.5-math-7b": "qwen2.5-7b",
    "qwen3-coder-30b-a3b": "qwen3-30b-a3b",
    "mistral-7b-v0.1": "mistral-7b",
    "mistral-large-2411": "mistral-large-2407",
    "yi-1.5-6b": "yi-6b",
    "yi-1.5-34b": "yi-34b",
    "gemma-1.1-2b": "gemma-2b",
    "gemma-1.1-7b": "gemma-7b",
    "phi-3.5-mini": "phi-3-mini-128k",
}
"""Last parts of the hub's names, without what tells of training: those of the same shape."""
