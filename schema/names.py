"""The modules that say which classes the model has: the root of the config, and the names of the package."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module

import dsconfig.model
from dsconfig.model import iter_fields
from dsconfig.model.section import RootKeys, Section

_MODEL = "dsconfig.model"
_TOOLS = {
    "_prose",
    "_table",
    "annotations",
    "build_section",
    "compose",
    "config",
    "key_page",
    "dicts",
    "key",
    "keyinfo",
    "section",
    "torch_classes",
    "to_json_value",
    "iter_fields",
}
"""Modules of the model that declare no section."""
_BESIDE = {
    "key": ("Key",),
    "build_section": ("BuildError", "Problem"),
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

{imports}


class Config(
{bases}
):
    """A DeepSpeed config: what a `ds_config.json` holds.

    Keys that DeepSpeed does not know are ignored at this level, in every release.
    """
'''
_PACKAGE = '''\
"""Generated from dsconfig/model by `make generate`; do not edit.

The typed model of the whole DeepSpeed config over all releases; a file per domain. Importing this package
imports nothing: a class comes with its module when it is first asked for. Type checkers read the stub.
"""

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


__all__ = [  # noqa: PLE0604, RUF100  names that only `__getattr__` knows
{names}
]
'''
_PUBLIC = '''\
"""Generated from dsconfig/model and dsconfig/__init__.py by `make generate`; do not edit.

{doc}
"""

from dsconfig import types as types
from dsconfig.api import presets as presets
{imports}

__version__: str
__all__ = [
{names}
]
'''


_TYPES = '''\
"""Generated from dsconfig/model and dsconfig/types.py by `make generate`; do not edit.

{doc}
"""

{imports}

__all__ = [
{names}
]
'''


def config() -> str:
    """`dsconfig/model/config.py`. The last base comes first in the config."""
    for file in _files():
        import_module(f"{_MODEL}.{file}")
    bases = sorted(RootKeys.__subclasses__(), key=_place, reverse=True)
    exports = sorted((cls.__module__, cls.__name__) for cls in bases)
    return _CONFIG.format(
        imports="\n".join(f"from {home} import {name}" for home, name in exports),
        bases="\n".join(f"    {cls.__name__}," for cls in bases),
    )


def _place(cls: type[Section]) -> tuple[int, str]:
    file = _file(cls)
    return (_ORDER.index(file) if file in _ORDER else len(_ORDER), file)


def package(config: type[Section]) -> str:
    """`dsconfig/model/__init__.py`: every section that a config can hold."""
    exports = _homes(config)
    return _PACKAGE.format(
        homes="\n".join(f'    "{name}": "{exports[name]}",' for name in sorted(exports)),
        names="\n".join(f'    "{name}",' for name in every(config)),
    )


def every(config: type[Section]) -> list[str]:
    """Every name of `dsconfig.model`, as the linter sorts names."""
    return sorted(_homes(config), key=_as_sorted)


def _homes(config: type[Section]) -> dict[str, str]:
    """The file that holds each name."""
    exports = {name: file for file, names in _BESIDE.items() for name in names}
    exports |= {cls.__name__: _file(cls) for cls in iter_fields.sections(config) if cls is not config}
    return exports | {f"{cls.__name__}Dict": "dicts" for cls in iter_fields.sections(config)}


def beside(config: type[Section]) -> str:
    """The imports of what the model offers beside sections, for its stub."""
    offered = [(file, [*names]) for file, names in sorted(_BESIDE.items()) if file != "config"]
    offered.append(("dicts", [f"{cls.__name__}Dict" for cls in iter_fields.sections(config)]))
    return "\n".join(_import(f"{_MODEL}.{file}", names) for file, names in offered)


def public(model: list[str]) -> str:
    """`dsconfig/__init__.pyi`: everything that `dsconfig` offers, whose own names come first."""
    import dsconfig

    exports: dict[str, str] = vars(dsconfig)["EXPORTS"]  # not in the stub that is written here
    sections: tuple[str, ...] = vars(dsconfig)["sections"]()
    own: dict[str, list[str]] = {}
    for name, home in exports.items():
        own.setdefault(home, []).append(name)
    own[_MODEL] = [name for name in model if name in sections]
    listed = sorted({"__version__", "presets", "types", *exports, *sections}, key=_as_sorted)
    return _PUBLIC.format(
        doc=(dsconfig.__doc__ or "").strip(),
        imports="\n".join(_import(home, names) for home, names in sorted(own.items())),
        names="\n".join(f'    "{name}",' for name in listed),
    )


def types(model: list[str]) -> str:
    """`dsconfig/types.pyi`: every class of the model."""
    import dsconfig.types

    listed = sorted(model, key=_as_sorted)
    return _TYPES.format(
        doc=(dsconfig.types.__doc__ or "").strip(),
        imports=_import(_MODEL, listed),
        names="\n".join(f'    "{name}",' for name in listed),
    )


def _file(cls: type[Section]) -> str:
    return cls.__module__.removeprefix(f"{_MODEL}.")


def _files() -> Iterator[str]:
    """Every file of the model in which sections may stand."""
    for module in pkgutil.walk_packages(dsconfig.model.__path__, f"{_MODEL}."):
        file = module.name.removeprefix(f"{_MODEL}.")
        if file not in _TOOLS:
            yield file


def _import(home: str, names: Iterable[str]) -> str:
    """An import whose names are offered on."""
    listed = "\n".join(f"    {name} as {name}," for name in sorted(names, key=_as_sorted))
    return f"from {home} import (\n{listed}\n)"


def _as_sorted(name: str) -> tuple[bool, str]:
    """Constants before classes, as the linter sorts names."""
    return not name.isupper(), name
