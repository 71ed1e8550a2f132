"""Declarative schema and validation toolkit for DeepSpeed configuration.

    report = dsconfig.check("ds_config.json", target="0.19.8", world_size=64)
    config = dsconfig.load("ds_config.json")
    config = dsconfig.Config(train_batch_size=64, zero_optimization=dsconfig.ZeroOptimization(stage=3))

Names are imported when they are first used: `import dsconfig` alone loads nothing else.
"""

from __future__ import annotations

from dsconfig._version import __version__

TYPE_CHECKING = False  # importing it from typing would cost every start 5 ms

if TYPE_CHECKING:
    from dsconfig import presets
    from dsconfig.checking.check import check
    from dsconfig.checking.report import Report
    from dsconfig.diagnostic import Diagnostic, Effect, Fix, Location, Related
    from dsconfig.fixing.fix import fix
    from dsconfig.loader import ConfigError, load
    from dsconfig.model import *  # noqa: F403  the section classes, for editors
    from dsconfig.model.config import Config
    from dsconfig.releases import LATEST, RELEASES, UnknownReleaseError
    from dsconfig.resolving.errors import ResolveError
    from dsconfig.resolving.resolve import resolve
    from dsconfig.resolving.run import Run
    from dsconfig.schema import json_schema
else:
    _HOMES = {
        "check": "dsconfig.checking.check",
        "Report": "dsconfig.checking.report",
        "Diagnostic": "dsconfig.diagnostic",
        "Effect": "dsconfig.diagnostic",
        "Fix": "dsconfig.diagnostic",
        "Location": "dsconfig.diagnostic",
        "Related": "dsconfig.diagnostic",
        "fix": "dsconfig.fixing.fix",
        "ConfigError": "dsconfig.loader",
        "load": "dsconfig.loader",
        "LATEST": "dsconfig.releases",
        "RELEASES": "dsconfig.releases",
        "UnknownReleaseError": "dsconfig.releases",
        "ResolveError": "dsconfig.resolving.errors",
        "Run": "dsconfig.resolving.run",
        "resolve": "dsconfig.resolving.resolve",
        "json_schema": "dsconfig.schema",
    }

    def __getattr__(name):
        from importlib import import_module

        if name == "presets":
            value = import_module("dsconfig.presets")
        elif name in _HOMES:
            # A function and its module may share a name: the name is the function's, whatever was imported
            # first.
            value = getattr(import_module(_HOMES[name]), name)
        else:
            model = import_module("dsconfig.model")
            if name not in model.__all__:
                raise AttributeError(f"module 'dsconfig' has no attribute {name!r}")
            value = getattr(model, name)
        globals()[name] = value
        return value

    def __dir__():
        from importlib import import_module

        return sorted({*globals(), "presets", *_HOMES, *import_module("dsconfig.model").__all__})


__all__ = [
    "LATEST",
    "RELEASES",
    "Config",
    "ConfigError",
    "Diagnostic",
    "Effect",
    "Fix",
    "Location",
    "Related",
    "Report",
    "ResolveError",
    "Run",
    "UnknownReleaseError",
    "__version__",
    "check",
    "fix",
    "json_schema",
    "load",
    "presets",
    "resolve",
]
