"""Language server without a transport: requests, notifications and capabilities as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig.core.version import __version__
from dsconfig.launch import repository
from dsconfig.lsp.code_action import KINDS
from dsconfig.lsp.diagnostics import Publisher
from dsconfig.lsp.execute_command import COMMANDS
from dsconfig.lsp.protocol import ENCODINGS, INTERNAL, INVALID, NOT_FOUND, NOT_INITIALIZED, RequestError
from dsconfig.lsp.workspace import WARNING, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json, JsonObject


# The language server without a wire: requests and notifications go in and come out as plain data.


class Service:
    """One editor's server."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.is_initialized = self.is_shut_down = False
        self._publisher = Publisher(self.workspace)

    def request(self, method: str, params: Json) -> Json:
        """The answer to a request.

        Raises:
            RequestError: there is none.
        """
        if self.is_shut_down:
            raise RequestError(INVALID, f"{method} after shutdown")
        if method == "initialize":
            if self.is_initialized:
                raise RequestError(INVALID, "initialize a second time")
            answer = self._initialize(params)
            self.is_initialized = True
            return answer
        if not self.is_initialized:
            raise RequestError(NOT_INITIALIZED, f"{method} before initialize")
        if method == "shutdown":
            self.is_shut_down = True
            self.workspace.clear()
            return None
        if method not in REQUESTS:
            raise RequestError(NOT_FOUND, f"{method} is not answered here")
        module, _, name = REQUESTS[method].partition(":")
        return getattr(import_module(f"dsconfig.lsp.{module}"), name or "answer")(self.workspace, params)

    def notify(self, method: str, params: Json) -> None:
        """Take notice of something; what the editor is to know of it is among what is `pending`."""
        workspace = self.workspace
        match method:
            case "initialized":
                self._watch()
            case "textDocument/didOpen":
                workspace.open(params["textDocument"])
            case "textDocument/didChange":
                document = params["textDocument"]
                workspace.change(document["uri"], document.get("version"), params["contentChanges"])
            case "textDocument/didClose":
                workspace.close(params["textDocument"]["uri"])
            case "textDocument/didSave" if not self._watches:
                workspace.reload()
            case "workspace/didChangeWatchedFiles":
                if any(each["uri"] not in workspace.texts for each in params["changes"]):
                    workspace.reload()
            case "workspace/didChangeWorkspaceFolders":
                workspace.reload()
            case "workspace/didChangeConfiguration":
                settings = params.get("settings") or {}
                workspace.configure(settings.get("dsconfig") or settings)

    def take(self, method: str, params: Json) -> None:
        """The same, whatever comes: what goes wrong is told in the editor's log.

        The protocol drops what comes before `initialize` or after `shutdown`.
        """
        if not self.is_initialized or self.is_shut_down:
            return
        try:
            self.notify(method, params)
        except Exception as error:
            text = f"{method}: {type(error).__name__}: {error}"
            self.workspace.outbox.append(_message("window/logMessage", {"type": 1, "message": text}))

    def pending(self) -> Iterator[JsonObject]:
        """The messages that the editor is to get: questions to it, and what was found since the last time."""
        workspace = self.workspace
        while workspace.outbox or workspace.stale or workspace.closed:
            if workspace.outbox:
                yield workspace.outbox.pop(0)
                continue
            workspace.outbox += self._publisher.next()
            for problem in workspace.configuration.problems:
                workspace.say(f"dsconfig: {problem}", WARNING)
            workspace.configuration.problems.clear()

    def handle(self, message: str) -> str:
        """Take in one JSON-RPC message; returns a list of messages, as JSON text like the first."""
        data = json.loads(message)
        method, params, out = data.get("method"), data.get("params"), list[JsonObject]()
        if method is not None and "id" in data:
            out.append(answered(self, data["id"], method, params))
        elif method is not None:
            self.take(method, params)
        return json.dumps([*out, *self.pending()])

    def _initialize(self, params: JsonObject) -> JsonObject:
        workspace = self.workspace
        workspace.client = params.get("capabilities") or {}
        workspace.options = params.get("initializationOptions") or {}
        workspace.configure(workspace.options)
        offered = workspace.client.get("general", {}).get("positionEncodings") or ["utf-16"]
        workspace.encoding = next((each for each in ENCODINGS if each in offered), "utf-16")
        server = {"name": "dsconfig", "version": __version__}
        return {"capabilities": capabilities(workspace), "serverInfo": server}

    @property
    def _watches(self) -> bool:
        """Whether the editor tells of files that change."""
        known = self.workspace.client.get("workspace", {}).get("didChangeWatchedFiles", {})
        return bool(known.get("dynamicRegistration")) or self.workspace.options.get("watches") is True

    def _watch(self) -> None:
        """What is found in the tree around configs holds until the editor tells of a change."""
        if not self._watches:
            repository.stop_watching()
        elif self.workspace.options.get("watches") is not True:
            self.workspace.ask("client/registerCapability", {"registrations": [watchers()]})


def _message(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answered(service: Service, number: str | int, method: str, params: Json) -> JsonObject:
    """The response to a request, whatever becomes of it."""
    try:
        return {"jsonrpc": "2.0", "id": number, "result": service.request(method, params)}
    except RequestError as error:
        return failed(number, error.code, str(error))
    except Exception as error:  # the fault is ours, and the editor goes on
        return failed(number, INTERNAL, f"{type(error).__name__}: {error}")


def failed(number: str | int, code: int, message: str) -> JsonObject:
    """The response to a request that came to nothing."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


# What the server can do, and what it asks the editor to tell.

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
