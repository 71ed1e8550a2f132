"""Types of the sections of a config: section classes, parameter classes, and a TypedDict for each.

    from dsconfig.types import AdamWParams, ZeroOptimizationDict

The sections at the root of a config are in `dsconfig` as well.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    from dsconfig import model

    if name not in model.__dir__():
        raise AttributeError(f"module 'dsconfig.types' has no attribute {name!r}")
    return getattr(model, name)


def __dir__() -> list[str]:
    from dsconfig import model

    return model.__dir__()
