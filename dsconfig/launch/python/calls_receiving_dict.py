"""Classify the calls that receive a dict: as a DeepSpeed config, or to read it, overwrite it or pass it on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dsconfig.job.consumers import INFERENCE
from dsconfig.launch.python.name_bindings import ANY, Function, ModuleNames, NameBinding, last_dotted_name
from dsconfig.launch.python.syntax_trees import ParsedModule, ProgramRepository

# Calls that receive a DeepSpeed config, by the package of the called function.

UNPACKED = "**"
"""Key of an argument that is a dict of keyword arguments: `f(**config)`."""
_CONFIG_CALLS: dict[str, tuple[str, tuple[str, ...], int | None, tuple[str, ...]]] = {
    "initialize": ("deepspeed", ("config", "config_params"), None, ("deepspeed",)),
    "init_inference": (INFERENCE, ("config", UNPACKED), 1, ("deepspeed",)),
    "DeepSpeedInferenceConfig": (INFERENCE, (UNPACKED,), None, ("deepspeed",)),
    "Init": ("deepspeed", ("config_dict_or_path", "config"), None, ("deepspeed",)),
    "DeepSpeedConfig": ("deepspeed", ("config",), 0, ("deepspeed",)),
    "HfDeepSpeedConfig": ("transformers", ("config_file_or_dict",), 0, ("transformers", "accelerate")),
    "HfTrainerDeepSpeedConfig": ("transformers", ("config_file_or_dict",), 0, ("transformers",)),
    "DeepSpeedPlugin": ("accelerate", ("hf_ds_config",), 0, ("accelerate",)),
    "DeepSpeedStrategy": (
        "lightning",
        ("config",),
        None,
        ("lightning", "pytorch_lightning", "lightning_fabric"),
    ),
    "RayDeepSpeedStrategy": ("lightning", ("config",), None, ("ray",)),
}
"""Calls that accept a config: the consumer, the keyword and position of the argument, and the defining packages."""
_FABRIC = "fabric"
"""Consumer of a Lightning strategy without the Trainer; dsconfig does not know which keys this consumer fills in."""
_COMPOSER = "composer"
"""Consumer of Composer's Trainer, which sets the batch and the precision: composer distributed/deepspeed.py."""
_AMBIGUOUS = frozenset(("initialize", "init_inference", "Init", "Trainer"))
"""Functions whose names many libraries use."""
_ARGUMENTS_CLASS = re.compile(r"\w*(?:Arguments|Args|Config)")
"""Matches `TrainingArguments` and its subclasses, such as TRL's configs; they take the config as `deepspeed`."""
_TRAINER_ARGUMENT = "deepspeed"
_COMPOSER_ARGUMENTS = ("deepspeed_config", "parallelism_config.deepspeed")
"""Arguments of Composer's Trainer that take the config, the second one inside a dict."""


def consumer_of_argument(
    repository: ProgramRepository, module: ParsedModule, call: ast.Call, key: int | str
) -> str | None:
    """Return the consumer of a call's argument if the argument is a config, else None."""
    name = last_dotted_name(call.func)
    if name in _CONFIG_CALLS:
        consumer, keywords, position, packages = _CONFIG_CALLS[name]
        if key in keywords if isinstance(key, str) else key == position:
            if not _is_from_packages(repository, module, call.func, packages):
                return None
            is_fabric = consumer == "lightning" and _uses_fabric(repository, module, call)
            return _FABRIC if is_fabric else consumer
        return None
    if key in _COMPOSER_ARGUMENTS and name == "Trainer":
        return _COMPOSER if _is_from_packages(repository, module, call.func, (_COMPOSER,)) else None
    if key == _TRAINER_ARGUMENT and _ARGUMENTS_CLASS.fullmatch(name):
        return "transformers"
    return None


def consumer_of_attribute(target: ast.Attribute) -> str | None:
    """Return the consumer that an assignment `training_args.deepspeed = value` implies, or None."""
    is_arguments = target.attr == _TRAINER_ARGUMENT and "arg" in last_dotted_name(target.value)
    return "transformers" if is_arguments else None


def _uses_fabric(repository: ProgramRepository, module: ParsedModule, strategy: ast.Call) -> bool:
    """Return whether a strategy is used with Lightning Fabric (or LightningLite) instead of the Trainer.

    Only the Trainer rejects or fills in batch keys: the method below returns early if there is no module.
    Source: lightning pytorch/strategies/deepspeed.py:DeepSpeedStrategy._format_batch_size_and_grad_accum_config.
    """
    names = module.names
    keyword = names.parents.get(strategy)
    call = names.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    definition = repository.find_definition(module, call.func) if isinstance(call, ast.Call) else None
    if definition is not None and isinstance(definition[1], ast.ClassDef):
        return not any(last_dotted_name(base).endswith("Trainer") for base in definition[1].bases)
    return any((names.tree, name) in names.bindings for name in ("Fabric", "LightningLite")) or any(
        name in names.attributes for name in ("Fabric", "LightningLite")
    )


