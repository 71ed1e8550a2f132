"""The checks, a folder or file per domain with the model's names; `RULES` holds them all by code.

Importing this package imports every module below it, and so registers every rule: a new file needs no mention
anywhere. Modules whose name begins with an underscore hold no rule, but what several rules ask of a config;
they load where they are needed.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from dsconfig.evaluation.rule import RULES, Rule

__all__ = ["RULES", "Rule"]

for _module in walk_packages(__path__, f"{__name__}."):
    if not _module.name.rpartition(".")[2].startswith("_"):
        import_module(_module.name)
