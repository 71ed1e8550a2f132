"""Whether somebody makes leaves of a model's modules for stage 3, outside of the config."""

from __future__ import annotations

import os

from dsconfig.core.read_boundary import root
from dsconfig.launch.repository import texts

PROGRAMS = frozenset(("LLaMA-Factory", "Axolotl", "ms-swift"))
"""Programs that do so for every model with experts that they know.

Sources: LLaMA-Factory model/model_utils/moe.py:add_z3_leaf_module; Axolotl
loaders/model.py:_set_z3_leaf_modules; ms-swift model/register.py:_deepspeed_set_z3_leaf_modules.
"""
_WORDS = (b"set_z3_leaf_module", b"_z3_leaf", b"deepspeed_moe_layer_cls_names", b"set_moe_leaf_modules")
"""DeepSpeed's own call, and Accelerate's setting (utils/dataclasses.py, `moe_layer_cls_names`)."""


def are_set(name: str) -> bool:
    """Whether a script or a launch file in the repository of a config sets them."""
    if name.startswith("<") or not name:
        return False
    path = os.path.abspath(name)
    folder = os.path.dirname(path)
    top = root(folder)
    return any(
        word in data for _, data in texts(top or folder, path, deep=top is not None) for word in _WORDS
    )
