"""Declarative schema and validation toolkit for DeepSpeed configuration.

    report = dsconfig.check("ds_config.json", target="0.19.8", world_size=64)
    config = dsconfig.load("ds_config.json")
    config = dsconfig.Config(train_batch_size=64, zero_optimization=dsconfig.ZeroOptimization(stage=3))

Names are imported when they are first used: `import dsconfig` alone loads nothing else.
"""

from __future__ import annotations

from dsconfig._version import __version__ as __version__

HOMES = {
    "CommentsDroppedWarning": "dsconfig.building.config",
    "Config": "dsconfig.building.config",
    "load": "dsconfig.building.load",
    "ConfigError": "dsconfig.building.reading",
    "check": "dsconfig.checking.check",
    "Stretch": "dsconfig.checking.compat",
    "compat": "dsconfig.checking.compat",
    "Report": "dsconfig.checking.report",
    "Diagnostic": "dsconfig.diagnostic",
    "Effect": "dsconfig.diagnostic",
    "Fix": "dsconfig.diagnostic",
    "Location": "dsconfig.diagnostic",
    "Related": "dsconfig.diagnostic",
    "migrate": "dsconfig.building.migrate",
    "FixedText": "dsconfig.fixing.fix",
    "fix": "dsconfig.fixing.fix",
    "Migration": "dsconfig.fixing.migrate",
    "Difference": "dsconfig.model.compose",
    "LATEST": "dsconfig.releases",
    "RELEASES": "dsconfig.releases",
    "UnknownReleaseError": "dsconfig.releases",
    "Shown": "dsconfig.resolving.effective",
    "ResolveError": "dsconfig.resolving.errors",
    "UnknownWorldSizeError": "dsconfig.resolving.errors",
    "Run": "dsconfig.resolving.run",
    "memory": "dsconfig.resolving.memory",
    "resolve": "dsconfig.resolving.resolve",
    "show": "dsconfig.resolving.show",
    "json_schema": "dsconfig.schema",
    "Estimate": "dsconfig.sizing.estimate",
    "NotModelledError": "dsconfig.sizing.refused",
}
"""The module of each name, beside those of `dsconfig.model`; `make generate` writes the stub from them."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__all__":
        model = import_module("dsconfig.model")
        value: object = sorted({"__version__", "presets", *HOMES, *model.__all__})
    elif name == "presets":
        value = import_module("dsconfig.presets")
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
