"""Block-sparse attention: which blocks of the attention matrix are computed at all."""

from typing import Annotated, Literal

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key
from dsconfig.model.section import RootKeys, Section


class SparseAttention(Section):
    """Layout of block-sparse attention. `mode` decides which other keys are read; the rest have no effect."""

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
                ("fixed", "local windows, and a summary of each"),
                ("variable", "windows of different sizes, and global blocks"),
                ("bigbird", "random, sliding and global blocks"),
                ("bslongformer", "sliding and global blocks"),
            ),
        ),
    ] = "fixed"
    """Family of layouts; the word is compared letter by letter."""
    block: Annotated[
        int,
        Key(since="0.3.0", until="0.19.6", unit="tokens", source="runtime/config.py:get_sparse_dense_config"),
    ] = 16
    """Edge length of a block; larger blocks compute faster and cut coarser. All modes."""
    different_layout_per_head: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Give every head a layout of its own, which takes more memory. All modes but dense."""
    num_local_blocks: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="blocks")] = 4
    """Blocks in a local window. Mode fixed."""
    num_global_blocks: Annotated[int, Key(since="0.3.0", until="0.19.6", unit="blocks")] = 1
    """Blocks of a window that stand for it globally. Modes fixed and bigbird."""
    attention: Annotated[
        Literal["unidirectional", "bidirectional"],
        Key(
            since="0.3.0",
            until="0.19.6",
            means=(
                ("unidirectional", "tokens see what precedes them"),
                ("bidirectional", "tokens see all others"),
            ),
        ),
    ] = "bidirectional"
    """Whether tokens see only what precedes them. Modes fixed and variable."""
    horizontal_global_attention: Annotated[bool, Key(since="0.3.0", until="0.19.6")] = False
    """Let global blocks also attend to all others; only when bidirectional. Modes fixed and variable."""
    num_different_global_patterns: Annotated[int, Key(since="0.3.0", until="0.19.6")] = 1
    """Different choices of global blocks over the heads; above 1 needs a layout per head. Mode fixed."""
    num_random_blocks: Annotated[
        int,
        Key(
            since="0.3.0",
            until="0.19.6",
            unit="blocks",
            source="runtime/config.py:get_sparse_variable_config",
        ),
    ] = 0
    """Blocks chosen by chance in each row. Modes variable and bigbird."""
    local_window_blocks: Annotated[
        list[int],
        Key(
            since="0.3.0",
            until="0.19.6",
            unit="blocks",
            source="runtime/config.py:get_sparse_variable_config",
        ),
    ] = Field(default=[4])
    """Sizes of the local windows in turn; the last one repeats. Mode variable."""
    global_block_indices: Annotated[
        list[int], Key(since="0.3.0", until="0.19.6", source="runtime/config.py:get_sparse_variable_config")
    ] = Field(default=[0])
    """Global blocks, or the first block of each global range. Modes variable and bslongformer."""
    global_block_end_indices: Annotated[
        list[int] | None,
        Key(since="0.3.0", until="0.19.6", source="runtime/config.py:get_sparse_variable_config"),
    ] = None
    """End (exclusive) of each range that `global_block_indices` begins; null makes each index one block."""
    num_sliding_window_blocks: Annotated[
        int,
        Key(
            since="0.3.0", until="0.19.6", unit="blocks", source="runtime/config.py:get_sparse_bigbird_config"
        ),
    ] = 3
    """Blocks in the sliding window. Modes bigbird and bslongformer."""


class SparseAttentionKeys(RootKeys):
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
    """Block-sparse attention: which blocks of the attention matrix are computed."""
