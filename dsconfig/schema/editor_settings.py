"""Editor settings that enable the schemas or start the language server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from html import escape
from typing import Any, Literal, NamedTuple, TypeAlias

from dsconfig.core.releases import ReleaseTarget
from dsconfig.document import TreeNode, read_text
from dsconfig.document.apply_operations import editor_for_document
from dsconfig.document.config_file_names import CONFIGS, INFERENCE_CONFIGS, LAUNCH_FILES
from dsconfig.document.pretty_print import format_generated_file
from dsconfig.document.text_edit import EditError, TextEdit, apply_edits
from dsconfig.job.consumers import INFERENCE
from dsconfig.schema import json_schema
from dsconfig.schema.accelerate_launch import accelerate_launch_schema

# Editor files, and how settings are added to an existing file.
#
# Existing content is kept byte for byte: settings are added to it, or the file is not changed.

Entry: TypeAlias = "tuple[tuple[str, ...], object]"
"""A setting: its path of keys, and its value."""


class SettingsConflictError(ValueError):
    """Our settings cannot be added to existing ones; the message is a single line."""


@dataclass(frozen=True, slots=True)
class EditorSettingsFile:
    """A settings file of an editor, and the text with which to create it."""

    path: str
    text: str
    entries: tuple[Entry, ...] = ()
    """Settings to add to existing JSON; if empty, the whole file is generated."""
    mark: str | None = None
    """Text by which a generated file is recognized, which may be overwritten."""

    def text_with_our_settings(self, old: str | None) -> str:
        """Return the text of the file with dsconfig's settings added.

        Raises:
            SettingsConflictError: the file has another value for one of our settings.
        """
        is_generated = old is not None and self.mark is not None and self.mark in old
        if old is None or old == self.text or not old.strip() or is_generated:
            return self.text
        if not self.entries:
            raise SettingsConflictError(f"{self.path}: exists with different content")
        for path, value in self.entries:
            old = _add_setting(self.path, old, path, value)
        return old


def _add_setting(name: str, text: str, path: tuple[str, ...], value: object) -> str:
    """Return the settings with one more entry, or unchanged if it exists."""
    document = read_text(text, name)
    root = document.root
    if (
        root is None
        or root.kind != "object"
        or not {problem.kind for problem in document.problems} <= _ACCEPTED_PROBLEMS
    ):
        raise SettingsConflictError(f"{name}: is not a JSON object, so settings cannot be added")
    try:
        existing = document.node(path)
        if existing is None:
            return apply_edits(text, editor_for_document(document).set_value(path, value))
        if isinstance(value, list) and existing.kind == "array":
            return _append_missing_items(text, existing, value)
    except EditError as error:
        raise SettingsConflictError(f"{name}: {error}") from None
    raise SettingsConflictError(f"{name}: `{'.'.join(path)}` is {existing.kind}, expected a list")


_ACCEPTED_PROBLEMS = frozenset(("comment", "trailing-comma", "bom"))
"""Deviations from strict JSON that editors accept in their settings."""


def _append_missing_items(text: str, existing: TreeNode, value: list[Any]) -> str:
    """Return a list's text with those of our items appended that it lacks."""
    for item in value:
        if (
            known_patterns := _patterns_of_our_schema(existing, item)
        ) is not None:  # with patterns of an earlier run
            return _append_missing_items(text, known_patterns, item["fileMatch"])
    items = [_to_plain_value(item) for item in existing.items]
    missing = [item for item in value if item not in items]
    if not missing:
        return text
    new_items = ", ".join(json.dumps(item) for item in missing)
    if not existing.items:
        return apply_edits(text, [TextEdit(existing.span.start, existing.span.end, f"[{new_items}]")])
    end = existing.items[-1].span.end
    return apply_edits(text, [TextEdit(end, end, f", {new_items}")])


def _patterns_of_our_schema(existing: TreeNode, item: Any) -> TreeNode | None:
    """Return the patterns of the `json.schemas` entry that already names our schema, or None."""
    if not isinstance(item, dict):
        return None
    for entry in existing.items:
        members = {member.key: member.node for member in entry.members} if entry.kind == "object" else {}
        url, patterns = members.get("url"), members.get("fileMatch")
        if url is not None and url.value == item["url"] and patterns is not None and patterns.kind == "array":
            return patterns
    return None


