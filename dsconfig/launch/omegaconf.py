"""Find configs in OmegaConf and Hydra files: under any key, in config groups, and with interpolations.

Source: omegaconf grammar_parser.py and base.py:Container._maybe_resolve_interpolation; hydra
_internal/config_loader_impl.py and core/default_element.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dsconfig.core.json_types import Json, JsonObject, KeyPath
from dsconfig.document import Document, read_dict, read_file
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.job.detect_consumer import consumer_suggested_by_content
from dsconfig.launch.config_references import deepspeed_program_texts
from dsconfig.launch.framework_configs import build_lightning_config
from dsconfig.launch.hydra_defaults import ComposedConfig, compose_defaults
from dsconfig.launch.launch_file_formats import FORMATS, LaunchFileFormat
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.repository_files import (
    BudgetExceededError,
    PathLookup,
    ReadingBudget,
    resolve_written_path,
)
from dsconfig.launch.training_arguments import parse_exponents, read_launch_file_arguments
from dsconfig.launch.typical_config_keys import are_config_keys

OMEGACONF = LaunchFileFormat("OmegaConf", "deepspeed", (), (), "omegaconf base.py:Container")
_LIGHTNING = next(each for each in FORMATS if each.name == "Lightning")
_INTERPOLATION = re.compile(r"\$\{([^${}]*)\}")
_MAX_DEPTH = 10
"""Maximum length of a chain of interpolations, and maximum depth at which a config is searched."""
_MAX_VALUES = 50_000
"""Maximum number of resolved values: nested interpolations of lists multiply them."""
_CONFIG_NAMES = frozenset(("deepspeed", "ds_config", "deepspeed_config", "deepspeed_cfg", "ds_cfg", "ds"))


# Interpolations.


def resolve_interpolations(document: Document, root: Json = None, base: KeyPath = ()) -> Document:
    """Resolve numbers such as `5e8`, and interpolations, as OmegaConf does; unknown values stay unknown.

    `root` is the composed data that contains the document at the path `base`, or None for the document itself.
    """
    value = parse_exponents(document.value())
    if not isinstance(value, dict):
        return document
    if "${" not in document.text:
        return document.with_value(value)
    data = value if root is None else parse_exponents(root)
    try:
        return document.with_value(_resolve_value(value, data, base, 0, ReadingBudget(_MAX_VALUES)))
    except BudgetExceededError:
        return document


def _resolve_value(value: Json, root: Json, path: KeyPath, depth: int, budget: ReadingBudget) -> Any:
    budget.spend(1)
    if isinstance(value, dict):
        return {key: _resolve_value(each, root, (*path, key), depth, budget) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolve_value(each, root, (*path, at), depth, budget) for at, each in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    if match := _INTERPOLATION.fullmatch(value):
        return _look_up_interpolation(match[1], root, path, depth, budget)
    parts = [
        _look_up_interpolation(name, root, path, depth, budget) for name in _INTERPOLATION.findall(value)
    ]
    if "${" in _INTERPOLATION.sub("", value) or not all(
        isinstance(each, str | int | float) for each in parts
    ):
        return UNKNOWN
    replacements = iter(parts)
    return _INTERPOLATION.sub(lambda _: str(next(replacements)), value)


def _look_up_interpolation(name: str, root: Json, path: KeyPath, depth: int, budget: ReadingBudget) -> Any:
    """Return the value of `${name}`, whose name may start with dots to be relative; resolvers have unknown values."""
    if ":" in name or depth > _MAX_DEPTH:
        return UNKNOWN
    relative = name.lstrip(".")
    dots = len(name) - len(relative)
    start = path[: len(path) - dots] if dots else ()
    keys = (*start, *(part for part in re.split(r"[.\[\]]+", relative) if part))
    value: Any = root
    for key in keys:
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return UNKNOWN
    return _resolve_value(value, root, keys, depth + 1, budget)


# Configs and strategies below any key.


def find_omegaconf_job(launch: Document) -> LaunchedJob | None:
    """Return the job of a YAML file that contains a config or Lightning's DeepSpeed strategy under any key."""
    data = launch.value()
    if launch.format != "yaml" or not isinstance(data, dict) or are_config_keys(_collect_strings(data)):
        return None
    composed = compose_defaults(launch, data)
    values = resolved_values(composed.data)
    job_and_path = None if values is None else job_with_path(launch, composed, values)
    return None if job_and_path is None else job_and_path[0]


