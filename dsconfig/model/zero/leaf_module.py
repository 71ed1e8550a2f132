"""Modules that stage 3 fetches whole."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key, Reads
from dsconfig.model.section import Section


class LeafModule(Section):
    """Modules that stage 3 fetches whole, without looking inside; usually mixture-of-experts blocks."""

    SOURCE = "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig"
    READS = (Reads("pydantic", since="0.18.0", unknown="rejected", drops_auto=True),)

    classes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(
        default=[
            "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
            "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
            "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
        ]
    )
    """Classes of such modules, by short or full name."""
    names: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Such modules by their exact name in the model."""
    name_suffixes: Annotated[list[str] | str, Key(since="0.18.0")] = Field(default=[])
    """Such modules by the end of their name."""