def _to_plain_value(node: TreeNode) -> Any:
    if node.kind == "object":
        return {member.key: _to_plain_value(member.node) for member in node.members}
    return [_to_plain_value(item) for item in node.items] if node.kind == "array" else node.value


# Schema files, and editor settings that refer to them.

Name: TypeAlias = Literal["vscode", "neovim", "jetbrains", "zed"]
EDITORS: tuple[Name, ...] = ("vscode", "neovim", "jetbrains", "zed")
_MARK = '"x-dsconfig-target"'
CONFIG, LAUNCH = "deepspeed.schema.json", "accelerate.schema.json"
INFERENCE_CONFIG = "deepspeed-inference.schema.json"
_FOLDERS = {"vscode": ".vscode", "neovim": ".nvim", "jetbrains": ".idea", "zed": ".zed"}


class SchemaFilePatterns(NamedTuple):
    """Patterns for the files to which a schema applies, by name or by path in the repository."""

    configs: tuple[str, ...] = CONFIGS
    launch_files: tuple[str, ...] = LAUNCH_FILES
    inference_configs: tuple[str, ...] = ()
    """Patterns for inference configs; empty if the repository has none, which then needs no schema for them."""

    def json_schemas(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield the name and the file of each schema of JSON files, with the patterns of the files."""
        yield "DeepSpeed", CONFIG, self.configs
        if self.inference_configs:
            yield "DeepSpeed inference", INFERENCE_CONFIG, self.inference_configs


BY_NAME = SchemaFilePatterns()


def patterns_for_files(
    configs: Sequence[str], launch_files: Sequence[str], inference_configs: Sequence[str] = ()
) -> SchemaFilePatterns:
    """Extend the patterns so that they match these files, given relative to the repository."""
    others = _paths_without_pattern(inference_configs, INFERENCE_CONFIGS)
    return SchemaFilePatterns(
        (*CONFIGS, *_paths_without_pattern(configs, CONFIGS)),
        (*LAUNCH_FILES, *_paths_without_pattern(launch_files, LAUNCH_FILES)),
        (*INFERENCE_CONFIGS, *others) if inference_configs else (),
    )


def _paths_without_pattern(paths: Sequence[str], patterns: tuple[str, ...]) -> list[str]:
    """Return the paths that no pattern matches."""
    globs = ["*/" + pattern.removeprefix("**/") for pattern in patterns]
    slashed = [path.replace(os.sep, "/") for path in paths]
    return sorted(path for path in slashed if not any(fnmatchcase("/" + path, pattern) for pattern in globs))


def editor_files(
    name: Name, target: ReleaseTarget, consumer: str | None, patterns: SchemaFilePatterns = BY_NAME
) -> Iterator[EditorSettingsFile]:
    """Yield the files that set up an editor: the schemas, then its settings."""
    folder = _FOLDERS[name]
    yield EditorSettingsFile(
        f"{folder}/{CONFIG}", format_generated_file(json_schema(target, consumer)), mark=_MARK
    )
    if patterns.inference_configs:
        yield EditorSettingsFile(
            f"{folder}/{INFERENCE_CONFIG}", format_generated_file(json_schema(target, INFERENCE)), mark=_MARK
        )
    yield EditorSettingsFile(
        f"{folder}/{LAUNCH}", format_generated_file(accelerate_launch_schema()), mark=_MARK
    )
    yield _SETTINGS[name](folder, patterns)


def _vscode_settings(folder: str, patterns: SchemaFilePatterns) -> EditorSettingsFile:
    return _json_settings(
        f"{folder}/settings.json",
        (("json.schemas",), _json_schema_entries(folder, patterns)),
        (("yaml.schemas", f"./{folder}/{LAUNCH}"), list(patterns.launch_files)),
    )


def _json_schema_entries(folder: str, patterns: SchemaFilePatterns) -> list[dict[str, object]]:
    return [
        {"fileMatch": list(globs), "url": f"./{folder}/{file}"} for _, file, globs in patterns.json_schemas()
    ]


def _zed_settings(folder: str, patterns: SchemaFilePatterns) -> EditorSettingsFile:
    def settings_path(server: str, language: str) -> tuple[str, ...]:
        return ("lsp", server, "settings", language, "schemas")

    return _json_settings(
        f"{folder}/settings.json",
        (
            settings_path("json-language-server", "json"),
            _json_schema_entries(folder, patterns),
        ),
        (
            (*settings_path("yaml-language-server", "yaml"), f"./{folder}/{LAUNCH}"),
            list(patterns.launch_files),
        ),
    )


def _json_settings(path: str, *entries: Entry) -> EditorSettingsFile:
    settings: dict[str, Any] = {}
    for keys, value in entries:
        section = settings
        for key in keys[:-1]:
            section = section.setdefault(key, {})
        section[keys[-1]] = value
    return EditorSettingsFile(path, json.dumps(settings, indent=2) + "\n", entries)


def _neovim_settings(folder: str, patterns: SchemaFilePatterns) -> EditorSettingsFile:
    """Return project settings for Neovim 0.11 and later, which reads them only if 'exrc' is set."""
    lines = [
        EXRC,
        f'local schemas = vim.fs.joinpath(vim.fn.getcwd(), "{folder}")',
        'vim.lsp.config("jsonls", {',
        f"  settings = {{ json = {{ validate = {{ enable = true }}, schemas = {{ {_lua_schemas(patterns)} }} }} }},",
        "})",
        'vim.lsp.config("yamlls", {',
        "  settings = { yaml = { schemas = {",
        f'    [vim.uri_from_fname(vim.fs.joinpath(schemas, "{LAUNCH}"))] = {_lua_list(patterns.launch_files)},',
        "  } } },",
        "})",
        'vim.lsp.enable({ "jsonls", "yamlls" })',
        "",
    ]
    return EditorSettingsFile(".nvim.lua", "\n".join(lines))


def _lua_schemas(patterns: SchemaFilePatterns) -> str:
    """Return the entries of the JSON schemas in Lua, each a table on lines of its own."""
    return ", ".join(
        f"{{\n    fileMatch = {_lua_list(globs)},\n"
        f'    url = vim.uri_from_fname(vim.fs.joinpath(schemas, "{file}")),\n  }}'
        for _, file, globs in patterns.json_schemas()
    )


def _lua_list(words: tuple[str, ...]) -> str:
    return "{ " + ", ".join(json.dumps(word) for word in words) + " }"


def _jetbrains_settings(folder: str, patterns: SchemaFilePatterns) -> EditorSettingsFile:
    mappings = [
        line
        for title, file, globs in (
            *patterns.json_schemas(),
            ("Accelerate", LAUNCH, patterns.launch_files),
        )
        for line in _jetbrains_mapping(title, f"{folder}/{file}", globs)
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
    return EditorSettingsFile(f"{folder}/jsonSchemas.xml", "\n".join(lines))


def _jetbrains_mapping(title: str, file: str, patterns: tuple[str, ...]) -> Iterator[str]:
    yield f'      <entry key="{title}"><value><SchemaInfo>'
    yield f'        <option name="name" value="{title}" />'
    yield f'        <option name="relativePathToSchema" value="{file}" />'
    yield '        <option name="patterns"><list>'
    for pattern in patterns:
        if "*" in pattern or "?" in pattern or "/" not in pattern:
            yield '          <Item><option name="pattern" value="true" />'
        else:  # one file of the project
            yield "          <Item>"
        yield f'            <option name="path" value="{escape(pattern, quote=True)}" /></Item>'
    yield "        </list></option>"
    yield "      </SchemaInfo></value></entry>"


_SETTINGS = {
    "vscode": _vscode_settings,
    "neovim": _neovim_settings,
    "jetbrains": _jetbrains_settings,
    "zed": _zed_settings,
}


# Settings that start the language server.


class LanguageServerSettings(NamedTuple):
    """Settings that start the language server, and whether they belong in this folder or in the user's settings."""

    file: EditorSettingsFile
    place: str = ""
    """Description of the place, if the editor reads them only from the user's settings."""


EXRC = "-- Neovim reads this file only with `vim.o.exrc = true` in your init.lua, and after `:trust`."
_NEOVIM = f"""\
{EXRC}
-- Neovim 0.11 and later use the first branch, versions from 0.7 on the second.
local filetypes = {{ "json", "jsonc", "hjson", "yaml", "sh" }}
if vim.lsp.config then
  vim.lsp.config("dsconfig", {{
    cmd = {{ "dsconfig", "lsp" }},
    filetypes = filetypes,
    root_markers = {{ "dsconfig.toml", "pyproject.toml", ".git" }},
  }})
  vim.lsp.enable("dsconfig")
else
  local client
  vim.api.nvim_create_autocmd("FileType", {{
    pattern = filetypes,
    callback = function(opened)
      client = client or vim.lsp.start_client({{
        name = "dsconfig",
        cmd = {{ "dsconfig", "lsp" }},
        root_dir = vim.fn.getcwd(),
      }})
      vim.lsp.buf_attach_client(opened.buf, client)
    end,
  }})
end
"""
_HELIX = """\
[language-server.dsconfig]
command = "dsconfig"
args = ["lsp"]

[[language]]
name = "json"
language-servers = ["dsconfig", "vscode-json-language-server"]

[[language]]
name = "jsonc"
language-servers = ["dsconfig", "vscode-json-language-server"]

[[language]]
name = "yaml"
language-servers = ["dsconfig", "yaml-language-server"]

[[language]]
name = "bash"
language-servers = ["dsconfig", "bash-language-server"]

# Helix has no built-in support for Hjson.
[[language]]
name = "hjson"
scope = "source.hjson"
file-types = ["hjson"]
comment-tokens = ["#", "//"]
language-servers = ["dsconfig"]
"""
_EMACS = """\
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs
               '((js-json-mode json-mode json-ts-mode hjson-mode yaml-mode yaml-ts-mode)
                 . ("dsconfig" "lsp"))))
;; Emacs before 29 has no mode for JSON unless the package json-mode is installed.
(unless (or (fboundp 'js-json-mode) (fboundp 'json-mode))
  (define-derived-mode js-json-mode js-mode "JSON")
  (add-to-list 'auto-mode-alist '("\\\\.jsonc?\\\\'" . js-json-mode)))
"""
_SUBLIME = """\
{
  "clients": {
    "dsconfig": {
      "enabled": true,
      "command": ["dsconfig", "lsp"],
      "selector": "source.json | source.hjson | source.yaml | source.shell"
    }
  }
}
"""
_JETBRAINS = """\
{
  "id": "dsconfig",
  "name": "dsconfig",
  "programArgs": { "default": "dsconfig lsp" },
  "fileTypeMappings": [
    { "fileType": { "patterns": ["*.json", "*.jsonc"] }, "languageId": "json" },
    { "fileType": { "patterns": ["*.hjson"] }, "languageId": "hjson" },
    { "fileType": { "patterns": ["*.yaml", "*.yml"] }, "languageId": "yaml" },
    { "fileType": { "patterns": ["*.sh", "*.bash"] }, "languageId": "shellscript" }
  ]
}
"""
SERVERS: Mapping[str, LanguageServerSettings] = {
    "neovim": LanguageServerSettings(EditorSettingsFile(".nvim.lua", _NEOVIM)),
    "helix": LanguageServerSettings(EditorSettingsFile(".helix/languages.toml", _HELIX)),
    "jetbrains": LanguageServerSettings(
        EditorSettingsFile("lsp4ij-dsconfig/template.json", _JETBRAINS),
        "the template that LSP4IJ's `New Language Server` imports from a folder",
    ),
    "emacs": LanguageServerSettings(EditorSettingsFile("dsconfig.el", _EMACS), "your init file"),
    "sublime": LanguageServerSettings(
        EditorSettingsFile("LSP.sublime-settings", _SUBLIME),
        "the settings of the package LSP, in `Packages/User`",
    ),
}
"""Settings by editor. Zed starts only servers of its extensions, and VS Code has one of its own."""
