"""Well-known shapes, by the names that their makers gave them."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.sizing.models.shape import Shape


def _llama(
    hidden: int, layers: int, wide: int, heads: int, keys: int, vocabulary: int, tied: bool = False
) -> Shape:
    return Shape(
        "decoder", hidden, layers, wide, heads, keys, hidden // heads, vocabulary, tied, name="llama"
    )


def _qwen3(hidden: int, layers: int, wide: int, heads: int, keys: int, tied: bool = False) -> Shape:
    size, words = 128, 151_936
    return Shape(
        "decoder", hidden, layers, wide, heads, keys, size, words, tied, head_norms=True, name="qwen3"
    )


def _qwen2(
    hidden: int, layers: int, wide: int, heads: int, keys: int, vocabulary: int, tied: bool = False
) -> Shape:
    made = _llama(hidden, layers, wide, heads, keys, vocabulary, tied)
    return made._replace(query_bias=True, name="qwen2")


def _gpt2(hidden: int, layers: int, heads: int) -> Shape:
    words, places = 50_257, 1024
    return Shape(
        "gpt2",
        hidden,
        layers,
        4 * hidden,
        heads,
        vocabulary=words,
        tied=True,
        positions=places,
        dropout=0.1,
        name="gpt2",
    )


PRESETS: Mapping[str, Shape] = {
    "llama-2-7b": _llama(4096, 32, 11008, 32, 32, 32_000),
    "llama-2-13b": _llama(5120, 40, 13824, 40, 40, 32_000),
    "llama-2-70b": _llama(8192, 80, 28672, 64, 8, 32_000),
    "llama-3-8b": _llama(4096, 32, 14336, 32, 8, 128_256),
    "llama-3-70b": _llama(8192, 80, 28672, 64, 8, 128_256),
    "llama-3.1-405b": _llama(16384, 126, 53248, 128, 8, 128_256),
    "llama-3.2-1b": _llama(2048, 16, 8192, 32, 8, 128_256, tied=True),
    "llama-3.2-3b": _llama(3072, 28, 8192, 24, 8, 128_256, tied=True),
    "tinyllama-1.1b": _llama(2048, 22, 5632, 32, 4, 32_000),
    "mistral-7b": _llama(4096, 32, 14336, 32, 8, 32_000),
    "mixtral-8x7b": _llama(4096, 32, 14336, 32, 8, 32_000)._replace(experts=8, chosen=2, name="mixtral"),
    "mixtral-8x22b": _llama(6144, 56, 16384, 48, 8, 32_768)._replace(experts=8, chosen=2, name="mixtral"),
    "qwen2.5-0.5b": _qwen2(896, 24, 4864, 14, 2, 151_936, tied=True),
    "qwen2.5-1.5b": _qwen2(1536, 28, 8960, 12, 2, 151_936, tied=True),
    "qwen2.5-7b": _qwen2(3584, 28, 18944, 28, 4, 152_064),
    "qwen2.5-14b": _qwen2(5120, 48, 13824, 40, 8, 152_064),
    "qwen2.5-32b": _qwen2(5120, 64, 27648, 40, 8, 152_064),
    "qwen2.5-72b": _qwen2(8192, 80, 29568, 64, 8, 152_064),
    "qwen3-0.6b": _qwen3(1024, 28, 3072, 16, 8, tied=True),
    "qwen3-1.7b": _qwen3(2048, 28, 6144, 16, 8, tied=True),
    "qwen3-4b": _qwen3(2560, 36, 9728, 32, 8, tied=True),
    "qwen3-14b": _qwen3(5120, 40, 17408, 40, 8),
    "qwen3-8b": _qwen3(4096, 36, 12288, 32, 8),
    "qwen3-32b": _qwen3(5120, 64, 25600, 64, 8),
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "vit-base": Shape("vit", 768, 12, 3072, 12, image=224, patch=16, labels=1000, name="vit"),
    "vit-large": Shape("vit", 1024, 24, 4096, 16, image=224, patch=16, labels=1000, name="vit"),
}
"""What `--model` takes by name: published sizes."""


LARGEST, MOST_LAYERS = 10**15, 2000


def like(
    parameters: int, hidden: int, layers: int, *, heads: int = 0, wide: int = 0, vocabulary: int = 0
) -> Shape:
    """A decoder of these sizes: the MLP is as wide as the number of parameters asks for, unless it is given.

    Raises:
        ValueError: there is no such model.
    """
    heads, words = heads or max(1, hidden // 128), vocabulary or 32_000
    if max(parameters, hidden, layers, words) > LARGEST or layers > MOST_LAYERS:
        raise ValueError(f"no model has more than {LARGEST:.0e} parameters or {MOST_LAYERS:,} layers")
    if hidden % heads:
        raise ValueError(f"{hidden} elements cannot be divided among {heads} heads")
    left = parameters - 2 * words * hidden - layers * (4 * hidden * hidden + 2 * hidden) - hidden
    wide = wide or left // (3 * hidden * layers)
    if wide < 1:
        raise ValueError(
            f"{layers} layers of {hidden} with a vocabulary of {words} have more than {parameters} parameters"
        )
    return _llama(hidden, layers, wide, heads, heads, words)