def resolved_values(data: Json) -> Any:
    """Return composed data with its interpolations resolved, or None if they exceed the limit."""
    data = parse_exponents(data)
    try:
        return _resolve_value(data, data, (), 0, ReadingBudget(_MAX_VALUES))
    except BudgetExceededError:
        return None


def job_with_path(
    launch: Document, composed: ComposedConfig, values: Any
) -> tuple[LaunchedJob, KeyPath] | None:
    """Return the job of the first mapping that is a config or a strategy, and its path in the composed data."""
    # A node that an interpolation repeats has no text at its path, but at the path that is meant.
    jobs = (
        (_job_of_mapping(launch, composed, values, path, node), path)
        for path, node in _nested_mappings(values)
    )
    return next(((job, path) for job, path in jobs if job is not None), None)


def _job_of_mapping(
    launch: Document, composed: ComposedConfig, values: Any, path: KeyPath, node: Mapping[str, Any]
) -> LaunchedJob | None:
    """Return the job of a mapping in the composed data, or None if it is neither a config nor a strategy."""
    if _is_deepspeed_strategy(node.get("_target_")):
        return _job_of_strategy(launch, composed, values, path, node)
    if _trainer_names_strategy(path, node):
        return _job_with_lightning_config(launch, composed, (*path, "strategy"), str(node["strategy"]), node)
    if path and (are_config_keys(_collect_strings(node)) or _is_small_config(path, node)):
        return _job_of_config(launch, composed, path)
    return None


def _collect_strings(data: Mapping[Any, Any]) -> list[str]:
    return [key for key in data if isinstance(key, str)]