def _is_from_packages(
    repository: ProgramRepository, module: ParsedModule, function: ast.expr, packages: tuple[str, ...]
) -> bool:
    """Return whether a call resolves to a function of these packages, rather than of the program or another library."""
    root = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return "deepspeed" in ast.unparse(function).lower()
    # Two libraries have functions called `initialize`, but hardly two a class called `DeepSpeedPlugin`.
    is_ambiguous = function is root and root.id in _AMBIGUOUS
    bindings = module.names.bindings_of_name(root)
    for each in bindings:
        if each.kind != "import":
            continue
        if _imported_package(module.names, each).partition(".")[0] in (*packages, "deepspeed"):
            return True
        # A module may pass a class on: `from llm.utils import DeepSpeedPlugin`.
        if function is root and not is_ambiguous and repository.find_definition(module, root) is None:
            return True
    if function is not root:
        return root.id in packages or "deepspeed" in ast.unparse(function).lower()
    if bindings:
        return False
    stars = module.names.bindings.get((module.names.tree, "*"), ())
    return not is_ambiguous or any(
        _imported_package(module.names, each).partition(".")[0] in packages for each in stars
    )


def _imported_package(names: ModuleNames, binding: NameBinding) -> str:
    """Return the package that an import statement names; empty for a relative import."""
    statement, alias = names.parents.get(binding.node), binding.node
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else statement.module or ""
    return alias.name if isinstance(alias, ast.alias) else ""


# Calls that read, copy, overwrite or pass a dict.

BUILTIN_READS = frozenset((
    "print", "len", "str", "repr", "bool", "isinstance", "issubclass", "type", "id", "hash", "any", "all", "sum", "min",
    "max", "format", "hasattr", "callable", "set", "frozenset", "ascii", "dir",
))  # fmt: skip
BUILTIN_COPIES = frozenset(("list", "tuple", "sorted", "reversed", "iter"))
DICT_COPIES = frozenset(("dict", "deepcopy", "OrderedDict", "copy"))
_LOG_METHODS = frozenset(
    ("debug", "info", "warning", "warn", "error", "exception", "critical", "print", "pprint")
)
_READ_MODULES = frozenset((
    "json", "yaml", "pprint", "logging", "logger", "log", "wandb", "torch", "pickle", "math", "os", "hjson", "mlflow",
    "tensorboard", "writer", "console", "st", "click", "sys", "warnings", "rich", "toml", "ujson", "orjson",
))  # fmt: skip
"""Modules and objects whose functions read a dict without keeping any part of it as a config."""
_READ_FUNCTIONS = frozenset((
    "pprint", "pformat", "log_dist", "print_rank_0", "print0", "rank0_print", "print_rank0", "rank_zero_info", "dumps",
    "deepspeed_config_to_str",
))  # fmt: skip


def only_reads_dict(function: ast.expr) -> bool:
    """Return whether a function outside the repository only reads a dict, as functions for printing or saving do."""
    name = last_dotted_name(function)
    if isinstance(function, ast.Name):
        return name in _READ_FUNCTIONS
    base = function
    while isinstance(base, ast.Attribute):
        base = base.value
    root = base.id if isinstance(base, ast.Name) else ""
    return name in (*_LOG_METHODS, *_READ_FUNCTIONS) or root in _READ_MODULES


def keys_of_merged_mapping(other: ast.expr) -> Iterator[str]:
    """Yield the keys that a merge with another mapping overwrites; `*` if not all of them are known."""
    if isinstance(other, ast.Dict):
        for key, value in zip(other.keys, other.values, strict=True):
            if key is None:
                yield from keys_of_merged_mapping(value)
            else:
                yield str(subscript_key(key))
    elif isinstance(other, ast.Call) and last_dotted_name(other.func) == "dict" and not other.args:
        for each in other.keywords:
            yield ANY if each.arg is None else each.arg
    elif isinstance(other, ast.IfExp):
        yield from keys_of_merged_mapping(other.body)
        yield from keys_of_merged_mapping(other.orelse)
    else:
        yield ANY


def parameter_for_argument(function: Function, key: int | str, *, is_bound: bool) -> str | None:
    """Return the parameter that receives an argument, or None if it goes to `*args` or `**kwargs`."""
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if isinstance(key, int):
        index = key + is_bound
        return positional[index] if index < len(positional) else None
    keywords = (*positional[len(arguments.posonlyargs) :], *(each.arg for each in arguments.kwonlyargs))
    return key if key in keywords else None


def subscript_key(node: ast.expr | None) -> int | str:
    """Return the key of a subscript, or `*` if the key is not a literal."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | int)
        and not isinstance(node.value, bool)
    ):
        return node.value
    return ANY
