"""Compose a config of Hydra from the files in its defaults lists.

Source: hydra _internal/defaults_list.py, core/default_element.py and _internal/config_repository.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import Document, read_file
from dsconfig.launch.repository_files import resolve_written_path

_MAX_FILES = 50
"""Maximum number of files in the defaults lists of one config."""
_MAX_DEPTH = 10
_SELF, _GLOBAL = "_self_", "_global_"


class DefaultsEntry(NamedTuple):
    """An entry of a defaults list: `- override /model/encoder@net: vit`."""

    group: str
    """Group as written, with `/` at its start if it is absolute; empty for a file of the same folder (`- base`)."""
    package: str | None
    """Package after `@`, or None to use that of the file or of the group."""
    choices: tuple[str, ...]
    """Files of the group, without a suffix; empty for `null`."""
    is_override: bool = False
    is_optional: bool = False

    @property
    def written_folder(self) -> str:
        """Folder of the files as the entry writes it, without the leading `/`."""
        folder = self.group or os.path.dirname(self.choices[0] if self.choices else "")
        return folder.lstrip("/")

    def group_path(self, parent: str) -> str:
        """Return the path of the group below the folder of configs; `parent` is that of the list's own file."""
        is_absolute = (self.group or "".join(self.choices[:1])).startswith("/")
        return (
            self.written_folder
            if is_absolute or not parent
            else f"{parent}/{self.written_folder}".rstrip("/")
        )


class ComposedConfig(NamedTuple):
    """A config composed from several files, recording which file each part came from."""

    data: Any
    files: tuple[tuple[KeyPath, Document], ...]
    """Group files, each with the path at which the composed data contains it."""
    is_complete: bool = True
    """Whether every file of the defaults lists was found, and every choice of the command was used."""


class GroupChoices(NamedTuple):
    """The overrides of a command that choose group files, by their keys: `model` or `model@net.encoder`."""

    replaced: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    added: tuple[DefaultsEntry, ...] = ()
    deleted: frozenset[str] = frozenset()


def parse_defaults_entry(entry: Json) -> DefaultsEntry | None:
    """Parse an entry of a defaults list other than `_self_`; None for one that Hydra does not accept."""
    if isinstance(entry, dict) and len(entry) == 1:
        key, value = next(iter(entry.items()))
        match = _GROUP.fullmatch(str(key))
        choices = value if isinstance(value, list) else [] if value is None else [value]
        if match is None or not all(isinstance(each, str) for each in choices):
            return None
        words = match["keywords"].split()
        names = tuple(str(each).removesuffix(".yaml") for each in choices)
        return DefaultsEntry(
            match["group"], match["package"], names, "override" in words, "optional" in words
        )
    match = _GROUP.fullmatch(entry) if isinstance(entry, str) else None
    if match is None:
        return None
    name = match["group"].removesuffix(".yaml")
    return DefaultsEntry("", match["package"], (name,), is_optional="optional" in match["keywords"].split())


_GROUP = re.compile(
    r"(?P<keywords>(?:(?:override|optional) +)*)(?P<group>/?[\w./-]+)(?:@(?P<package>[\w.:]*))?"
)


_NO_CHOICES = GroupChoices()


def compose_defaults(
    primary: Document, data: JsonObject, choices: GroupChoices = _NO_CHOICES
) -> ComposedConfig:
    """Compose a primary config with the files in its defaults lists, and in theirs, in Hydra's order.

    Args:
        primary: the primary config, whose folder contains the groups.
        data: value of the primary config.
        choices: overrides of the command that choose other files.

    Raises:
        OSError: a file cannot be read.
    """
    composer = _Composer(primary, choices)
    parts = composer.parts_of_file(primary, data, "", _package_header(primary, "") or "", 0)
    composed: JsonObject = {}
    files: list[tuple[KeyPath, Document]] = []
    for path, document, value in parts:
        nested: Json = value
        for key in reversed(path):
            nested = {str(key): nested}
        composed = merge_configs(composed, nested)
        if document is not primary:
            files.append((path, document))
    return ComposedConfig(composed, tuple(files), composer.is_complete and composer.has_used_choices)


def merge_configs(base: JsonObject, over: Json) -> JsonObject:
    """Return a config with the values of another one merged into it; mappings are merged key by key."""
    if not isinstance(over, dict):
        return base
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        is_section = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = merge_configs(inner, value) if is_section and isinstance(inner, dict) else value
    return merged


_Part = tuple[KeyPath, Document, JsonObject]


