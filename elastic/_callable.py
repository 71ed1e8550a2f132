"""Lets `elastic.plan` and `elastic.search` be called: each is a module named after its one function."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that, called, calls its function of the same last name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; without this, importing `elastic.plan` would hide `elastic.plan(config)`."""
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def make_callable(name: str) -> None:
    """Make the module called `name`, already in `sys.modules`, callable."""
    sys.modules[name].__class__ = CallableModule
