"""Generate `config.py`, `classes.py` and `root_sections.pyi`, which map section classes to their modules."""

from __future__ import annotations

import pkgutil
import textwrap
from collections.abc import Iterable
from importlib import import_module

import dsconfig.model
from dsconfig.model import iterate_model_fields
from dsconfig.model.section import RootKeys, Section

_MODEL = "dsconfig.model"
_WIDTH = 110
_NO_SECTIONS = {
    "_generated",
    "build_section",
    "config_operations",
    "iterate_model_fields",
    "key",
    "key_description",
    "key_table",
    "section",
    "to_json_value",
    "torch_classes",
}
"""Modules of the model that declare no section."""
_ORDER = (
    "engine",
    "communication",
    "batch",
    "precision",
    "optimizer",
    "scheduler",
    "zero",
    "aio",
    "activation_checkpointing",
    "pipeline",
    "tensor_parallel",
    "expert_parallel",
    "checkpoint",
    "monitor",
    "profiling",
    "autotuning",
    "data",
    "compression",
    "quantization",
    "compile",
    "hybrid_engine",
    "elasticity",
    "progressive_layer_drop",
    "sparse_attention",
)
"""Modules in the order in which their root keys are listed; a module that is not named here comes last."""

_CONFIG = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

The DeepSpeed config over all releases, composed of the root keys that each module declares.
"""

{imports}


class Config(
{bases}
):
    """A DeepSpeed config: the content of a `ds_config.json`.

    DeepSpeed ignores unknown keys at this level, in every release.
    """
'''
_CLASSES = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

The module of each section class, below `dsconfig.model`. The imports lead editors from the stub to docstrings.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
{imports}

MODULES = {{
{modules}
}}
'''
_ROOT_SECTIONS = '''\
"""Generated from dsconfig/model and dsconfig/__init__.py by `make generate`; do not edit.

The section classes that `dsconfig` exports.
"""

{imports}
'''


def config_module() -> str:
    """Return the source of `config.py`, in which the fields of the last base class come first."""
    for module in pkgutil.iter_modules(dsconfig.model.__path__):
        if module.name not in _NO_SECTIONS:
            import_module(f"{_MODEL}.{module.name}")
    bases = sorted(RootKeys.__subclasses__(), key=_position_of_class, reverse=True)
    imports = sorted((cls.__module__, cls.__name__) for cls in bases)
    return _CONFIG.format(
        imports="\n".join(f"from {module} import {name}" for module, name in imports),
        bases="\n".join(f"    {cls.__name__}," for cls in bases),
    )


def _position_of_class(cls: type[Section]) -> tuple[int, str]:
    module = _module_of_class(cls)
    return (_ORDER.index(module) if module in _ORDER else len(_ORDER), module)


def render(*roots: type[Section]) -> str:
    """Return the source of `classes.py`, for the sections of configs of each kind."""
    names: dict[str, list[str]] = {}
    for cls in iterate_model_fields.iter_sections(*roots):
        names.setdefault(_module_of_class(cls), []).append(cls.__name__)
    by_module = {module: sorted(classes) for module, classes in sorted(names.items())}
    return _CLASSES.format(
        imports="\n".join(
            import_names(f"{_MODEL}.{module}", classes, "    ") for module, classes in by_module.items()
        ),
        modules="\n".join(f'    "{module}": "{" ".join(classes)}",' for module, classes in by_module.items()),
    )


def root_sections_stub() -> str:
    """Return the source of `root_sections.pyi`."""
    import dsconfig

    names: tuple[str, ...] = vars(dsconfig)["sections"]()  # the stub of `dsconfig` does not declare it
    return _ROOT_SECTIONS.format(imports=import_names(_MODEL, sorted(names)))


def import_names(module: str, names: Iterable[str], indent: str = "") -> str:
    """Return a wrapped statement that imports and re-exports names."""
    aliases = ", ".join(f"{name} as {name}" for name in names)
    # Two names stay together: the only spaces at which a line may break are those behind a comma.
    joined = aliases.replace(" as ", "\xa0as\xa0")
    lines = textwrap.wrap(joined, _WIDTH - len(indent) - 4, break_long_words=False, break_on_hyphens=False)
    body = "\n".join(f"{indent}    {line}" for line in lines).replace("\xa0", " ")
    return f"{indent}from {module} import (\n{body}\n{indent})"


def _module_of_class(cls: type[Section]) -> str:
    """Return the module of each class, relative to `dsconfig.model`."""
    return cls.__module__.removeprefix(f"{_MODEL}.")
