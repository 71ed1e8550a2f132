"""Types of the sections of a config: every section class, the classes of params, and a TypedDict for each.

    from dsconfig.types import AdamWParams, ZeroOptimizationDict

The sections at the root of a config are in `dsconfig` itself, too.
"""

from __future__ import annotations

from types import ModuleType


def _model() -> ModuleType:
    from importlib import import_module

    return import_module("dsconfig.model")


def __getattr__(name: str) -> object:
    if name not in _model().__all__:
        raise AttributeError(f"module 'dsconfig.types' has no attribute {name!r}")
    return getattr(_model(), name)


def __dir__() -> list[str]:
    return sorted(_model().__all__)
