"""What connects an editor with the schemas: schemas in files, and settings that name them.

Settings that are there already stay byte for byte; ours are added to them, or the file is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dsconfig.document import Node, read_text
from dsconfig.document.edit import Edit, EditError, apply, editor
from dsconfig.document.pretty import text as layout
from dsconfig.releases import Target
from dsconfig.schema import json_schema
from dsconfig.schema.files import FILE_MATCH, LAUNCH_MATCH
from dsconfig.schema.wrapped import launch_schema

Name: TypeAlias = Literal["vscode", "neovim", "jetbrains", "zed"]
EDITORS: tuple[Name, ...] = ("vscode", "neovim", "jetbrains", "zed")
Path: TypeAlias = tuple[str, ...]
_MARK = '"x-dsconfig-target"'
CONFIG, LAUNCH = "deepspeed.schema.json", "accelerate.schema.json"
_FOLDERS = {"vscode": ".vscode", "neovim": ".nvim", "jetbrains": ".idea", "zed": ".zed"}


class SettingsConflictError(ValueError):
    """Settings that cannot be added to; the message is one line."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file. `entries` are settings to add to the JSON that is there; without them the file is whole, and
    `mark` is what only a file of ours holds, over which a new one may be written.
    """

    path: str
    text: str
    entries: tuple[tuple[Path, Any], ...] = ()
    mark: str | None = None

    def merged(self, old: str | None) -> str:
        """The text of the file with our part in it, the rest as it was.

        Raises:
            SettingsConflictError: something else stands where our part belongs.
        """
        ours = old is not None and self.mark is not None and self.mark in old
        if old is None or old == self.text or not old.strip() or ours:
            return self.text
        if not self.entries:
            raise SettingsConflictError(f"{self.path}: exists, and is not what would be written")
        for path, value in self.entries:
            old = _added(self.path, old, path, value)
        return old


def parts(name: Name, target: Target, consumer: str | None) -> Iterator[Part]:
    """The files that connect the editor: the schemas first, its settings last."""
    folder = _FOLDERS[name]
    yield Part(f"{folder}/{CONFIG}", layout(json_schema(target, consumer)), mark=_MARK)
    yield Part(f"{folder}/{LAUNCH}", layout(launch_schema()), mark=_MARK)
    yield _SETTINGS[name](folder)


def _vscode(folder: str) -> Part:
    return _json(
        f"{folder}/settings.json",
        (("json.schemas",), [{"fileMatch": list(FILE_MATCH), "url": f"./{folder}/{CONFIG}"}]),
        (("yaml.schemas", f"./{folder}/{LAUNCH}"), list(LAUNCH_MATCH)),
    )


def _zed(folder: str) -> Part:
    def settings(server: str, language: str) -> Path:
        return ("lsp", server, "settings", language, "schemas")

    return _json(
        f"{folder}/settings.json",
        (
            settings("json-language-server", "json"),
            [{"fileMatch": list(FILE_MATCH), "url": f"./{folder}/{CONFIG}"}],
        ),
        ((*settings("yaml-language-server", "yaml"), f"./{folder}/{LAUNCH}"), list(LAUNCH_MATCH)),
    )


def _json(path: str, *entries: tuple[Path, Any]) -> Part:
    whole: dict[str, Any] = {}
    for keys, value in entries:
        here = whole
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here[keys[-1]] = value
    return Part(path, json.dumps(whole, indent=2) + "\n", entries)


def _neovim(folder: str) -> Part:
    """Read by Neovim 0.11 and later where 'exrc' is set; else it goes into the user's own configuration."""
    lines = [
        f'local schemas = vim.fs.joinpath(vim.fn.getcwd(), "{folder}")',
        'vim.lsp.config("jsonls", {',
        "  settings = { json = { validate = { enable = true }, schemas = { {",
        f"    fileMatch = {_lua(FILE_MATCH)},",
        f'    url = vim.uri_from_fname(vim.fs.joinpath(schemas, "{CONFIG}")),',
        "  } } } },",
        "})",
        'vim.lsp.config("yamlls", {',
        "  settings = { yaml = { schemas = {",
        f'    [vim.uri_from_fname(vim.fs.joinpath(schemas, "{LAUNCH}"))] = {_lua(LAUNCH_MATCH)},',
        "  } } },",
        "})",
        'vim.lsp.enable({ "jsonls", "yamlls" })',
        "",
    ]
    return Part(".nvim.lua", "\n".join(lines))


def _lua(words: tuple[str, ...]) -> str:
    return "{ " + ", ".join(json.dumps(word) for word in words) + " }"


def _jetbrains(folder: str) -> Part:
    mappings = [
        line
        for title, file, patterns in (("DeepSpeed", CONFIG, FILE_MATCH), ("Accelerate", LAUNCH, LAUNCH_MATCH))
        for line in _mapping(title, f"{folder}/{file}", patterns)
    ]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<project version="4">',
        '  <component name="JsonSchemaMappingsProjectConfiguration">',
        "    <state><map>",
        *mappings,
        "    </map></state>",
        "  </component>",
        "</project>",
        "",
    ]
    return Part(f"{folder}/jsonSchemas.xml", "\n".join(lines))


def _mapping(title: str, file: str, patterns: tuple[str, ...]) -> Iterator[str]:
    yield f'      <entry key="{title}"><value><SchemaInfo>'
    yield f'        <option name="name" value="{title}" />'
    yield f'        <option name="relativePathToSchema" value="{file}" />'
    yield '        <option name="patterns"><list>'
    for pattern in patterns:
        yield '          <Item><option name="pattern" value="true" />'
        yield f'            <option name="path" value="{pattern}" /></Item>'
    yield "        </list></option>"
    yield "      </SchemaInfo></value></entry>"


_SETTINGS = {"vscode": _vscode, "neovim": _neovim, "jetbrains": _jetbrains, "zed": _zed}


def _added(name: str, text: str, path: Path, value: Any) -> str:
    """The settings with one entry more; as they are where it is there already."""
    document = read_text(text, name)
    root = document.root
    if root is None or root.kind != "object" or not {found.kind for found in document.problems} <= _FINE:
        raise SettingsConflictError(f"{name}: no JSON object to add settings to")
    try:
        there = document.node(path)
        if there is None:
            return apply(text, editor(document).set(path, value))
        if isinstance(value, list) and there.kind == "array":
            return _extended(text, there, value)
    except EditError as error:
        raise SettingsConflictError(f"{name}: {error}") from None
    raise SettingsConflictError(f"{name}: `{'.'.join(path)}` is {there.kind} there, where a list belongs")


_FINE = frozenset(("comment", "trailing-comma", "bom"))
"""What editors allow in their settings."""


def _extended(text: str, there: Node, value: list[Any]) -> str:
    """The list with our items that it lacks at its end."""
    held = [_plain(item) for item in there.items]
    lacking = [item for item in value if item not in held]
    if not lacking:
        return text
    written = ", ".join(json.dumps(item) for item in lacking)
    if not there.items:
        return apply(text, [Edit(there.span.start, there.span.end, f"[{written}]")])
    end = there.items[-1].span.end
    return apply(text, [Edit(end, end, f", {written}")])


def _plain(node: Node) -> Any:
    if node.kind == "object":
        return {member.key: _plain(member.node) for member in node.members}
    return [_plain(item) for item in node.items] if node.kind == "array" else node.value
