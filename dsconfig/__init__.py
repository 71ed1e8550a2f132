"""Declarative schema and validation toolkit for DeepSpeed configuration.

    report = dsconfig.check("ds_config.json", target="0.19.8", world_size=64)
    config = dsconfig.load("ds_config.json")
    config = dsconfig.Config(train_batch_size=64, zero_optimization=dsconfig.ZeroOptimization(stage=3))

Names are imported when they are first used: `import dsconfig` alone loads nothing else.
"""

from __future__ import annotations

import sys

from dsconfig.core.version import __version__ as __version__

HOMES = {
    "CommentsDroppedWarning": "dsconfig.api.config",
    "Config": "dsconfig.api.config",
    "load": "dsconfig.api.config",
    "ConfigError": "dsconfig.api.typed_model",
    "check": "dsconfig.api.check",
    "Stretch": "dsconfig.check.compat",
    "compat": "dsconfig.check.compat",
    "Report": "dsconfig.check.report",
    "Diagnostic": "dsconfig.core.diagnostic",
    "Effect": "dsconfig.core.diagnostic",
    "Fix": "dsconfig.core.diagnostic",
    "Location": "dsconfig.core.diagnostic",
    "Related": "dsconfig.core.diagnostic",
    "migrate": "dsconfig.api.migrate_api",
    "FixResult": "dsconfig.fix.fix",
    "fix": "dsconfig.fix.fix",
    "Migration": "dsconfig.fix.migrate",
    "Difference": "dsconfig.model.compose",
    "LATEST": "dsconfig.core.releases",
    "RELEASES": "dsconfig.core.releases",
    "UnknownReleaseError": "dsconfig.core.releases",
    "Shown": "dsconfig.resolve.effective_values",
    "ResolveError": "dsconfig.resolve.errors",
    "UnknownWorldSizeError": "dsconfig.resolve.errors",
    "Run": "dsconfig.resolve.run",
    "memory": "dsconfig.resolve.memory",
    "resolve": "dsconfig.resolve.resolve",
    "show": "dsconfig.resolve.effective_values",
    "json_schema": "dsconfig.schema",
    "Estimate": "dsconfig.memory.estimate",
    "NotModelledError": "dsconfig.memory.verdict",
}
"""The module of each name, beside those of `dsconfig.model`; `make generate` writes the stub from them."""


BESIDE = ("BuildError", "OffloadOptimizer", "OffloadParam", "ThroughputTimer", "ZenFlow")
"""What of `dsconfig.model` people type beside the sections at the root of a config.

Everything else of it, such as the classes of parameters and the TypedDicts, is in `dsconfig.types`.
"""


def sections() -> tuple[str, ...]:
    """The section classes that the top namespace has."""
    from importlib import import_module

    keys = import_module("dsconfig.model.keyinfo")
    found = {keys.child_section(info.type) for info in keys.section_keys(keys.ROOT).values()} - {None}
    return (*sorted(found), *BESIDE)


class _Package(type(sys)):  # type: ignore[misc]  # the type of modules, without importing `types`
    """The package: importing `dsconfig.check.report` leaves the name `check` to the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in HOMES and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__all__":
        value: object = __dir__()
    elif name in ("presets", "types"):
        value = import_module("dsconfig.api.presets" if name == "presets" else "dsconfig.types")
    elif name in HOMES:
        # A function and its module may share a name: the name is the function's, whatever was imported first.
        value = getattr(import_module(HOMES[name]), name)
    elif name in sections():
        value = getattr(import_module("dsconfig.model"), name)
    else:
        raise AttributeError(f"module 'dsconfig' has no attribute {name!r}{_elsewhere(name)}")
    globals()[name] = value
    return value


def _elsewhere(name: str) -> str:
    """Where a name is that the top namespace does not have; empty where it is nowhere."""
    from importlib import import_module

    is_type = not name.startswith("_") and name in import_module("dsconfig.model").__all__
    return f": it is `dsconfig.types.{name}`" if is_type else ""


def __dir__() -> list[str]:
    return sorted({"__version__", "presets", "types", *HOMES, *sections()})
