"""Read settings from `dsconfig.toml`, or from `[tool.dsconfig]` in `pyproject.toml`.

The nearest file at or above a config's directory applies, up to the repository's root (the directory with
`.git`); if there is none, that of the working directory applies. In one directory `dsconfig.toml` wins over
`pyproject.toml`, which is skipped if it lacks the table. Patterns are relative to the settings file's
directory. `[[overrides]]` changes settings for the `files` that it lists. Settings that another user could
have planted are not used, and a message explains this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping

from dsconfig.core.file_access import OUTSIDE, may_read_discovered_file, read_contents, relative_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.consumers.consumer_versions import EXPECTED_CONSUMER, is_consumer_spec

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TypeAlias

    from dsconfig.core.json_types import JsonObject

FILE, PROJECT, OVERRIDES = "dsconfig.toml", "pyproject.toml", "overrides"
_Setting: TypeAlias = "tuple[Callable[[object], object], str]"
FAIL_ON = ("error", "warning", "info", "never")
MIN_SEVERITY = FAIL_ON[:-1]
HOST_KINDS = ("scripts", "containers", "workflows", "manifests", "python", "notebooks")
"""Kinds of files that start jobs or contain configs, as the setting `skip` names them to leave them out."""
_MAX_FILE = 1 << 20
"""Size limit of a settings file in bytes."""
_MAX_DOTS = 500
"""Maximal number of dots in one line, because the TOML parser takes quadratic time for dotted keys."""
_MAX_FOLDERS = 256
"""Maximal number of directories searched upwards from a config."""


class SettingsFileError(ValueError):
    """The settings are invalid; the one-line message names the file and the key."""


class SettingsFile(NamedTuple):
    """The content of a settings file; a setting that is not set is None."""

    path: str | None = None
    target: str | None = None
    world_size: int | None = None
    consumer: str | None = None
    model: str | None = None
    host_memory: int | None = None
    gpus_per_node: int | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    fixable: tuple[str, ...] | None = None
    unfixable: tuple[str, ...] = ()
    fail_on: str | None = None
    min_severity: str | None = None
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    overrides: tuple[SettingsFile, ...] = ()
    """Settings that apply to some files only; the last override that matches a file wins."""
    files: tuple[str, ...] = ()
    """Patterns of the files that an override applies to."""
    unused: tuple[str, ...] = ()
    """Messages about settings that are not used, with the reason."""
    base: str | None = None
    """Directory that patterns are relative to, if it is not the file's own."""

    @property
    def shown_path(self) -> str:
        """The path of the settings file as shown in messages."""
        return relative_path(self.path) if self.path else "no settings file"

    @property
    def pattern_root(self) -> str:
        """The directory to which patterns are relative."""
        return self.base or (os.path.dirname(self.path) if self.path else os.getcwd())


def find_settings(start: str | None = None) -> SettingsFile:
    """Return the settings that apply to the folder `start`, by default the working directory.

    Raises:
        SettingsFileError: the nearest settings file cannot be read or parsed.
    """
    folder = os.path.abspath(start or os.curdir)
    while not os.path.isdir(folder):  # an editor may have a file open whose directory does not exist yet
        folder = os.path.dirname(folder)
    folder_stat = os.stat(folder)
    unused: list[str] = []
    for _ in range(_MAX_FOLDERS):
        for name in (FILE, PROJECT):
            path = os.path.join(folder, name)
            if not (os.path.lexists(path) if name == FILE else os.path.isfile(path)):
                continue
            reason = _why_untrusted(path, folder_stat)
            if reason is None and (table := _read_settings_table(path)) is not None:
                return _build_settings(path, table)._replace(unused=tuple(unused))
            if reason and _has_settings(path):
                unused.append(f"the settings in {relative_path(path)} are not used: {reason}")
        parent = os.path.dirname(folder)
        # `.git` is a file in worktrees and submodules.
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            break
        folder = parent
    return SettingsFile(unused=tuple(unused))


