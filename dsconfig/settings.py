"""Settings: `dsconfig.toml`, or `[tool.dsconfig]` in `pyproject.toml`.

One file serves a run: the nearest one from the working directory upwards, the repository's root (where `.git`
is) being the last looked at. In one directory `dsconfig.toml` goes before `pyproject.toml`, and a
`pyproject.toml` without the table is passed over. Patterns are relative to the settings file's directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from dsconfig.consumers import CONSUMERS
from dsconfig.json_types import JsonObject

FILE, PROJECT = "dsconfig.toml", "pyproject.toml"
FAIL_ON = ("error", "warning", "info", "never")


class SettingsFileError(ValueError):
    """Settings that cannot be understood; the message is one line and names the file and the key."""


class Settings(NamedTuple):
    """What the settings file says; None where it is silent."""

    path: str | None = None
    target: str | None = None
    world_size: int | None = None
    consumer: str | None = None
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    fail_on: str | None = None
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def where(self) -> str:
        """The settings file as shown to the user."""
        return os.path.relpath(self.path) if self.path else "no settings file"

    @property
    def root(self) -> str:
        """The directory that patterns are relative to."""
        return os.path.dirname(self.path) if self.path else os.getcwd()


def find(start: str | None = None) -> Settings:
    """The settings for `start`, by default the working directory.

    Raises:
        SettingsFileError: the nearest settings file cannot be read or understood.
    """
    folder = os.path.abspath(start or os.curdir)
    while True:
        for name in (FILE, PROJECT):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (table := _table(path)) is not None:
                return _settings(path, table)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            return Settings()
        folder = parent


def _table(path: str) -> JsonObject | None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise SettingsFileError(f"{os.path.relpath(path)}: {reason}") from None
    own = os.path.basename(path) == FILE
    return _parsed(path, text, own=own) if own or _mentions_us(text) else None


def _mentions_us(text: str) -> bool:
    """Whether a pyproject.toml can have our table at all: loading the TOML parser to find out costs 14 ms."""
    if "dsconfig" not in text:
        return False
    import re

    header = r"""^[ \t]*(?:\[[ \t]*)?["']?tool["']?[ \t]*(?:\.[ \t]*["']?dsconfig|\]|=)"""
    return re.search(header, text, re.MULTILINE) is not None


def _parsed(path: str, text: str, *, own: bool) -> JsonObject | None:
    import sys
    from importlib import import_module

    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    data: JsonObject
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsFileError(f"{os.path.relpath(path)}: no valid TOML: {error}") from None
    if own:
        return data
    tool = data.get("tool", {})
    table = tool.get("dsconfig") if isinstance(tool, dict) else None
    if table is None or isinstance(table, dict):
        return table
    raise SettingsFileError(f"{os.path.relpath(path)}: `tool.dsconfig` must be a table")


def _settings(path: str, table: JsonObject) -> Settings:
    values: JsonObject = {}
    for key, value in table.items():
        where = f"{os.path.relpath(path)}: {'' if os.path.basename(path) == FILE else 'tool.dsconfig.'}{key}"
        if key not in KEYS:
            from dsconfig.words import closest

            close = closest(key.replace("_", "-"), KEYS)
            hint = f"did you mean `{close[0]}`?" if close else f"expected one of {', '.join(KEYS)}"
            raise SettingsFileError(f"{where}: unknown setting, {hint}")
        read, expected = KEYS[key]
        try:
            values[key.replace("-", "_")] = read(value)
        except ValueError:
            raise SettingsFileError(f"{where}: expected {expected}, got {_shown(value)}") from None
    return Settings(path, **values)


def _shown(value: object) -> str:
    import json

    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(_text(item) for item in value)


def _by_pattern(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError
    return tuple((pattern, _texts(rules)) for pattern, rules in value.items())


_RULES = (_texts, "a list of rules")
KEYS: dict[str, tuple[Callable[[object], object], str]] = {
    "target": (_text, "a release or a range of releases as a string"),
    "world-size": (_size, "a whole number above 0"),
    "consumer": (_one_of(CONSUMERS), f"one of {', '.join(CONSUMERS)}"),
    "select": _RULES,
    "ignore": _RULES,
    "extend-select": _RULES,
    "fail-on": (_one_of(FAIL_ON), f"one of {', '.join(FAIL_ON)}"),
    "exclude": (_texts, "a list of patterns"),
    "per-file-ignores": (_by_pattern, "a table of lists of rules by pattern"),
}
"""Every setting, how it is read, and what it takes."""
