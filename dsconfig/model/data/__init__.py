"""Data efficiency: which samples make up a batch, and which tokens pass which layers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from dsconfig.model.base import Key, Section
from dsconfig.model.data.curriculum import CurriculumLearning
from dsconfig.model.data.routing import DataRouting
from dsconfig.model.data.sampling import DataSampling

__all__ = ["CurriculumLearning", "DataEfficiency"]


class DataEfficiency(Section):
    """The data efficiency library. Every inner section has a switch of its own."""

    SOURCE = "runtime/data_pipeline/config.py:get_data_efficiency_config"

    enabled: Annotated[
        bool, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_enabled")
    ] = False
    """Turn the library on."""
    seed: Annotated[
        int, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_efficiency_seed")
    ] = 1234
    """Seed of the order in which samples are drawn."""
    data_sampling: Annotated[
        DataSampling, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_sampling")
    ] = Field(default_factory=DataSampling)
    """Which samples make up a batch."""
    data_routing: Annotated[
        DataRouting, Key(since="0.8.0", source="runtime/data_pipeline/config.py:get_data_routing")
    ] = Field(default_factory=DataRouting)
    """Which tokens pass through which layers."""
