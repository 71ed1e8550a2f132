"""Why a world size is not in a plan, as a sentence with its arithmetic."""

from __future__ import annotations

from elastic.planning.block import Block


def reason(block: Block, batch: int, world_size: int) -> str:
    """The first reason that keeps `world_size` (data-parallel ranks) out of the plan for `batch`."""
    if type(world_size) is not int or world_size < 1:
        return f"world size must be an int of at least 1, not {world_size!r}"
    per_node = block.ranks_per_node
    if world_size % per_node:
        nodes, left = divmod(world_size, per_node)
        return (
            f"world size {world_size} is not a whole number of nodes: {world_size} = {nodes} nodes x "
            f"{per_node} ranks + {left}"
        )
    return _outside(block, world_size) or _indivisible(block, batch, world_size)


def _outside(block: Block, world_size: int) -> str | None:
    model = block.model_parallel_size
    gpus = world_size * model
    sum_of_gpus = f"{world_size} x {model} = {gpus} GPUs" if model > 1 else f"{gpus} GPUs"
    # v0.2 rounds `min_gpus` down to whole nodes.
    node = block.num_gpus_per_node if block.version == 0.2 else 1
    if gpus < block.min_gpus // node * node:
        return f"world size {world_size} is {sum_of_gpus}, below `min_gpus` {block.min_gpus}"
    if gpus > block.max_gpus:
        return f"world size {world_size} is {sum_of_gpus}, above `max_gpus` {block.max_gpus}"
    return None


def _indivisible(block: Block, batch: int, world_size: int) -> str:
    share, left = divmod(batch, world_size)
    if left:
        arithmetic = f"{batch} = {world_size} x {share} + {left}"
        return f"world size {world_size} does not divide batch {batch}: {arithmetic}"
    return (
        f"at world size {world_size} a rank's share of batch {batch} is {batch} / {world_size} = {share} "
        f"samples, which no micro batch of {list(block.micro_batch_sizes)} divides"
    )
