"""Pruning of single weights, rows, attention heads and channels while training."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from dsconfig.model.annotations import ABSENT
from dsconfig.model.compression.groups import DenseRatio, Group
from dsconfig.model.key import Key, Was
from dsconfig.model.section import Section

_OpenFraction: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
_Method: TypeAlias = Annotated[
    Literal["l1", "topk"],
    Key(
        since="0.7.0",
        until="0.19.6",
        wrong_type="rejected",
        means=(("l1", "by size"), ("topk", "by a learned score")),
    ),
]


class _Parameters(Section):
    """What the settings of every pruning technique share."""

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Switch the technique on; a group alone does nothing."""
    schedule_offset: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="steps")] = 1000
    """Steps before pruning begins; a model that trained first loses less."""


class _PrunedGroup(Group):
    """Modules that are pruned alike."""

    params: Annotated[DenseRatio, Key(since="0.7.0", until="0.19.6")]
    """How much stays."""


class SparseParameters(_Parameters):
    """Settings for all groups of single weights."""

    SOURCE = "compression/config.py:get_sparse_pruning_shared_parameters"

    method: Annotated[
        Literal["l1", "topk", "snip_momentum"],
        Key(
            since="0.7.0",
            until="0.19.6",
            was=(Was("0.9.2", Literal["l1", "topk"]),),
            wrong_type="rejected",
            means=(
                ("l1", "by size"),
                ("topk", "by a learned score"),
                ("snip_momentum", "by SNIP scores; needs the package `neural_compressor`"),
            ),
        ),
    ] = "l1"
    """Rank weights by size, by a learned score, or by SNIP scores, which needs `neural_compressor`."""
    block_pattern: Annotated[str, Key(since="0.9.3", until="0.19.6")] = "4x1"
    """Shape of what is pruned together, as blocks (4x1) or N of M (2:4). For snip_momentum."""
    dense_ratio: Annotated[_OpenFraction, Key(since="0.9.3", until="0.19.6")] = 0.1
    """Share of weights that stay. For snip_momentum, and checked only with it."""
    excluded_modules: Annotated[list[str], Key(since="0.9.3", until="0.19.6")] = Field(default=[])
    """Modules to leave alone. For snip_momentum."""
    schedule_offset_end: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = ABSENT
    """Last pruning step, not before `schedule_offset`, which is also its default. For snip_momentum."""
    schedule_offset_stride: Annotated[int, Key(since="0.9.3", until="0.19.6", unit="steps")] = 1
    """Steps from one pruning to the next. For snip_momentum."""


class SparseGroup(_PrunedGroup):
    """Modules whose single weights are pruned alike."""

    SOURCE = "compression/config.py:get_sparse_pruning_different_groups"


class SparsePruning(Section):
    """Pruning of single weights."""

    SOURCE = "compression/config.py:get_sparse_pruning"

    shared_parameters: Annotated[
        SparseParameters,
        Key(
            since="0.7.0", until="0.19.6", source="compression/config.py:get_sparse_pruning_shared_parameters"
        ),
    ] = Field(default_factory=SparseParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, SparseGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class RowParameters(_Parameters):
    """Settings for all groups of rows."""

    SOURCE = "compression/config.py:get_row_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank rows by size, or by a learned score."""


class RowGroup(_PrunedGroup):
    """Modules whose rows are pruned alike."""

    SOURCE = "compression/config.py:get_row_pruning_different_groups"


class RowPruning(Section):
    """Pruning of rows."""

    SOURCE = "compression/config.py:get_row_pruning"

    shared_parameters: Annotated[
        RowParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_row_pruning_shared_parameters"),
    ] = Field(default_factory=RowParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, RowGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class HeadParameters(_Parameters):
    """Settings for all groups of attention heads."""

    SOURCE = "compression/config.py:get_head_pruning_shared_parameters"

    method: _Method = "topk"
    """Ranking of heads; only topk, a learned score, is implemented."""
    num_heads: Annotated[int, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Attention heads of a layer. Must be given when the technique is on."""


class HeadGroup(_PrunedGroup):
    """Modules whose attention heads are pruned alike."""

    SOURCE = "compression/config.py:get_head_pruning_different_groups"


class HeadPruning(Section):
    """Pruning of attention heads."""

    SOURCE = "compression/config.py:get_head_pruning"

    shared_parameters: Annotated[
        HeadParameters,
        Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_head_pruning_shared_parameters"),
    ] = Field(default_factory=HeadParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, HeadGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""


class ChannelParameters(_Parameters):
    """Settings for all groups of channels."""

    SOURCE = "compression/config.py:get_channel_pruning_shared_parameters"

    method: _Method = "l1"
    """Rank channels by size, or by a learned score."""


class ChannelGroup(_PrunedGroup):
    """Modules whose channels are pruned alike."""

    SOURCE = "compression/config.py:get_channel_pruning_different_groups"


class ChannelPruning(Section):
    """Pruning of channels."""

    SOURCE = "compression/config.py:get_channel_pruning"

    shared_parameters: Annotated[
        ChannelParameters,
        Key(
            since="0.7.0",
            until="0.19.6",
            source="compression/config.py:get_channel_pruning_shared_parameters",
        ),
    ] = Field(default_factory=ChannelParameters)
    """Settings for all groups."""
    different_groups: Annotated[
        dict[str, ChannelGroup], Key(since="0.7.0", until="0.19.6", wrong_type="rejected")
    ]
    """Groups of modules, under names of your choice. Needed whenever the technique is mentioned."""
