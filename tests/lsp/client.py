"""An editor, as far as a language server can tell: it talks to the installed command over stdio."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsconfig.lsp.protocol import uri_from_path

COMMAND = Path(sys.executable).parent / "dsconfig"
PATIENCE = 60
"""Seconds after which an answer is given up: of a server that hangs."""
SNIPPETS = {"textDocument": {"completion": {"completionItem": {"snippetSupport": True}}}}


class RefusedError(Exception):
    """The server's answer to a request is an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Editor:
    """A server, and what it said."""

    def __init__(self, folder: Path, capabilities: dict[str, Any] | None = None, **options: Any) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [str(COMMAND), "lsp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.aside: list[dict[str, Any]] = []
        """Messages that were not waited for."""
        self.numbers = iter(range(1, 1 << 30))
        self.versions: dict[str, int] = {}
        params = {
            "processId": None,
            "rootUri": uri_from_path(str(folder)),
            "capabilities": capabilities or {},
        }
        self.can = self.request("initialize", {**params, "initializationOptions": options})["capabilities"]
        self.notify("initialized", {})

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while header := self.process.stdout.readline():
            length = int(header.split(b":")[1]) if header.lower().startswith(b"content-length") else 0
            while (line := self.process.stdout.readline()).strip():
                length = int(line.split(b":")[1]) if line.lower().startswith(b"content-length") else length
            self.said.put(json.loads(self.process.stdout.read(length)))
        self.said.put(None)

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message of a kind; those before it are kept."""
        for index, message in enumerate(self.aside):
            if wanted(message):
                return self.aside.pop(index)
        while (message := self.said.get(timeout=PATIENCE)) is not None:
            if wanted(message):
                return message
            self.aside.append(message)
        raise EOFError("the server has gone")

    def ask(self, method: str, params: Any) -> int:
        number = next(self.numbers)
        self.send({"id": number, "method": method, "params": params})
        return number

    def answer(self, number: int) -> Any:
        message = self.wait(lambda message: message.get("id") == number)
        if "error" in message:
            raise RefusedError(message["error"])
        return message["result"]

    def request(self, method: str, params: Any = None) -> Any:
        return self.answer(self.ask(method, params))

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    # -- documents -----------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return name if ":" in name else uri_from_path(str(self.folder / name))

    def open(self, name: str, text: str, language: str = "json") -> list[dict[str, Any]]:
        """Open a text; returns its diagnostics."""
        uri = self.uri(name)
        self.versions[uri] = 1
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return self.found(name)

    def change(self, name: str, *changes: dict[str, Any]) -> None:
        uri = self.uri(name)
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    def write(self, name: str, text: str) -> list[dict[str, Any]]:
        """Replace the whole text; returns its diagnostics."""
        self.change(name, {"text": text})
        return self.found(name)

    def close(self, name: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def found(self, name: str) -> list[dict[str, Any]]:
        """The diagnostics of the newest version of a text."""
        uri = self.uri(name)

        def is_it(message: dict[str, Any]) -> bool:
            params = message.get("params", {})
            is_published = message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri
            return is_published and params.get("version") == self.versions.get(uri)

        diagnostics: list[dict[str, Any]] = self.wait(is_it)["params"]["diagnostics"]
        return diagnostics

    def on(self, method: str, name: str, **more: Any) -> Any:
        """A request about a text."""
        return self.request(f"textDocument/{method}", {"textDocument": {"uri": self.uri(name)}, **more})

    def at(self, method: str, name: str, text: str, language: str = "json", **more: Any) -> Any:
        """A request about the place of the bar in a text, which is opened without it."""
        offset = text.index("|")
        text = text[:offset] + text[offset + 1 :]
        if self.uri(name) in self.versions:
            self.write(name, text)
        else:
            self.open(name, text, language)
        return self.on(method, name, position=position(text, offset), **more)

    def quit(self) -> int:
        """Shut the server down; returns its exit code."""
        self.request("shutdown")
        self.notify("exit", None)
        return self.end()

    def end(self) -> int:
        """Wait for the process to end; returns its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE)
        self.listener.join(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()
        return code


def position(text: str, offset: int) -> dict[str, int]:
    """The position of an offset, in UTF-16."""
    before = text[:offset].split("\n")
    return {"line": len(before) - 1, "character": len(before[-1].encode("utf-16-le")) // 2}


def whole(text: str) -> dict[str, Any]:
    """The range of all of a text."""
    return {"start": position(text, 0), "end": position(text, len(text))}


def edited(text: str, edits: list[dict[str, Any]]) -> str:
    """A text after edits, whose positions count UTF-16."""
    lines = [0]
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)

    def offset(place: dict[str, int]) -> int:
        start = lines[place["line"]]
        line = text[start : lines[place["line"] + 1]]
        return start + len(line.encode("utf-16-le")[: 2 * place["character"]].decode("utf-16-le"))

    for edit in sorted(edits, key=lambda edit: -offset(edit["range"]["start"])):
        start, end = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:start] + edit["newText"] + text[end:]
    return text
