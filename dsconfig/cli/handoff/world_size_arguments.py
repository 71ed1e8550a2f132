"""The ways to name world sizes: by number and range, by nodes, and by how many GPUs a node has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from elastic import constants as c

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

MOST_SIZES = 100_000


def with_gpus_per_node(config: Mapping[str, Json], gpus: int) -> JsonObject:
    """The config as if its block said so many GPUs to a node."""
    block = config.get(c.ELASTICITY)
    changed = {**block, c.NUM_GPUS_PER_NODE: gpus} if isinstance(block, Mapping) else block
    return {**config, c.ELASTICITY: changed}


def sizes_of_nodes(config: Mapping[str, Json], nodes: Iterable[int]) -> list[int]:
    """The data-parallel sizes of whole nodes.

    Raises:
        ElasticityError: the block is not strictly valid.
        ValueError: a node holds no whole number of models.
    """
    from elastic.planning.block import read_block

    block = read_block(config)
    ranks, left = divmod(block.num_gpus_per_node, block.model_parallel_size)
    if left:
        raise ValueError(
            f"a node of {block.num_gpus_per_node} GPUs holds no whole number of models of "
            f"{block.model_parallel_size} GPUs"
        )
    return [node * ranks for node in nodes]


def numbers(text: str) -> list[int]:
    """`8,16` and `8:64` and `8:64:8` as ascending whole numbers above 0, the end included.

    Raises:
        ValueError: the text is none of these.
    """
    found: set[int] = set()
    for piece in text.split(","):
        parts = piece.strip().split(":")
        if len(parts) > 3 or not all(part.isdecimal() and len(part) < 9 and int(part) for part in parts):
            raise ValueError(f"expected whole numbers above 0 such as 8,16 or 8:64:8, got `{text}`")
        first, last, step = (*map(int, parts), *(int(parts[0]), 1)[len(parts) - 1 :])
        if last < first or (last - first) // step > MOST_SIZES:
            raise ValueError(f"expected an ascending range of at most {MOST_SIZES} numbers, got `{piece}`")
        found.update(range(first, last + 1, step))
    return sorted(found)