def read_settings(path: str) -> SettingsFile:
    """Read the settings file that the user named; its patterns are relative to the working directory.

    Raises:
        SettingsFileError: the file cannot be read or parsed, or is a pyproject.toml without the table.
    """
    path = os.path.abspath(path)
    table = _parse_toml_table(path, _read_settings_text(path), is_own_file=os.path.basename(path) != PROJECT)
    if table is None:
        raise SettingsFileError(f"{relative_path(path)}: has no table `tool.dsconfig`")
    return _build_settings(path, table)._replace(base=os.getcwd())


def _why_untrusted(path: str, folder_stat: os.stat_result) -> str | None:
    """Return why another user may have planted a settings file, or None if it is trusted.

    The owner of the config's directory is trusted, because the owner can change the config itself. For the same reason,
    everyone is trusted if the directory is world-writable, as on file systems without permissions.
    """
    if not may_read_discovered_file(path):
        return f"they are a link to a file that {OUTSIDE}"
    # Windows has no numeric user ids.
    if not hasattr(os, "geteuid"):
        return None
    folder, trusted = os.stat(os.path.dirname(path)), {0, os.geteuid(), folder_stat.st_uid}
    if folder.st_uid not in trusted:
        return f"their folder belongs to another user (id {folder.st_uid})"
    if _is_world_writable(folder) and not _is_world_writable(folder_stat):
        return "anyone may write to their folder"
    owner = os.lstat(path).st_uid
    if folder.st_mode & stat.S_IWOTH and owner not in trusted:
        return f"they belong to another user (id {owner})"
    return None


def _is_world_writable(folder: os.stat_result) -> bool:
    """Return whether every user may replace files in a directory."""
    # The sticky bit, as on /tmp, keeps users from replacing each other's files.
    return bool(folder.st_mode & stat.S_IWOTH) and not folder.st_mode & stat.S_ISVTX


def _has_settings(path: str) -> bool:
    """Return whether an untrusted file contains dsconfig settings, which is worth a message to the user."""
    try:
        return (
            os.path.basename(path) == FILE
            or not may_read_discovered_file(path)
            or _may_have_dsconfig_table(_read_settings_text(path))
        )
    except SettingsFileError:
        return False


def _read_settings_table(path: str) -> JsonObject | None:
    text = _read_settings_text(path)
    is_own_file = os.path.basename(path) == FILE
    if not is_own_file and not _may_have_dsconfig_table(text):
        return None
    return _parse_toml_table(path, text, is_own_file=is_own_file)


def _read_settings_text(path: str) -> str:
    where = relative_path(path)
    try:
        data = read_contents(path, _MAX_FILE)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SettingsFileError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise SettingsFileError(f"{where}: not UTF-8 text") from None
    if len(data) > _MAX_FILE:
        raise SettingsFileError(f"{where}: longer than {_MAX_FILE // 2**20} MiB, the size limit")
    return text


def _may_have_dsconfig_table(text: str) -> bool:
    """Return whether a pyproject.toml may have a `[tool.dsconfig]` table, without importing a parser."""
    # A quick search rules out nearly every pyproject.toml.
    if "dsconfig" not in text:
        return False
    import re

    header = r"""^[ \t]*(?:\[[ \t]*)?["']?tool["']?[ \t]*(?:\.[ \t]*["']?dsconfig|\]|=)"""
    return re.search(header, text, re.MULTILINE) is not None


def _parse_toml_table(path: str, text: str, *, is_own_file: bool) -> JsonObject | None:
    import sys
    from importlib import import_module

    if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        raise SettingsFileError(f"{relative_path(path)}: more than {_MAX_DOTS} dots in one line")
    # The standard library has a TOML parser since Python 3.11.
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    data: JsonObject
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise SettingsFileError(f"{relative_path(path)}: nested too deeply") from None
    except ValueError as error:  # invalid TOML, or an integer beyond sys.get_int_max_str_digits
        raise SettingsFileError(f"{relative_path(path)}: invalid TOML: {error}") from None
    if is_own_file:
        return data
    tool = data.get("tool", {})
    table = tool.get("dsconfig") if isinstance(tool, dict) else None
    if table is None or isinstance(table, dict):
        return table
    raise SettingsFileError(f"{relative_path(path)}: `tool.dsconfig` must be a table")


