"""Data efficiency: which samples make up a batch, and which tokens pass which layers."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.data.curriculum import CurriculumLearning
from dsconfig.model.data.routing import DataRouting
from dsconfig.model.data.sampling import DataSampling
from dsconfig.model.key import Key
from dsconfig.model.section import RootKeys, Section
from dsconfig.model.section_triggers import SCRIPT

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


class DataKeys(RootKeys):
    """Root keys about data."""

    data_efficiency: Annotated[
        DataEfficiency,
        Key(
            since="0.8.0",
            source="runtime/data_pipeline/config.py:get_data_efficiency_enabled",
            opened_by=SCRIPT,  # the data loader that a `training_data` argument makes
        ),
    ] = Field(default_factory=DataEfficiency)
    """Curriculum sampling, dynamic batches, random token dropping."""
    curriculum_learning: Annotated[
        CurriculumLearning,
        Key(
            since="0.5.0",
            until="0.19.7",
            refused_from="0.19.8",
            source="runtime/data_pipeline/config.py:get_curriculum_enabled_legacy",
            deprecated="0.8.0",
            replaced_by="data_efficiency.data_sampling.curriculum_learning",
            complete=True,
            opened_by="curriculum_learning.enabled",
        ),
    ] = Field(default_factory=CurriculumLearning.absent)
    """First form of curriculum learning, by sequence length."""
