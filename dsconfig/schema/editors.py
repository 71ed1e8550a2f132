"""What connects an editor with the schemas: schemas in files, and settings that name them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from dsconfig.core.releases import Target
from dsconfig.document.file_names import CONFIGS, LAUNCH_FILES
from dsconfig.document.json_format import pretty_file
from dsconfig.schema import json_schema
from dsconfig.schema.accelerate import launch_schema
from dsconfig.schema.merge_editor_settings import EditorFile, Entry

Name: TypeAlias = Literal["vscode", "neovim", "jetbrains", "zed"]
EDITORS: tuple[Name, ...] = ("vscode", "neovim", "jetbrains", "zed")
_MARK = '"x-dsconfig-target"'
CONFIG, LAUNCH = "deepspeed.schema.json", "accelerate.schema.json"
_FOLDERS = {"vscode": ".vscode", "neovim": ".nvim", "jetbrains": ".idea", "zed": ".zed"}


def files(name: Name, target: Target, consumer: str | None) -> Iterator[EditorFile]:
    """The files that connect the editor: the schemas first, its settings last."""
    folder = _FOLDERS[name]
    yield EditorFile(f"{folder}/{CONFIG}", pretty_file(json_schema(target, consumer)), mark=_MARK)
    yield EditorFile(f"{folder}/{LAUNCH}", pretty_file(launch_schema()), mark=_MARK)
    yield _SETTINGS[name](folder)


def _vscode(folder: str) -> EditorFile:
    return _json(
        f"{folder}/settings.json",
        (("json.schemas",), [{"fileMatch": list(CONFIGS), "url": f"./{folder}/{CONFIG}"}]),
        (("yaml.schemas", f"./{folder}/{LAUNCH}"), list(LAUNCH_FILES)),
    )


def _zed(folder: str) -> EditorFile:
    def settings(server: str, language: str) -> tuple[str, ...]:
        return ("lsp", server, "settings", language, "schemas")

    return _json(
        f"{folder}/settings.json",
        (
            settings("json-language-server", "json"),
            [{"fileMatch": list(CONFIGS), "url": f"./{folder}/{CONFIG}"}],
        ),
        ((*settings("yaml-language-server", "yaml"), f"./{folder}/{LAUNCH}"), list(LAUNCH_FILES)),
    )


def _json(path: str, *entries: Entry) -> EditorFile:
    whole: dict[str, Any] = {}
    for keys, value in entries:
        here = whole
        for key in keys[:-1]:
            here = here.setdefault(key, {})
        here[keys[-1]] = value
    return EditorFile(path, json.dumps(whole, indent=2) + "\n", entries)


def _neovim(folder: str) -> EditorFile:
    """Read by Neovim 0.11 and later where 'exrc' is set; else it goes into the user's own configuration."""
    lines = [
        f'local schemas = vim.fs.joinpath(vim.fn.getcwd(), "{folder}")',
        'vim.lsp.config("jsonls", {',
        "  settings = { json = { validate = { enable = true }, schemas = { {",
        f"    fileMatch = {_lua(CONFIGS)},",
        f'    url = vim.uri_from_fname(vim.fs.joinpath(schemas, "{CONFIG}")),',
        "  } } } },",
        "})",
        'vim.lsp.config("yamlls", {',
        "  settings = { yaml = { schemas = {",
        f'    [vim.uri_from_fname(vim.fs.joinpath(schemas, "{LAUNCH}"))] = {_lua(LAUNCH_FILES)},',
        "  } } },",
        "})",
        'vim.lsp.enable({ "jsonls", "yamlls" })',
        "",
    ]
    return EditorFile(".nvim.lua", "\n".join(lines))


def _lua(words: tuple[str, ...]) -> str:
    return "{ " + ", ".join(json.dumps(word) for word in words) + " }"


def _jetbrains(folder: str) -> EditorFile:
    mappings = [
        line
        for title, file, patterns in (("DeepSpeed", CONFIG, CONFIGS), ("Accelerate", LAUNCH, LAUNCH_FILES))
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
    return EditorFile(f"{folder}/jsonSchemas.xml", "\n".join(lines))


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
