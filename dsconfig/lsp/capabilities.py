"""What the server can do, and what it asks the editor to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.code_action import KINDS
from dsconfig.lsp.execute_command import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace

REQUESTS: Mapping[str, str] = {
    "textDocument/diagnostic": "diagnostics",
    "textDocument/codeAction": "code_action",
    "textDocument/willSaveWaitUntil": "code_action:on_save",
    "textDocument/hover": "hover",
    "textDocument/completion": "completion",
    "textDocument/documentSymbol": "document_symbol",
    "textDocument/foldingRange": "folding_range",
    "textDocument/documentLink": "document_link",
    "textDocument/definition": "definition",
    "textDocument/prepareRename": "rename:prepare",
    "textDocument/rename": "rename",
    "textDocument/inlayHint": "inlay_hint",
    "textDocument/codeLens": "code_lens",
    "workspace/executeCommand": "execute_command",
    "dsconfig/status": "status",
}
"""Each request, and the module here whose `answer(workspace, params)`, or other function, answers it."""
_WATCHED = "**/*.{toml,json,jsonc,hjson,yaml,yml,sh,bash,slurm,sbatch,py,ipynb,md,mk,txt}"
"""Settings, configs, and what may name a config or pin who reads it."""


def capabilities(workspace: Workspace) -> JsonObject:
    """What the server offers to an editor."""
    return {
        "positionEncoding": workspace.encoding,
        "textDocumentSync": {
            "openClose": True,
            "change": 2,
            "save": {"includeText": False},
            "willSaveWaitUntil": workspace.configuration.fix_on_save,
        },
        "diagnosticProvider": {
            "identifier": "dsconfig",
            "interFileDependencies": True,
            "workspaceDiagnostics": False,
        },
        "codeActionProvider": {"codeActionKinds": list(KINDS)},
        "hoverProvider": True,
        "completionProvider": {"triggerCharacters": ['"', "'", ":", " "]},
        "documentSymbolProvider": True,
        "foldingRangeProvider": True,
        "documentLinkProvider": {},
        "definitionProvider": True,
        "renameProvider": {"prepareProvider": True},
        "inlayHintProvider": True,
        "codeLensProvider": {},
        "executeCommandProvider": {"commands": list(COMMANDS)},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
    }


def watchers() -> JsonObject:
    """What the editor is asked to tell of."""
    return {
        "id": "dsconfig-files",
        "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": _WATCHED}]},
    }
