"""What the groups of every compression technique share."""

from typing import Annotated

from dsconfig.model.annotations import Fraction
from dsconfig.model.key import Key
from dsconfig.model.section import Section


class Group(Section):
    """Modules that are compressed alike; each technique adds its `params`."""

    modules: Annotated[list[str] | str, Key(since="0.7.0", until="0.19.6")] = "*"
    """Regular expressions for the names of the modules; the default takes all."""
    related_modules: Annotated[list[list[str]] | None, Key(since="0.7.0", until="0.19.6")] = None
    """For each of `modules`, those that must shrink with it because they share a dimension."""


class DenseRatio(Section):
    """Parameters of a pruned group."""

    SOURCE = "compression/config.py:get_params"

    dense_ratio: Annotated[Fraction, Key(since="0.7.0", until="0.19.6")]
    """Share of weights that stay; 0.1 removes nine tenths. The config is refused without it."""
