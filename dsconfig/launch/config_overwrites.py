"""Find the keys that programs of the repository write to a config before DeepSpeed reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dsconfig.core.file_access import relative_path, repository_root
from dsconfig.core.json_types import Json
from dsconfig.job.detect_consumer import ConfigOverwrite
from dsconfig.launch.config_references import may_name_config
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.launch.repository_files import (
    deepspeed_texts,
    repository_cache_key,
    resolve_written_path,
    time_cache_key,
)

# A program often sets values that only the run knows between reading the file and `deepspeed.initialize`: the
# micro batch of an argument, or a length that depends on the data. DeepSpeed then gets a complete config
# although the file is incomplete.

_CONFIG_CALLS = (
    rb"deepspeed\.init|\bDeepSpeed(?:Plugin|Strategy|Config)\b|\bHf\w*DeepSpeedConfig\b"
    rb"|\bimport\s[^\n]*\binitialize\b|\bdeepspeed\s*=|\bdeepspeed_plugin\b"
)
_MAX_PATH = 300
"""Maximum length of a directory path before a file name, in characters."""
_MAX_PROGRAMS = 20
"""Maximum number of programs that are parsed."""
_PROGRAM_NAME = rb"[\w./${}-]+\.py\b"
ANY = "*"
_SECTIONS_WITH_CONFIG = ("deepspeed", "deepspeed_config", "ds_config", "ds")
"""Keys under which larger configs contain a DeepSpeed config."""


def overwrite_of_key(name: str, key: str, config: Json) -> ConfigOverwrite | None:
    """Return the write by which a program replaces a key of the config, or None if no program does.

    Args:
        name: path of the config.
        key: dotted path of the key.
        config: content of the file.
    """
    for each in config_overwrites_by_programs(name):
        if each.key == ANY or f"{key}.".startswith(f"{each.key}."):
            if not each.absent_only or _value_at(config, key) in (None, "auto"):
                return each
        elif each.key.endswith(f".{ANY}") and key.startswith(each.key.removesuffix(ANY)):
            return each
    return None


def _value_at(config: Json, key: str) -> Json:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config if isinstance(config, str | int | float) else None if config is None else "object"


def config_overwrites_by_programs(name: str) -> tuple[ConfigOverwrite, ...]:
    """Return the keys that programs write to a config after reading it.

    A key `*`, or a key that ends with `*`, stands for keys that are known only at run time.
    """
    # `run.sh: --deepspeed` is the name of a config that stands in another file, or in none.
    if name.startswith("<") or not name or ": " in name:
        return ()
    path = os.path.abspath(name)
    return _cached_config_overwrites(path, repository_cache_key(path))


@lru_cache(maxsize=16)
def _cached_config_overwrites(path: str, _: tuple[int, ...]) -> tuple[ConfigOverwrite, ...]:
    folder = os.path.dirname(path)
    top = repository_root(folder)
    files = deepspeed_texts(top or folder, path, deep=top is not None)
    found_writes = (
        each
        for program in _programs_passing_config(files)
        if _may_read_config(program, path, files)
        for each in _cached_writes_of_program(program, time_cache_key())
    )
    return tuple({(each.key, each.absent_only): each for each in reversed(list(found_writes))}.values())[::-1]


@lru_cache(maxsize=4)
def _programs_passing_config(files: tuple[tuple[str, bytes], ...]) -> tuple[str, ...]:
    """Return the paths of those programs in a repository that pass a config to DeepSpeed."""
    candidates = [each for each in files if each[0].endswith(".py") and re.search(_CONFIG_CALLS, each[1])][
        :_MAX_PROGRAMS
    ]
    if not candidates:
        return ()
    from dsconfig.launch.config_loaded_by_program import passes_config_to_deepspeed
    from dsconfig.launch.python.syntax_trees import parse_module

    parsed_modules = (parse_module(program, data) for program, data in candidates)
    return tuple(
        module.path for module in parsed_modules if module is not None and passes_config_to_deepspeed(module)
    )


@lru_cache(maxsize=_MAX_PROGRAMS)
def _cached_writes_of_program(program: str, _: int) -> tuple[ConfigOverwrite, ...]:
    try:
        return tuple(_config_writes_of_program(program))
    except RecursionError:  # nesting deeper than the interpreter's stack
        return ()


def _config_writes_of_program(program: str) -> Iterator[ConfigOverwrite]:
    from dsconfig.launch.config_changes_after_load import changes_of_loaded_configs
    from dsconfig.launch.config_loaded_by_program import ANY_KEY, config_key_writes
    from dsconfig.launch.python.syntax_trees import program_modules

    for module in program_modules(program, program):
        for write in (*config_key_writes(module), *changes_of_loaded_configs(module, program)):
            parts = write.path[1:] if write.path[0] in _SECTIONS_WITH_CONFIG else write.path
            key = ".".join(ANY if part == ANY_KEY else part for part in parts)
            if key:
                place = f"{relative_path(module.path)}:{write.line}"
                yield ConfigOverwrite(key, place, write.absent_only)


def _may_read_config(program: str, path: str, files: tuple[tuple[str, bytes], ...]) -> bool:
    """Return whether a program may read the config: it is in a folder above it, or some file mentions both."""
    if path.startswith(os.path.join(os.path.dirname(program), "")):
        return True
    naming = [(text_path, data) for text_path, data in files if _mentions_file_name(data, path)]
    if any(text_path == program or _mentions_file_name(data, program) for text_path, data in naming):
        return True
    # The program may also be a module of the one that a script starts with the config.
    return any(
        program in _cached_modules_started_by(text_path, data, time_cache_key())
        for text_path, data in naming
        if is_shell_script_name(text_path)
    )


@lru_cache(maxsize=64)
def _cached_modules_started_by(script: str, data: bytes, _: int) -> frozenset[str]:
    """Return the paths of the Python programs that a script names, and of the modules that they import."""
    from dsconfig.launch.python.syntax_trees import program_modules

    names = dict.fromkeys(os.fsdecode(match[0]) for match in re.finditer(_PROGRAM_NAME, data))
    paths = (resolve_written_path(name, script).path for name in list(names)[:_MAX_PROGRAMS])
    return frozenset(
        os.path.abspath(module.path)
        for path in paths
        if path is not None
        for module in program_modules(path, script)
    )


def _mentions_file_name(data: bytes, path: str) -> bool:
    base = os.path.basename(path)
    stem = os.fsencode(base.removesuffix(".py"))
    if base.endswith(".py") and re.search(rb"-m\s+(?:[\w.]+\.)?%b(?![\w.])" % re.escape(stem), data):
        return True
    if os.fsencode(base) not in data:
        return False
    text = data.decode("latin-1")
    for match in re.finditer(rf"(?<![\w-]){re.escape(base)}(?![\w.-])", text):
        # Searched backwards: a forward search would restart at each character of a long word.
        before = text[max(0, match.start() - _MAX_PATH) : match.start()][::-1]
        folders = re.match(r"[\w./~${}-]*", before)
        if folders and may_name_config(folders[0][::-1] + base, path):
            return True
    return False
