"""What a program of the repository writes into a config before DeepSpeed sees it.

A value that only the run knows is often put in between the reading of the file and `deepspeed.initialize`:
the micro batch of an argument, a length that the data tell. What DeepSpeed gets is whole, though the file is
not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dsconfig.core.json_types import Json
from dsconfig.core.read_boundary import root
from dsconfig.job.detect_consumer import Overwrite
from dsconfig.launch.config_references import may_be
from dsconfig.launch.repository import edition, texts, tick

_BUILDS = re.compile(
    rb"deepspeed\.init|\bDeepSpeed(?:Plugin|Strategy|Config)\b|\bHf\w*DeepSpeedConfig\b"
    rb"|\bimport\s[^\n]*\binitialize\b|\bdeepspeed\s*=|\bdeepspeed_plugin\b"
)
_LONGEST = 300
"""Characters of the folders of a name."""
_MOST = 20
"""Programs that are looked into."""
ROOT = "*"
_HOMES = ("deepspeed", "deepspeed_config", "ds_config", "ds")
"""Keys of larger configs under which one of DeepSpeed stands."""


def overwrite_of(name: str, key: str, config: Json) -> Overwrite | None:
    """What a program of the repository does to a key of the config at a path; None: nothing that is known.

    Args:
        name: the path of the config.
        key: the dotted path of the key.
        config: what the file holds.
    """
    for each in overwrites(name):
        if each.key == ROOT or f"{key}.".startswith(f"{each.key}."):
            if not each.absent_only or _value(config, key) in (None, "auto"):
                return each
        elif each.key.endswith(f".{ROOT}") and key.startswith(each.key.removesuffix(ROOT)):
            return each
    return None


def _value(config: Json, key: str) -> Json:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config if isinstance(config, str | int | float) else None if config is None else "object"


def overwrites(name: str) -> tuple[Overwrite, ...]:
    """Every key that programs which read the config at a path write into it, as far as they show that.

    A key that is `*`, or ends with it, stands for those that only the run shows.
    """
    if name.startswith("<") or not name:
        return ()
    path = os.path.abspath(name)
    return _overwrites(path, edition(path))


@lru_cache(maxsize=16)
def _overwrites(path: str, _: tuple[int, ...]) -> tuple[Overwrite, ...]:
    folder = os.path.dirname(path)
    top = root(folder)
    known = texts(top or folder, path, deep=top is not None)
    found = (
        each
        for program in _programs(known)
        if _reads(program, path, known)
        for each in _written_by(program, tick())
    )
    return tuple({(each.key, each.absent_only): each for each in reversed(list(found))}.values())[::-1]


@lru_cache(maxsize=4)
def _programs(known: tuple[tuple[str, bytes], ...]) -> tuple[str, ...]:
    """The programs among the texts of a repository that hand a config over to DeepSpeed."""
    named = [each for each in known if each[0].endswith(".py") and _BUILDS.search(each[1])][:_MOST]
    if not named:
        return ()
    from dsconfig.launch.config_writes import hands_over
    from dsconfig.launch.python_source import parse

    parsed = (parse(program, data) for program, data in named)
    return tuple(module.path for module in parsed if module is not None and hands_over(module))


@lru_cache(maxsize=_MOST)
def _written_by(program: str, _: int) -> tuple[Overwrite, ...]:
    try:
        return tuple(_writes(program))
    except RecursionError:  # deeper than anybody writes
        return ()


def _writes(program: str) -> Iterator[Overwrite]:
    from dsconfig.launch.config_writes import ANY_KEY, writes_in
    from dsconfig.launch.python_source import modules

    for module in modules(program, program):
        for found in writes_in(module):
            parts = found.path[1:] if found.path[0] in _HOMES else found.path
            key = ".".join(ROOT if part == ANY_KEY else part for part in parts)
            if key:
                place = f"{os.path.relpath(module.path)}:{found.line}"
                yield Overwrite(key, place, found.absent_only)


def _reads(program: str, path: str, known: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether the config lies at or below the program's folder, or a text names both."""
    if path.startswith(os.path.join(os.path.dirname(program), "")):
        return True
    return any((at == program or _names(data, program)) and _names(data, path) for at, data in known)


def _names(data: bytes, path: str) -> bool:
    base = os.path.basename(path)
    stem = base.removesuffix(".py").encode()
    if base.endswith(".py") and re.search(rb"-m\s+(?:[\w.]+\.)?%b(?![\w.])" % re.escape(stem), data):
        return True
    if base.encode() not in data:
        return False
    text = data.decode("latin-1")
    for match in re.finditer(rf"(?<![\w-]){re.escape(base)}(?![\w.-])", text):
        # Searched backwards: a search forwards begins anew at each character of a long word.
        before = text[max(0, match.start() - _LONGEST) : match.start()][::-1]
        folders = re.match(r"[\w./~${}-]*", before)
        if folders and may_be(folders[0][::-1] + base, path):
            return True
    return False