def _build_settings(path: str, table: JsonObject) -> SettingsFile:
    prefix = f"{relative_path(path)}: {'tool.dsconfig.' if os.path.basename(path) == PROJECT else ''}"
    values = {key: value for key, value in table.items() if key != OVERRIDES}
    tables = table.get(OVERRIDES, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise SettingsFileError(
            f"{prefix}{OVERRIDES}: expected a list of tables, got {_shorten_value(tables)}"
        )
    overrides = tuple(
        _parse_override(path, each, f"{prefix}{OVERRIDES}[{index}]") for index, each in enumerate(tables)
    )
    return SettingsFile(path, **_parse_settings_values(values, prefix, KEYS), overrides=overrides)


def _parse_override(path: str, table: JsonObject, prefix: str) -> SettingsFile:
    if "files" not in table:
        raise SettingsFileError(
            f"{prefix}: `files` is missing; it lists the patterns of the files to override"
        )
    return SettingsFile(path, **_parse_settings_values(table, f"{prefix}.", {"files": _PATTERNS, **KEYS}))


def _parse_settings_values(table: JsonObject, prefix: str, keys: Mapping[str, _Setting]) -> JsonObject:
    values: JsonObject = {}
    for key, value in table.items():
        if key not in keys:
            from dsconfig.core.wording import closest_words

            known_keys = (*keys, *([OVERRIDES] if keys is KEYS else []))
            matches = closest_words(key.replace("_", "-"), known_keys)
            hint = f"did you mean `{matches[0]}`?" if matches else f"expected one of {', '.join(known_keys)}"
            raise SettingsFileError(f"{prefix}{key[:200]}: unknown setting, {hint}")
        parse, expected = keys[key]
        try:
            values[key.replace("-", "_")] = parse(value)
        except ValueError:
            raise SettingsFileError(
                f"{prefix}{key}: expected {expected}, got {_shorten_value(value)}"
            ) from None
    return values


def _shorten_value(value: object) -> str:
    import json

    try:
        text = json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return "a value beyond all limits"
    return text if len(text) <= 60 else text[:57] + "..."


def _parse_string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _parse_nonempty_string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _parse_memory_size(value: object) -> int:
    from dsconfig.core.gpu_memory import parse_bytes

    return parse_bytes(_parse_string(value))


def _parse_positive_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 10**9:
        raise ValueError
    return value


def _parser_of_choice(words: tuple[str, ...]) -> Callable[[object], str]:
    def parse_choice(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return parse_choice


def _parse_consumer(value: object) -> str:
    if not is_consumer_spec(value):
        raise ValueError
    return str(value)


def _parse_string_list(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(_parse_string(item) for item in value)


def _host_kinds(value: object) -> tuple[str, ...]:
    kinds = _parse_string_list(value)
    if not set(kinds) <= set(HOST_KINDS):
        raise ValueError
    return kinds


def _parse_lists_by_pattern(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError
    return tuple((pattern, _parse_string_list(rules)) for pattern, rules in value.items())


_RULES = (_parse_string_list, "a list of rules")
_PATTERNS = (_parse_string_list, "a list of patterns")
KEYS: dict[str, _Setting] = {
    "target": (_parse_string, "a release or a range of releases as a string"),
    "world-size": (_parse_positive_integer, "a whole number above 0"),
    "consumer": (_parse_consumer, EXPECTED_CONSUMER),
    "model": (_parse_nonempty_string, "the path to its config.json or a name, as a string"),
    "host-memory": (_parse_memory_size, "an amount of memory such as 512GiB, as a string"),
    "gpus-per-node": (_parse_positive_integer, "a whole number above 0"),
    "select": _RULES,
    "ignore": _RULES,
    "extend-select": _RULES,
    "fixable": _RULES,
    "unfixable": _RULES,
    "fail-on": (_parser_of_choice(FAIL_ON), f"one of {', '.join(FAIL_ON)}"),
    "min-severity": (_parser_of_choice(MIN_SEVERITY), f"one of {', '.join(MIN_SEVERITY)}"),
    "exclude": _PATTERNS,
    "extend-exclude": _PATTERNS,
    "skip": (_host_kinds, f"a list of {', '.join(HOST_KINDS)}"),
    "per-file-ignores": (_parse_lists_by_pattern, "a table of lists of rules by pattern"),
}
"""Every setting with its parser and the value it expects."""
