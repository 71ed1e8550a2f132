"""The checks, a folder or file per domain with the model's names; `RULES` holds them all by code.

Importing this package imports every module below it, and so registers every rule: a new file needs no mention
anywhere. Modules whose name begins with an underscore hold no rule, but what several rules ask of a config;
they load where they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module

from dsconfig.evaluation.rule import RULES, Rule

__all__ = ["RULES", "Rule"]


def _modules(folder: str, package: str) -> Iterator[str]:
    """The modules of rules below a package; `pkgutil` would import `inspect` for it, a tenth of a check."""
    for name in sorted(os.listdir(folder)):
        if name.startswith("_"):
            continue
        if name.endswith(".py"):
            yield f"{package}.{name.removesuffix('.py')}"
        elif os.path.isdir(os.path.join(folder, name)):
            yield from _modules(os.path.join(folder, name), f"{package}.{name}")


for _module in _modules(os.path.dirname(__file__), __name__):
    import_module(_module)