class _Composer:
    """The state of composing one primary config."""

    def __init__(self, primary: Document, choices: GroupChoices) -> None:
        self.primary, self.is_complete = primary, True
        self._chosen: dict[str, tuple[str, ...]] = dict(choices.replaced)
        self._unused, self._added = {*choices.replaced, *choices.deleted}, choices.added
        self._deleted = choices.deleted
        self._budget = _MAX_FILES

    @property
    def has_used_choices(self) -> bool:
        """Whether every override applied to an entry of a list; Hydra rejects any other."""
        return not self._unused

    def parts_of_file(
        self, document: Document, data: JsonObject, group: str, package: str, depth: int
    ) -> list[_Part]:
        """Return the parts that a file and its defaults list add, in the order in which they are merged."""
        own_part = (tuple(each for each in package.split(".") if each), document, _without_defaults(data))
        listed = data.get("defaults")
        entries: list[Json] = list(listed) if isinstance(listed, list) else []
        parsed = [None if entry == _SELF else parse_defaults_entry(entry) for entry in entries]
        self.is_complete &= all(
            each is not None or entry == _SELF for entry, each in zip(entries, parsed, strict=True)
        )
        overridden = [each is not None and each.is_override for each in parsed]
        self.is_complete &= overridden == sorted(overridden)  # Hydra accepts overrides at the end only
        if _SELF not in entries and (not entries or not all(overridden)):
            parsed.append(None)  # `_validate_self`: the file's own values come last
        if document is self.primary:
            parsed += self._added
        parsed = [each for each in parsed if each is None or not _configures_hydra(each)]
        for each in parsed:
            key = _override_key(each, group, package) if each is not None and each.is_override else ""
            if (
                each is not None and key and key not in self._chosen
            ):  # of the lists read so far, the first decides
                self._chosen[key] = each.choices
                self._unused.add(key)
        # From the end, because an `override` applies to the entries before it.
        groups = [
            [own_part] if each is None else list(self._parts_of_entry(each, group, package, depth))
            for each in reversed(parsed)
            if each is None or not each.is_override
        ]
        return [part for parts in reversed(groups) for part in parts] if groups else [own_part]

    def _parts_of_entry(self, entry: DefaultsEntry, group: str, package: str, depth: int) -> Iterator[_Part]:
        names = entry.choices
        if entry.group:
            key = _override_key(entry, group, package)
            self._unused.discard(key)
            if key in self._deleted:
                return
            names = self._chosen.get(key, names)
        for name in names:
            self._budget -= 1
            file = os.path.join(entry.group_path(group), os.path.basename(name) if not entry.group else name)
            document = None if self._budget < 0 or depth > _MAX_DEPTH else self._find_file(file)
            data = None if document is None else document.value()
            if document is None or not isinstance(data, dict):
                self.is_complete &= entry.is_optional
                continue
            folder = os.path.dirname(file)
            inner = entry.package if entry.package is not None else _package_header(document, folder)
            joined = _join_packages(package, _package_of_group(entry) if inner is None else inner)
            yield from self.parts_of_file(document, data, folder, joined, depth + 1)

    def _find_file(self, path: str) -> Document | None:
        """Return the file of a group below the folder of the primary config, or else near it."""
        name = f"{path}.yaml"
        beside = os.path.join(os.path.dirname(self.primary.name), name)
        lookup = resolve_written_path(os.path.normpath(beside), self.primary.name)
        if lookup.path is None:  # the primary config may itself be a file of a group
            lookup = resolve_written_path(name, self.primary.name)
        return None if lookup.path is None else read_file(lookup.path)


def _override_key(entry: DefaultsEntry, group: str, package: str) -> str:
    """Return the key by which overrides name an entry's group: `get_override_key` of Hydra."""
    path = entry.group_path(group)
    inner = _package_of_group(entry) if entry.package is None else entry.package
    target = _join_packages(package, inner)
    return path if target == path.replace("/", ".") else f"{path}@{target or _GLOBAL}"


def _package_of_group(entry: DefaultsEntry) -> str:
    return entry.written_folder.replace("/", ".")


def _join_packages(parent: str, package: str) -> str:
    """Return the package of an entry in a file with the given package; `_global_` starts at the root."""
    joined = f"{parent}.{package}" if parent and package else parent or package
    _, is_global, rest = joined.rpartition(_GLOBAL)
    return rest.lstrip(".") if is_global else joined


def _package_header(document: Document, group: str) -> str | None:
    """Return the package in the first comment of a file, `# @package _global_`, or None without one."""
    match = re.match(r"(?:\s*#[^\n]*\n)*?\s*#\s*@package\s+(\S+)", document.text)
    return None if match is None else match[1].replace("_group_", group.replace("/", "."))


def _configures_hydra(entry: DefaultsEntry) -> bool:
    """Return whether an entry chooses a part of Hydra itself: `override hydra/launcher: joblib`."""
    return entry.written_folder.split("/")[0] == "hydra"


def _without_defaults(data: JsonObject) -> JsonObject:
    return {key: value for key, value in data.items() if key != "defaults"}


def is_group_folder(folder: str, group: str) -> bool:
    """Return whether a folder of configs has a group."""
    return os.path.isdir(os.path.join(folder, group.lstrip("/")))
