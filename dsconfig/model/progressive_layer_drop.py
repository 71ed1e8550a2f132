"""Progressive layer dropping: randomly skip more and more layers during training."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, SectionReading
from dsconfig.model.section import RootKeys, Section


class ProgressiveLayerDrop(Section):
    """Progressive layer drop. If it is enabled, both numbers are required, so their defaults are never used."""

    SOURCE = "runtime/progressive_layer_drop.py:ProgressiveLayerDrop.__init__"
    READS = (SectionReading("hand", unknown="kept"),)

    enabled: Annotated[
        bool,
        Key(since="0.3.1", until="0.19.7", source="runtime/config.py:get_pld_enabled, get_pld_params"),
    ]
    """Enable layer dropping. DeepSpeed rejects the section without this key."""
    theta: Annotated[float, Key(since="0.3.1", until="0.19.7")] = 0.5
    """Fraction of layers kept at the end; lower values train faster and less robustly."""
    gamma: Annotated[float, Key(since="0.3.1", until="0.19.7")] = 0.001
    """Rate at which the fraction falls from 1 to `theta`, per step."""


class ProgressiveLayerDropRootKeys(RootKeys):
    """The root key of progressive layer dropping."""

    progressive_layer_drop: Annotated[
        ProgressiveLayerDrop,
        Key(
            since="0.3.1",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/config.py:get_pld_enabled",
            complete=True,
            opened_by="progressive_layer_drop.enabled",
        ),
    ] = Field(default_factory=ProgressiveLayerDrop.absent)
    """Randomly skips more and more layers during training."""
