"""What starts the language server in an editor: its settings, ready to be put where it reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsconfig.schema.merge_editor_settings import EditorFile


class Server(NamedTuple):
    """Settings, and where they go: into this folder, or into the user's own."""

    file: EditorFile
    place: str = ""
    """In words, where the editor reads them only from the user's own settings."""


_NEOVIM = """\
-- Neovim 0.11 and later take the first half, those from 0.7 on the second.
local filetypes = { "json", "jsonc", "hjson", "yaml", "sh" }
if vim.lsp.config then
  vim.lsp.config("dsconfig", {
    cmd = { "dsconfig", "lsp" },
    filetypes = filetypes,
    root_markers = { "dsconfig.toml", "pyproject.toml", ".git" },
  })
  vim.lsp.enable("dsconfig")
else
  local client
  vim.api.nvim_create_autocmd("FileType", {
    pattern = filetypes,
    callback = function(opened)
      client = client or vim.lsp.start_client({
        name = "dsconfig",
        cmd = { "dsconfig", "lsp" },
        root_dir = vim.fn.getcwd(),
      })
      vim.lsp.buf_attach_client(opened.buf, client)
    end,
  })
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

# Helix does not know this one.
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
;; Emacs before 29 has no mode for JSON where the package json-mode is not installed.
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
_ZED = """\
{
  "lsp": {
    "json-language-server": { "binary": { "path": "dsconfig", "arguments": ["lsp"] } },
    "yaml-language-server": { "binary": { "path": "dsconfig", "arguments": ["lsp"] } }
  }
}
"""
_START = {"path": "dsconfig", "arguments": ["lsp"]}

SERVERS: Mapping[str, Server] = {
    "neovim": Server(EditorFile(".nvim.lua", _NEOVIM)),
    "helix": Server(EditorFile(".helix/languages.toml", _HELIX)),
    "zed": Server(
        EditorFile(
            ".zed/settings.json",
            _ZED,
            (
                (("lsp", "json-language-server", "binary"), _START),
                (("lsp", "yaml-language-server", "binary"), _START),
            ),
        )
    ),
    "jetbrains": Server(
        EditorFile("lsp4ij-dsconfig/template.json", _JETBRAINS),
        "the template that LSP4IJ's `New Language Server` imports from a folder",
    ),
    "emacs": Server(EditorFile("dsconfig.el", _EMACS), "your init file"),
    "sublime": Server(
        EditorFile("LSP.sublime-settings", _SUBLIME), "the settings of the package LSP, in `Packages/User`"
    ),
}
"""By editor. Zed takes servers from its extensions only: this one stands in for those of JSON and YAML."""
