"""Typed model of the DeepSpeed config over all releases, one module per topic.

Importing this package imports none of its modules: a class is imported when its name is first used. Type checkers read
the stub next to this file.
"""

_OTHER_NAMES = {
    "BuildError": "build_section",
    "BuildProblem": "build_section",
    "Key": "key",
    "OPTIMIZERS": "optimizer",
    "OptimizerTypeInfo": "optimizer",
    "SCHEDULERS": "scheduler",
    "SchedulerTypeInfo": "scheduler",
    "Section": "section",
}
"""Public names that are neither a section class nor a TypedDict, each with its module."""


def _modules_by_public_name() -> dict[str, str]:
    """Return the module that defines each public name, relative to this package."""
    from importlib import import_module

    modules = dict(_OTHER_NAMES)
    for module, names in import_module(f"{__name__}._generated.classes").MODULES.items():
        for name in names.split():
            modules |= {name: module, f"{name}Dict": "_generated.dicts"}
    return modules


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    # The import system asks for each submodule first; their names are lower case, unlike all public names.
    modules = _modules_by_public_name() if name[:1].isupper() else {}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{modules[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_modules_by_public_name())
