"""Well-known shapes, by the names that their makers gave them."""

from __future__ import annotations

from dsconfig.memory.models.model_zoo import CONFIGS
from dsconfig.memory.models.shape import Shape


def preset(name: str) -> Shape:
    """The shape of a model of published sizes.

    Raises:
        KeyError: there is none of this name.
    """
    from dsconfig.memory.models.from_hf_config import shape_of

    return shape_of(CONFIGS[name])


NAMES = tuple(CONFIGS)
"""What `--model` takes by name."""
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
    return Shape("decoder", hidden, layers, wide, heads, heads, hidden // heads, words, name="llama")
