"""Find the programs that read a file with training arguments (`train.py recipe.yaml`), and their defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dsconfig.core.file_access import may_read_discovered_file, read_contents, repository_root
from dsconfig.core.json_types import Json, value_at_dotted_path
from dsconfig.job.detect_consumer import LaunchArguments
from dsconfig.launch.launch_file_formats import LaunchFileFormat
from dsconfig.launch.repository_files import resolve_written_path, time_cache_key
from dsconfig.launch.training_arguments import read_launch_file_arguments
from dsconfig.launch.training_arguments_in_code import (
    ArgumentsInCode,
    common_training_arguments,
    training_arguments_of_command,
)

_MAX_BYTES, _MAX_FILES, _MAX_FOLDERS = 64 * 1024, 100, 6
_PARSES = re.compile(rb"\b(?:Hf|H4|Trl)\w*Parser\b")


def read_arguments_with_program_defaults(
    launch_format: LaunchFileFormat, data: Mapping[str, Json], launch: str
) -> LaunchArguments:
    """Read the arguments of a launch file, including the defaults of the program that reads it."""
    arguments = (
        None
        if launch.startswith("<")
        else _arguments_of_nearby_programs(os.path.abspath(launch), time_cache_key())
    )
    if arguments is None:
        return read_launch_file_arguments(launch_format, data)
    defaults = {**arguments.defaults, **dict.fromkeys(arguments.changed)}
    section = value_at_dotted_path(data, launch_format.arguments_key) if launch_format.arguments_key else data
    own_arguments = {
        name: value
        for name, value in (section.items() if isinstance(section, Mapping) else ())
        if name not in arguments.changed
    }
    if "fp16" in own_arguments and "bf16" not in own_arguments and defaults.get("bf16") is True:
        defaults["bf16"] = not own_arguments["fp16"]  # TRL: on unless `fp16` is, see `_add_trl_bf16_default`
    argument_format = launch_format._replace(defaults=defaults, arguments_key="")
    return read_launch_file_arguments(argument_format, own_arguments)._replace(note=arguments.origin_note)


@lru_cache(maxsize=64)
def _arguments_of_nearby_programs(launch: str, _: int) -> ArgumentsInCode | None:
    """Return the training arguments of the programs that may read a launch file, or None if there are none."""
    texts = list(_nearby_scripts_and_programs(launch))
    base = re.escape(os.fsencode(os.path.basename(launch)))
    # Bounded repeats, so that a text full of names takes no more than linear time.
    command = re.compile(rb"(?<![\w./-])([\w./-]{1,300}\.py)\b(?:[^\n;&|]|\\\n){0,1000}?[\s/=\"']%b\b" % base)
    named_programs = {
        place.path
        for path, data in texts
        for match in command.finditer(data)
        if (place := resolve_written_path(match[1].decode(), path)).path is not None
    }
    parsing_programs = {path for path, data in texts if path.endswith(".py") and _PARSES.search(data)}
    arguments = [
        program_arguments
        for program in sorted(path for path in named_programs or parsing_programs if path is not None)
        if (program_arguments := training_arguments_of_command(program, launch, {})) is not None
        and not program_arguments.is_code
    ]
    return common_training_arguments(arguments) if arguments else None


def _nearby_scripts_and_programs(launch: str) -> Iterator[tuple[str, bytes]]:
    """Yield the scripts and programs in a launch file's directory and its parents within the repository."""
    folder = os.path.dirname(launch)
    top = repository_root(folder)
    for _ in range(_MAX_FOLDERS):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            names = []
        names = [name for name in names if name.endswith((".py", ".sh", ".md")) or name == "Makefile"]
        for path in (os.path.join(folder, name) for name in names[:_MAX_FILES]):
            if may_read_discovered_file(path):
                try:
                    yield path, read_contents(path, _MAX_BYTES)
                except OSError:
                    continue
        if top is None or folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)
