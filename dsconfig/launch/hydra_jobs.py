"""Jobs of commands whose program composes its config with Hydra: `python train.py ds_config=zero3 trainer.devices=8`.

Source: hydra main.py:main, core/override_parser/overrides_parser.py, _internal/config_loader_impl.py and
core/default_element.py.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import read_dict, read_file, read_text
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.hydra_defaults import (
    DefaultsEntry,
    GroupChoices,
    compose_defaults,
    is_group_folder,
    parse_defaults_entry,
)
from dsconfig.launch.launched_job import HYDRA
from dsconfig.launch.omegaconf import job_with_path, resolved_values
from dsconfig.launch.python.constant_expressions import ConstantEvaluator
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    ProgramRepository,
    argument_at,
    parse_module,
    read_program_bytes,
)
from dsconfig.launch.repository_files import resolve_written_path

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.launch.launch_commands import LaunchCommand
    from dsconfig.launch.launch_file_formats import LaunchFileFormat
    from dsconfig.launch.launched_job import LaunchedJob

_MAX_JOBS = 20
"""Maximum number of jobs of a multirun that are followed."""


class HydraOverride(NamedTuple):
    """A Hydra override in a command: `key=value`, `+key=value`, `++key=value` or `~key`."""

    prefix: str
    key: str
    value: str
    """Text of the value; empty for a deletion."""


def jobs_composed_by_hydra(
    launch_format: LaunchFileFormat, launch: Document, command: LaunchCommand
) -> Iterator[LaunchedJob]:
    """Yield a job for each config that a command's program composes with Hydra; a multirun composes several.

    Raises:
        OSError: a config file cannot be read.
    """
    program = resolve_written_path(command.program_file, launch.name, command.folder).path
    path = None if program is None else _primary_config(os.path.abspath(program), command)
    if path is None:
        return
    primary = read_file(path)
    data = primary.value()
    if not isinstance(data, dict):
        return
    overrides = [each for word in command.overrides if (each := _parse_override(word)) is not None]
    is_multirun = "multirun" in command.arguments or "-m" in command.overrides
    for chosen in islice(_expand_sweeps(overrides) if is_multirun else [overrides], _MAX_JOBS):
        if (job := _job_of_overrides(launch_format, launch, command, primary, data, chosen)) is not None:
            yield job


def _primary_config(program: str, command: LaunchCommand) -> str | None:
    """Return the path of the primary config of a program with `@hydra.main`, or None if unknown."""
    try:
        source = read_program_bytes(program)
    except OSError:
        return None
    module = parse_module(program, source) if b"hydra" in source else None
    if module is None:
        return None
    calls = [each for each in module.names.calls if _is_hydra_main(each)]
    if len(calls) != 1 or "config_dir" in command.arguments:
        return None
    constants = ConstantEvaluator(module, ProgramRepository(program))
    names: list[Json] = []
    for position, keyword in enumerate(("config_path", "config_name")):
        value = argument_at(calls[0], position, keyword)
        in_code = None if value is None else constants.evaluate_constant(value)
        names.append(command.arguments.get(keyword, in_code))
    folder, name = names
    if not isinstance(name, str) or not isinstance(folder, str | None):
        return None
    path = os.path.join(os.path.dirname(program), folder or "", name.removesuffix(".yaml") + ".yaml")
    return resolve_written_path(os.path.normpath(path), program).path


def _is_hydra_main(call: ast.Call) -> bool:
    """Return whether a call is the decorator `hydra.main(...)`."""
    is_main = last_dotted_name(call.func) == "main"
    return is_main and isinstance(call.func, ast.Attribute) and last_dotted_name(call.func.value) == "hydra"


def _parse_override(word: str) -> HydraOverride | None:
    match = re.fullmatch(r"(\+{0,2}|~)([A-Za-z_][\w./@-]*)(?:=(.*))?", word, re.DOTALL)
    if match is None or (match[3] is None and match[1] != "~"):
        return None
    return HydraOverride(match[1], match[2], match[3] or "")


def _expand_sweeps(overrides: list[HydraOverride]) -> Iterator[list[HydraOverride]]:
    """Yield the overrides of each job of a multirun; a value with commas is a list of values to sweep over."""
    choices = [
        [each._replace(value=value) for value in each.value.split(",")]
        if "," in each.value and not re.search(r"[\[({\"']", each.value)
        else [each]
        for each in overrides
    ]
    yield from map(list, product(*choices))


def _job_of_overrides(
    launch_format: LaunchFileFormat,
    launch: Document,
    command: LaunchCommand,
    primary: Document,
    data: JsonObject,
    overrides: list[HydraOverride],
) -> LaunchedJob | None:
    choices, changes = _split_overrides(overrides, os.path.dirname(primary.name))
    composed = compose_defaults(primary, data, choices)
    if not composed.is_complete:
        return None
    values = dict(composed.data)
    for each in changes:
        _set_value(values, each)
    composed = composed._replace(data=values)
    resolved = resolved_values(values)
    job_and_path = None if resolved is None else job_with_path(primary, composed, resolved)
    if job_and_path is None:
        return None
    job, path = job_and_path
    config = _config_at(resolved, path, job)
    if config is None:
        return None
    reference = f"{relative_path(primary.name)}: {'.'.join(map(str, path))}"
    job_format = launch_format._replace(name="Hydra", reader=job.format.reader, builds=HYDRA)
    started = command.job_without_config(job_format, launch, job_format._replace(arguments_key=""))
    return started._replace(
        reference=reference,
        key=command.program_file,
        document=read_dict(config, f"{launch.name}: {reference}"),
        training_arguments=job.training_arguments,
        world_size=job.world_size or (None if job.format.reader == "lightning" else command.world_size),
    )


def _config_at(values: Any, path: KeyPath, job: LaunchedJob) -> JsonObject | None:
    """Return the config at a path of the values composed by Hydra, or the one that Lightning builds or loads."""
    node = values
    for key in path:
        node = node[key]
    if job.format.reader == "lightning":
        node = node.get("config") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping):
        node = None if job.document is None else job.document.value()
    return dict(node) if isinstance(node, Mapping) else None


def _split_overrides(overrides: list[HydraOverride], folder: str) -> tuple[GroupChoices, list[HydraOverride]]:
    """Split overrides into those that choose group files below `folder`, and those that change values."""
    replaced: dict[str, tuple[str, ...]] = {}
    added: list[DefaultsEntry] = []
    deleted: set[str] = set()
    changes: list[HydraOverride] = []
    for each in overrides:
        if each.key.partition("@")[0].startswith("hydra/"):
            continue
        value = None if each.prefix == "~" else _parse_value(each.value)
        is_choice = value is None or isinstance(value, str | list)
        if not is_choice or not is_group_folder(folder, each.key.partition("@")[0]):
            changes.append(each)
        elif each.prefix == "~":
            deleted.add(each.key)
        elif (entry := parse_defaults_entry({each.key: value})) is None:
            changes.append(each)
        elif each.prefix == "+":
            added.append(entry)
        else:
            replaced[each.key] = entry.choices
    return GroupChoices(replaced, tuple(added), frozenset(deleted)), changes


def _set_value(values: JsonObject, override: HydraOverride) -> None:
    """Set or delete the value of a key in composed data."""
    *folders, last = override.key.split(".")
    node: Any = values
    for key in folders:
        inner = node.get(key)
        if not isinstance(inner, dict):
            if override.prefix == "~":
                return
            inner = {}
        node[key] = node = dict(inner)
    if override.prefix == "~":
        node.pop(last, None)
    else:
        node[last] = _parse_value(override.value)


def _parse_value(text: str) -> Any:
    """Parse the value of an override; return `UNKNOWN` if it contains a shell variable or a Hydra function."""
    if re.search(r"\$(?!\{[\w.]+\})|`|^\w+\(", text):
        return UNKNOWN
    from dsconfig.launch.training_arguments import parse_exponents

    value = read_text(f"value: {text}\n", "<override>", "yaml").value()
    return parse_exponents(value)["value"] if isinstance(value, dict) and "value" in value else text
