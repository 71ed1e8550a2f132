"""The language server without a wire: requests and notifications go in and come out as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

from dsconfig._version import __version__
from dsconfig.lsp.diagnostics import items
from dsconfig.lsp.positions import ENCODINGS
from dsconfig.lsp.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.json_types import Json, JsonObject

REQUESTS: Mapping[str, str] = {
    "textDocument/diagnostic": "diagnostics",
    "textDocument/codeAction": "actions",
    "textDocument/hover": "hover",
    "textDocument/completion": "completion",
}
"""Each request, and the module here whose `answer(workspace, params)` answers it."""
NOT_FOUND, INTERNAL, CANCELLED = -32601, -32603, -32800


class RequestError(Exception):
    """A request that cannot be answered, with the protocol's code for the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Service:
    """One editor's server."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.is_shut_down = False
        self._pulls = False
        """Whether the editor asks for diagnostics, and is not told of them unasked."""

    def request(self, method: str, params: Json) -> Json:
        """The answer to a request.

        Raises:
            RequestError: there is none.
        """
        if method == "initialize":
            return self._initialize(params)
        if method == "shutdown":
            self.is_shut_down = True
            return None
        if method not in REQUESTS:
            raise RequestError(NOT_FOUND, f"{method} is not answered here")
        module = import_module(f"dsconfig.lsp.{REQUESTS[method]}")
        return module.answer(self.workspace, params)

    def notify(self, method: str, params: Json) -> list[JsonObject]:
        """Take notice of something; returns the messages that the editor is to get at once."""
        workspace = self.workspace
        match method:
            case "textDocument/didOpen":
                workspace.open(params["textDocument"])
            case "textDocument/didChange":
                document = params["textDocument"]
                workspace.change(document["uri"], document.get("version"), params["contentChanges"])
            case "textDocument/didClose":
                uri = params["textDocument"]["uri"]
                workspace.close(uri)
                return [] if self._pulls else [_published(uri, None, [])]
        return []

    def pending(self) -> Iterator[JsonObject]:
        """The messages that say what was found in the texts that changed since the last time."""
        while self.workspace.stale:
            uri = next(iter(self.workspace.stale))
            del self.workspace.stale[uri]
            if self._pulls:
                continue
            judged = self.workspace.judged(uri)
            if judged is not None:
                yield _published(uri, judged.text.version, items(judged))

    def take(self, method: str, params: Json) -> list[JsonObject]:
        """The same, whatever comes: what goes wrong is told in the editor's log."""
        try:
            return self.notify(method, params)
        except Exception as error:
            return [_logged(f"{method}: {type(error).__name__}: {error}")]

    def handle(self, message: str) -> str:
        """Take in one JSON-RPC message; returns a list of messages, as JSON text like the first."""
        data = json.loads(message)
        method, params, out = data.get("method"), data.get("params"), list[JsonObject]()
        if method is not None and "id" in data:
            out.append(answered(self, data["id"], method, params))
        elif method is not None:
            out += self.take(method, params)
        return json.dumps([*out, *self.pending()])

    def _initialize(self, params: JsonObject) -> JsonObject:
        workspace = self.workspace
        workspace.client = params.get("capabilities") or {}
        workspace.options = params.get("initializationOptions") or {}
        offered = workspace.client.get("general", {}).get("positionEncodings") or ["utf-16"]
        workspace.encoding = next((each for each in ENCODINGS if each in offered), "utf-16")
        self._pulls = "diagnostic" in workspace.client.get("textDocument", {})
        return {
            "capabilities": self._capabilities(),
            "serverInfo": {"name": "dsconfig", "version": __version__},
        }

    def _capabilities(self) -> JsonObject:
        return {
            "positionEncoding": self.workspace.encoding,
            "textDocumentSync": {"openClose": True, "change": 2, "save": True},
            "diagnosticProvider": {
                "identifier": "dsconfig",
                "interFileDependencies": True,
                "workspaceDiagnostics": False,
            },
            "codeActionProvider": {"codeActionKinds": ["quickfix", "source.fixAll.dsconfig"]},
            "hoverProvider": True,
            "completionProvider": {"triggerCharacters": ['"', ":", " "]},
        }


def _published(uri: str, version: int | None, found: list[JsonObject]) -> JsonObject:
    params: JsonObject = {"uri": uri, "diagnostics": found}
    if version is not None:
        params["version"] = version
    return {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}


def _logged(text: str) -> JsonObject:
    return {"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 1, "message": text}}


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