def _nested_mappings(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """Yield every mapping inside a value with its path, outer mappings first."""
    if isinstance(value, Mapping) and len(path) < _MAX_DEPTH:
        yield path, value
        for key, each in value.items():
            yield from _nested_mappings(each, (*path, key))


def _is_deepspeed_strategy(target: object) -> bool:
    return isinstance(target, str) and target.endswith("DeepSpeedStrategy")


def _trainer_names_strategy(path: KeyPath, node: Mapping[str, Any]) -> bool:
    """Return whether a mapping configures Lightning's Trainer with a DeepSpeed strategy."""
    strategy, target = node.get("strategy"), node.get("_target_")
    is_trainer = path[-1:] == ("trainer",) or (isinstance(target, str) and target.endswith(".Trainer"))
    return isinstance(strategy, str) and strategy.startswith("deepspeed") and is_trainer


def _is_small_config(path: KeyPath, node: Mapping[str, Any]) -> bool:
    """Return whether a mapping under a key typical of configs has two config keys or more."""
    return path[-1] in _CONFIG_NAMES and are_config_keys(_collect_strings(node), 2)


def _source_of_path(
    launch: Document, composed: ComposedConfig, path: KeyPath
) -> tuple[Document, KeyPath] | None:
    """Return the file that a path of the composed data comes from, and the path in that file; None if unknown."""
    if launch.has_path(path):
        return launch, path
    for base, document in reversed(composed.files):
        if path[: len(base)] == base and (path == base or document.has_path(path[len(base) :])):
            return document, path[len(base) :]
    return None


def _job_of_config(launch: Document, composed: ComposedConfig, path: KeyPath) -> LaunchedJob | None:
    """Return the job of a config at a path of the composed data."""
    source = _source_of_path(launch, composed, path)
    if source is None:
        return None
    host, inner = source
    key = ".".join(map(str, path))
    document = host if not inner else host.subdocument(inner)
    if document is None:
        return None
    if "${" in host.text or _may_be_read_by_omegaconf(host):
        document = resolve_interpolations(document, composed.data, path)
    job_format = OMEGACONF._replace(reader=consumer_suggested_by_content(document.value()).name)
    job = LaunchedJob(job_format, host, key, ".".join(map(str, inner)), document, None, None, None)
    if host is launch:
        return job._replace(embedded_path=inner)
    if not inner:  # the whole file is the config
        return job._replace(
            launch=launch, reference=host.name, key="defaults", lookup=PathLookup(host.name, (os.curdir,))
        )
    return job._replace(embedded_path=inner, started_by=launch.name)


def _may_be_read_by_omegaconf(host: Document) -> bool:
    """Return whether OmegaConf may load a file, so that `5e8` is a number; PyYAML reads it as a string.

    False only if programs of the repository load YAML, and all of them use another library.
    """
    if re.search(_PLAIN_EXPONENT, host.text) is None or host.name.startswith("<"):
        return True
    programs = tuple(deepspeed_program_texts(host.name))
    return not any(re.search(_LOADS_YAML, each) for each in programs) or any(
        re.search(_LOADS_WITH_OMEGACONF, each) for each in programs
    )


_PLAIN_EXPONENT = r":\s*[-+]?\d+[eE]\d"
_LOADS_YAML = rb"\b(?:import|from) (?:yaml|ruamel)\b"
_LOADS_WITH_OMEGACONF = rb"\b(?:[Oo]mega[Cc]onf|hydra)\b"


def _job_of_strategy(
    launch: Document, composed: ComposedConfig, values: Any, path: KeyPath, node: Mapping[str, Any]
) -> LaunchedJob | None:
    """Return the job of a mapping that configures `DeepSpeedStrategy`."""
    config = node.get("config")
    if isinstance(config, Mapping):
        job = _job_of_config(launch, composed, (*path, "config"))
    elif isinstance(config, str):
        lookup = resolve_written_path(config, launch.name)
        document = None if lookup.path is None else read_file(lookup.path)
        key = ".".join(map(str, (*path, "config")))
        job = LaunchedJob(OMEGACONF, launch, config, key, document, lookup, None, None)
    else:
        return _job_with_lightning_config(
            launch, composed, path, dict(node), _trainer_arguments(values, path)
        )
    trainer = _trainer_arguments(values, path)
    return job and _add_trainer_arguments(
        job._replace(format=OMEGACONF._replace(reader="lightning")), trainer, node
    )


def _trainer_arguments(values: Any, path: KeyPath) -> Mapping[str, Any]:
    """Return the arguments of the Trainer: the mapping that contains `strategy`, or else the top-level `trainer`."""
    if path[-1:] == ("strategy",):
        parent = values
        for key in path[:-1]:
            parent = parent[key]
        if len(path) > 1 or str(parent.get("_target_")).endswith(".Trainer"):
            return parent if isinstance(parent, Mapping) else {}
    trainer = values.get("trainer")
    return trainer if isinstance(trainer, Mapping) else {}


def _add_trainer_arguments(
    job: LaunchedJob, trainer: Mapping[str, Any], strategy: Mapping[str, Any]
) -> LaunchedJob:
    """Return the job with the batch arguments and world size set by its Trainer."""
    if not trainer:
        return job
    known = {key: value for key, value in trainer.items() if value is not UNKNOWN}
    sizes = [trainer.get("devices"), trainer.get("num_nodes", 1)]
    ranks = sizes[0] * sizes[1] if all(type(each) is int and each > 0 for each in sizes) else None
    data: JsonObject = {"trainer": {**known, "strategy": {"class_path": "", "init_args": dict(strategy)}}}
    arguments = read_launch_file_arguments(_LIGHTNING, data)
    if trainer.get("accumulate_grad_batches") is UNKNOWN:
        sets = {key: value for key, value in arguments.sets.items() if key != "gradient_accumulation_steps"}
        arguments = arguments._replace(sets=sets)
    return job._replace(training_arguments=arguments, world_size=ranks)


def _job_with_lightning_config(
    launch: Document,
    composed: ComposedConfig,
    path: KeyPath,
    strategy: str | JsonObject,
    trainer: Mapping[str, Any],
) -> LaunchedJob | None:
    """Return the job of a strategy without a config, with the config that Lightning builds from its arguments."""
    given: Json = strategy if isinstance(strategy, str) else {"class_path": "", "init_args": strategy}
    config = build_lightning_config({"trainer": {"strategy": given}})
    if config is None:
        return None
    source = _source_of_path(launch, composed, path)
    if source is None:
        return None
    host, inner = source
    key = ".".join(map(str, inner)) or "_target_"
    job = LaunchedJob(_LIGHTNING, host, key, key, read_dict(config, host.name), None, None, None)
    job = job if host is launch else job._replace(started_by=launch.name)
    return _add_trainer_arguments(job, trainer, strategy if isinstance(strategy, dict) else {})
