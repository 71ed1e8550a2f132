"""Transport-independent language server: requests, notifications and capabilities as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig.core.version import __version__
from dsconfig.launch import repository_files
from dsconfig.lsp.code_action import KINDS
from dsconfig.lsp.diagnostics import DiagnosticsPublisher
from dsconfig.lsp.execute_command import COMMANDS
from dsconfig.lsp.protocol import ENCODINGS, INTERNAL, INVALID, NOT_FOUND, NOT_INITIALIZED, RequestError
from dsconfig.lsp.workspace import WARNING, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json, JsonObject


class LanguageServer:
    """A language server for one editor."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.is_initialized = self.is_shut_down = False
        self._publisher = DiagnosticsPublisher(self.workspace)

    def handle_request(self, method: str, params: Json) -> Json:
        """Answer a request of the editor.

        Raises:
            RequestError: the request fails.
        """
        if self.is_shut_down:
            raise RequestError(INVALID, f"{method} after shutdown")
        if method == "initialize":
            if self.is_initialized:
                raise RequestError(INVALID, "initialize was already called")
            answer = self._answer_initialize(params)
            self.is_initialized = True
            return answer
        if not self.is_initialized:
            raise RequestError(NOT_INITIALIZED, f"{method} before initialize")
        if method == "shutdown":
            self.is_shut_down = True
            self.workspace.close_all_documents()
            return None
        if method not in REQUESTS:
            raise RequestError(NOT_FOUND, f"{method} is not supported")
        module, _, name = REQUESTS[method].partition(":")
        return getattr(import_module(f"dsconfig.lsp.{module}"), name)(self.workspace, params)

    def notify(self, method: str, params: Json) -> None:
        """Handle a notification; `pending_messages` yields the resulting messages."""
        workspace = self.workspace
        match method:
            case "initialized":
                self._watch_file_tree()
            case "textDocument/didOpen":
                workspace.open_document(params["textDocument"])
            case "textDocument/didChange":
                document = params["textDocument"]
                workspace.change_document(document["uri"], document.get("version"), params["contentChanges"])
            case "textDocument/didClose":
                workspace.close_document(params["textDocument"]["uri"])
            case "textDocument/didSave" if not self._does_editor_watch_files:
                workspace.recheck_all_documents()
            case "workspace/didChangeWatchedFiles":
                if any(each["uri"] not in workspace.texts for each in params["changes"]):
                    workspace.recheck_all_documents()
            case "workspace/didChangeWorkspaceFolders":
                workspace.recheck_all_documents()
            case "workspace/didChangeConfiguration":
                settings = params.get("settings") or {}
                workspace.apply_settings(settings.get("dsconfig") or settings)

    def handle_notification(self, method: str, params: Json) -> None:
        """Handle a notification, logging any error to the editor.

        Notifications before `initialize` and after `shutdown` are ignored, as the protocol requires.
        """
        if not self.is_initialized or self.is_shut_down:
            return
        try:
            self.notify(method, params)
        except Exception as error:
            text = f"{method}: {type(error).__name__}: {error}"
            self.workspace.outbox.append(
                _notification_message("window/logMessage", {"type": 1, "message": text})
            )

    def pending_messages(self) -> Iterator[JsonObject]:
        """Yield the messages to send to the editor: requests and new diagnostics."""
        workspace = self.workspace
        while workspace.outbox or workspace.stale or workspace.closed:
            if workspace.outbox:
                yield workspace.outbox.pop(0)
                continue
            workspace.outbox += self._publisher.next_messages()
            for problem in workspace.configuration.problems:
                workspace.show_message(f"dsconfig: {problem}", WARNING)
            workspace.configuration.problems.clear()

    def _answer_initialize(self, params: JsonObject) -> JsonObject:
        workspace = self.workspace
        workspace.client = params.get("capabilities") or {}
        workspace.options = params.get("initializationOptions") or {}
        workspace.apply_settings(workspace.options)
        encodings = workspace.client.get("general", {}).get("positionEncodings") or ["utf-16"]
        workspace.encoding = next((each for each in ENCODINGS if each in encodings), "utf-16")
        server = {"name": "dsconfig", "version": __version__}
        return {"capabilities": server_capabilities(workspace), "serverInfo": server}

    @property
    def _does_editor_watch_files(self) -> bool:
        """Whether the editor reports changes of files on disk."""
        capability = self.workspace.client.get("workspace", {}).get("didChangeWatchedFiles", {})
        return bool(capability.get("dynamicRegistration")) or self.workspace.options.get("watches") is True

    def _watch_file_tree(self) -> None:
        """Cache the state of the file tree, for as long as the editor reports changes."""
        if not self._does_editor_watch_files:
            repository_files.stop_watching_files()
        elif self.workspace.options.get("watches") is not True:
            self.workspace.send_request(
                "client/registerCapability", {"registrations": [file_watcher_registration()]}
            )


def _notification_message(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def response_to_request(service: LanguageServer, number: str | int, method: str, params: Json) -> JsonObject:
    """Return the response to a request, which may be an error."""
    try:
        return {"jsonrpc": "2.0", "id": number, "result": service.handle_request(method, params)}
    except RequestError as error:
        return error_response(number, error.code, str(error))
    except Exception as error:  # a bug in the server must not end it
        return error_response(number, INTERNAL, f"{type(error).__name__}: {error}")


def error_response(number: str | int, code: int, message: str) -> JsonObject:
    """Return the response to a failed request."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


# Capabilities.

REQUESTS: Mapping[str, str] = {
    "textDocument/diagnostic": "diagnostics:answer_diagnostic",
    "textDocument/codeAction": "code_action:answer_code_action",
    "textDocument/willSaveWaitUntil": "code_action:answer_will_save",
    "textDocument/hover": "hover:answer_hover",
    "textDocument/completion": "completion:answer_completion",
    "textDocument/documentSymbol": "document_symbol:answer_document_symbol",
    "textDocument/foldingRange": "folding_range:answer_folding_range",
    "textDocument/documentLink": "document_link:answer_document_link",
    "textDocument/definition": "document_link:answer_definition",
    "textDocument/prepareRename": "rename:answer_prepare_rename",
    "textDocument/rename": "rename:answer_rename",
    "textDocument/inlayHint": "inlay_hint:answer_inlay_hint",
    "textDocument/codeLens": "code_lens:answer_code_lens",
    "workspace/executeCommand": "execute_command:answer_execute_command",
    "dsconfig/status": "status_bar:answer_status",
}
"""Module and function that answer each request; the function takes the workspace and the parameters."""
_WATCHED = "**/*.{toml,json,jsonc,hjson,yaml,yml,sh,bash,slurm,sbatch,py,ipynb,md,mk,txt}"
"""Patterns of settings files, configs, and files that may name a config or pin the version of its consumer."""


def server_capabilities(workspace: Workspace) -> JsonObject:
    """Return the capabilities of the server."""
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


def file_watcher_registration() -> JsonObject:
    """Return the registration of the file patterns that the editor should watch."""
    return {
        "id": "dsconfig-files",
        "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": _WATCHED}]},
    }
