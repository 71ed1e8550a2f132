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
    "load": "dsconfig.api.load",
    "ConfigError": "dsconfig.api.from_source",
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
    "FixedText": "dsconfig.fix.fix",
    "fix": "dsconfig.fix.fix",
    "Migration": "dsconfig.fix.migrate",
    "Difference": "dsconfig.model.compose",
    "LATEST": "dsconfig.core.releases",
    "RELEASES": "dsconfig.core.releases",
    "UnknownReleaseError": "dsconfig.core.releases",
    "Shown": "dsconfig.resolve.effective",
    "ResolveError": "dsconfig.resolve.errors",
    "UnknownWorldSizeError": "dsconfig.resolve.errors",
    "Run": "dsconfig.resolve.run",
    "memory": "dsconfig.resolve.memory",
    "resolve": "dsconfig.resolve.resolve",
    "show": "dsconfig.resolve.show",
    "json_schema": "dsconfig.schema",
    "Estimate": "dsconfig.memory.estimate",
    "NotModelledError": "dsconfig.memory.not_modelled",
}
"""The module of each name, beside those of `dsconfig.model`; `make generate` writes the stub from them."""


class _Package(type(sys)):  # type: ignore[misc]  # the type of modules, without importing `types`
    """The package: importing `dsconfig.check.report` leaves the name `check` to the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in HOMES and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__all__":
        model = import_module("dsconfig.model")
        value: object = sorted({"__version__", "presets", *HOMES, *model.__all__})
    elif name == "presets":
        value = import_module("dsconfig.api.presets")
    elif name in HOMES:
        # A function and its module may share a name: the name is the function's, whatever was imported first.
        value = getattr(import_module(HOMES[name]), name)
    else:
        model = import_module("dsconfig.model")
        if name not in model.__all__:
            raise AttributeError(f"module 'dsconfig' has no attribute {name!r}")
        value = getattr(model, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from importlib import import_module

    return sorted({*globals(), "presets", *HOMES, *import_module("dsconfig.model").__all__})
