"""Names of the hub for shapes that are known."""

from __future__ import annotations

import re

from dsconfig.sizing.models.named import PRESETS
from dsconfig.sizing.models.shape import Shape


def preset_of(name: str) -> Shape | None:
    """The preset of this name, or of the hub's name for it."""
    if name in PRESETS:
        return PRESETS[name]
    maker, _, last = name.lower().partition("/")
    if maker not in MAKERS:
        return None
    last = re.sub(r"^meta-|-(hf|instruct|chat|base|v\d+(\.\d+)?)(?=-|$)", "", last)
    return PRESETS.get(HUB.get(last, last))


MAKERS = (
    "meta-llama",
    "mistralai",
    "qwen",
    "openai-community",
    "google",
    "tinyllama",
    "nousresearch",
    "unsloth",
)
"""Who puts models of these shapes on the hub under these names."""
HUB = {
    "vit-base-patch16-224": "vit-base",
    "vit-large-patch16-224": "vit-large",
    "tinyllama-1.1b": "tinyllama-1.1b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.3-70b": "llama-3-70b",
}
"""Last parts of the hub's names, without what tells of training: those of the same shape."""
