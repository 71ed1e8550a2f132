"""Declarative schema and validation toolkit for DeepSpeed configuration.

    report = dsconfig.check("ds_config.json", target="0.19.8", world_size=64)
    config = dsconfig.load("ds_config.json")
    config = dsconfig.Config(train_batch_size=64, zero_optimization=dsconfig.ZeroOptimization(stage=3))

Names are imported when they are first used: `import dsconfig` alone loads nothing else.
"""

from __future__ import annotations

import sys

from dsconfig.core.version import __version__ as __version__

EXPORTS = {
    "CommentsDroppedWarning": "dsconfig.api.config",
    "Config": "dsconfig.api.config",
    "load": "dsconfig.api.config",
    "ConfigError": "dsconfig.api.construct_config",
    "check": "dsconfig.api.check",
    "CompatRange": "dsconfig.check.accepting_releases",
    "compat": "dsconfig.check.accepting_releases",
    "Report": "dsconfig.check.report",
    "Diagnostic": "dsconfig.core.diagnostic",
    "Effect": "dsconfig.core.diagnostic",
    "Fix": "dsconfig.core.diagnostic",
    "Location": "dsconfig.core.diagnostic",
    "Related": "dsconfig.core.diagnostic",
    "migrate": "dsconfig.api.migrate",
    "FixResult": "dsconfig.fix.apply_fixes",
    "fix": "dsconfig.fix.apply_fixes",
    "Migration": "dsconfig.fix.migrate",
    "ConfigDifference": "dsconfig.model.config_operations",
    "LATEST": "dsconfig.core.releases",
    "RELEASES": "dsconfig.core.releases",
    "UnknownReleaseError": "dsconfig.core.releases",
    "EffectiveValues": "dsconfig.resolve.effective_values",
    "ResolveError": "dsconfig.resolve.errors",
    "UnknownWorldSizeError": "dsconfig.resolve.errors",
    "ResolvedRun": "dsconfig.resolve.resolved_run",
    "memory": "dsconfig.resolve.memory",
    "resolve": "dsconfig.resolve.resolve",
    "show": "dsconfig.resolve.effective_values",
    "json_schema": "dsconfig.schema",
    "Estimate": "dsconfig.memory",
    "NotModelledError": "dsconfig.memory",
}
"""Module of each public name except the section classes; `make generate` writes the stub from it."""


EXTRA_EXPORTS = ("BuildError", "OffloadOptimizer", "OffloadParam", "ThroughputTimer", "ZenFlow")
"""Names of `dsconfig.model` in the top namespace besides the sections at the root of a config.

The others, such as the parameter classes and the TypedDicts, are in `dsconfig.types`.
"""


def sections() -> tuple[str, ...]:
    """Return the names of the section classes that `dsconfig` exports."""
    from importlib import import_module

    keys = import_module("dsconfig.model.key_table")
    names = {keys.child_section(info.type) for info in keys.keys_of_section_class(keys.ROOT).values()} - {
        None
    }
    return (*sorted(names), *EXTRA_EXPORTS)


class _Package(type(sys)):  # type: ignore[misc]  # the type of modules, without importing `types`
    """Module type that keeps `dsconfig.check` a function even if `dsconfig.check.report` is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in EXPORTS and isinstance(value, type(sys))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__all__":
        value: object = __dir__()
    elif name in ("presets", "types"):
        value = import_module("dsconfig.api.presets" if name == "presets" else "dsconfig.types")
    elif name in EXPORTS:
        # A function and its module may share a name: `dsconfig.check` is the function, whatever was imported first.
        value = getattr(import_module(EXPORTS[name]), name)
    elif name in sections():
        value = getattr(import_module("dsconfig.model"), name)
    else:
        raise AttributeError(f"module 'dsconfig' has no attribute {name!r}{_types_hint(name)}")
    globals()[name] = value
    return value


def _types_hint(name: str) -> str:
    """Return a hint that names `dsconfig.types` if the name is defined there, else an empty string."""
    from importlib import import_module

    in_types = not name.startswith("_") and name in import_module("dsconfig.model").__all__
    return f"; did you mean `dsconfig.types.{name}`?" if in_types else ""


def __dir__() -> list[str]:
    return sorted({"__version__", "presets", "types", *EXPORTS, *sections()})
