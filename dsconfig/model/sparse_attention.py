"""Block-sparse attention: layout of the blocks that are computed."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key
from dsconfig.model.section import RootKeys, Section


class SparseAttention(Section):
    """Layout of block-sparse attention.

    `mode` determines which other keys are read; the others have no effect.
    """

    SOURCE = "runtime/config.py:get_sparse_fixed_config"

    mode: Annotated[
        Literal["dense", "fixed", "variable", "bigbird", "bslongformer"],
        Key(
            since="0.3.0",
            until="0.19.6",
            source="runtime/config.py:get_sparse_attention_mode",
            wrong_type="rejected",
            means=(
                ("dense", "all blocks"),
                ("fixed", "local windows with global summary blocks"),
                ("variable", "windows of different sizes and global blocks"),
                ("bigbird", "random, sliding and global blocks"),
                ("bslongformer", "sliding and global blocks"),
            ),
        ),
    ] = "fixed"
    """Layout of the sparse attention matrix; case matters."""
    block: Annotated[
        int,
        Key(since="0.3.0", until="0.19.6", unit="tokens", source="runtime/config.py:get_sparse_dense_config"),
    ] = 16
    """Edge length of a block; larger blocks are faster and coarser. All modes."""
    different_layout_per_head: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Use a separate layout for each head, which needs more memory. All modes except dense."""
    num_local_blocks: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="blocks")] = 4
    """Blocks in a local window. Mode fixed."""
    num_global_blocks: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="blocks")] = 1
    """Blocks of a window that all others attend to. Modes fixed and bigbird."""
    attention: Annotated[
        Literal["unidirectional", "bidirectional"],
        Key(
            since="0.3.0",
            until="0.19.6",
            means=(
                ("unidirectional", "tokens attend to preceding tokens"),
                ("bidirectional", "tokens attend to all tokens"),
            ),
        ),
    ] = "bidirectional"
    """Whether tokens attend only to preceding tokens. Modes fixed and variable."""
    horizontal_global_attention: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Global blocks also attend to all others; only with bidirectional attention. Modes fixed and variable.
    """
    num_different_global_patterns: Annotated[int, Key(since="0.3.0", until="0.19.6")] = 1
    """Number of different global patterns over the heads; values above 1 require `different_layout_per_head`.
    Mode fixed."""
    num_random_blocks: Annotated[
        int,
        Key(
            since="0.3.0",
            until="0.19.6",
            unit="blocks",
            source="runtime/config.py:get_sparse_variable_config",
        ),
    ] = 0
    """Random blocks in each row. Modes variable and bigbird."""
    local_window_blocks: Annotated[
        list[int],
        Key(
            since="0.3.0",
            until="0.19.6",
            unit="blocks",
            source="runtime/config.py:get_sparse_variable_config",
        ),
    ] = Field(default=[4])
    """Sizes of the local windows in order; the last one repeats. Mode variable."""
    global_block_indices: Annotated[
        list[int],
        Key(since="0.3.0", until="0.19.6", source="runtime/config.py:get_sparse_variable_config"),
    ] = Field(default=[0])
    """Global blocks, or the first block of each global range. Modes variable and bslongformer."""
    global_block_end_indices: Annotated[
        list[int] | None,
        Key(since="0.3.0", until="0.19.6", source="runtime/config.py:get_sparse_variable_config"),
    ] = None
    """End (exclusive) of each range that starts at `global_block_indices`; null makes each index one block.
    """
    num_sliding_window_blocks: Annotated[
        int,
        Key(
            since="0.3.0", until="0.19.6", unit="blocks", source="runtime/config.py:get_sparse_bigbird_config"
        ),
    ] = 3
    """Blocks in the sliding window. Modes bigbird and bslongformer."""


class SparseAttentionRootKeys(RootKeys):
    """The root key of sparse attention."""

    sparse_attention: Annotated[
        SparseAttention,
        Key(
            since="0.3.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="runtime/config.py:get_sparse_attention",
            opened_by=SCRIPT,  # deepspeed.ops.sparse_attention
        ),
    ] = Field(default_factory=SparseAttention)
    """Block-sparse attention: layout of the blocks that are computed."""
