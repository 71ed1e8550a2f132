"""The modules that say which classes the model has: the root of the config, and the names of the package."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import dsconfig.model
from dsconfig.model import walk
from dsconfig.model.section import RootKeys, Section

_MODEL = "dsconfig.model"
_TOOLS = {
    "_table",
    "annotations",
    "config",
    "describe",
    "key",
    "keyinfo",
    "openers",
    "paths",
    "section",
    "spec",
    "torch_classes",
    "views",
    "walk",
}
"""Modules of the model that declare no section."""
_BESIDE = {
    "key": ("Key",),
    "section": ("Section",),
    "config": ("Config",),
    "optimizer": ("OPTIMIZERS", "OptimizerType"),
    "scheduler": ("SCHEDULERS", "SchedulerType"),
}
"""What the package offers beside sections."""
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
"""Files in the order in which their root keys are listed; a file that is not named here follows them."""

_CONFIG = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

The whole DeepSpeed config over all releases, put together from the root keys that the files declare.
"""

from pydantic import ConfigDict

{imports}


class Config(
{bases}
):
    """A DeepSpeed config: what a `ds_config.json` holds.

    Keys that DeepSpeed does not know are ignored at this level, in every release.
    """

    model_config = ConfigDict(defer_build=False)
'''
_PACKAGE = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

The typed model of the whole DeepSpeed config over all releases; a file per domain. Importing this package
imports nothing: a class comes with its module when it is first asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
{imports}
else:
    _HOME = {{
{homes}
    }}

    def __getattr__(name: str) -> object:
        """Import the module that holds `name`."""
        if name not in _HOME:
            raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
        from importlib import import_module

        value = getattr(import_module(f"{{__name__}}.{{_HOME[name]}}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Name also what is not imported yet."""
        return sorted({{*globals(), *_HOME}})


__all__ = [
{names}
]
'''


def config() -> str:
    """`dsconfig/model/config.py`. The last base comes first in the config."""
    for file in _files():
        import_module(f"{_MODEL}.{file}")
    bases = sorted(RootKeys.__subclasses__(), key=_place, reverse=True)
    homes = sorted((cls.__module__, cls.__name__) for cls in bases)
    return _CONFIG.format(
        imports="\n".join(f"from {home} import {name}" for home, name in homes),
        bases="\n".join(f"    {cls.__name__}," for cls in bases),
    )


def _place(cls: type[Section]) -> tuple[int, str]:
    file = _file(cls)
    return (_ORDER.index(file) if file in _ORDER else len(_ORDER), file)


def package(config: type[Section]) -> str:
    """`dsconfig/model/__init__.py`: every section that a config can hold."""
    offered: dict[str, list[str]] = {file: list(names) for file, names in _BESIDE.items()}
    for cls in walk.sections(config):
        if cls is not config:
            offered.setdefault(_file(cls), []).append(cls.__name__)
    homes = {name: file for file, names in offered.items() for name in names}
    return _PACKAGE.format(
        imports="\n".join(_import(file, names) for file, names in sorted(offered.items())),
        homes="\n".join(f'        "{name}": "{homes[name]}",' for name in sorted(homes)),
        names="\n".join(f'    "{name}",' for name in sorted(homes, key=_as_sorted)),
    )


def _file(cls: type[Section]) -> str:
    return cls.__module__.removeprefix(f"{_MODEL}.")


def _files() -> Iterator[str]:
    """Every file of the model in which sections may stand."""
    for module in pkgutil.walk_packages(dsconfig.model.__path__, f"{_MODEL}."):
        file = module.name.removeprefix(f"{_MODEL}.")
        if file not in _TOOLS:
            yield file


def _import(file: str, names: list[str]) -> str:
    names = sorted(names, key=_as_sorted)
    line = f"    from {_MODEL}.{file} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"    from {_MODEL}.{file} import (", *(f"        {name}," for name in names), "    )"])


_WIDTH = 110


def _as_sorted(name: str) -> tuple[bool, str]:
    """Constants before classes, as the linter sorts names."""
    return not name.isupper(), name
