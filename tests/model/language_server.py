"""A client of pyright's language server, as far as completion, signatures and hovers need one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

Json = dict[str, Any]


class LanguageServer:
    """A running `pyright-langserver`, with one folder open."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sent = folder, 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pyright.langserver", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )

    def __enter__(self) -> Self:
        root = {"uri": self.folder.as_uri(), "name": "folder"}
        markdown = {"contentFormat": ["markdown"]}
        completion = {
            "completionItem": {
                "documentationFormat": ["markdown"],
                "resolveSupport": {"properties": ["documentation", "detail"]},
            }
        }
        self.ask(
            "initialize",
            processId=None,
            rootUri=root["uri"],
            workspaceFolders=[root],
            capabilities={
                "textDocument": {"hover": markdown, "completion": completion},
                "workspace": {"configuration": True, "workspaceFolders": True},
            },
        )
        self.tell("initialized")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def open(self, name: str, text: str) -> str:
        """Open a text in the editor; its URI."""
        file = self.folder / name
        file.write_text(text)
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=document)
        return file.as_uri()

    def at(self, method: str, uri: str, text: str, mark: str) -> Any:
        """Ask something of the place right after `mark`."""
        before = text[: text.index(mark) + len(mark)]
        line = before.count("\n")
        place = {"line": line, "character": len(before) - before.rfind("\n") - 1}
        return self.ask(f"textDocument/{method}", textDocument={"uri": uri}, position=place)

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and wait for the answer; what the server asks meanwhile has no answer."""
        self.sent += 1
        self._send({"id": self.sent, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                count = len(message["params"].get("items", ())) if message.get("params") else 0
                self._send({"id": message["id"], "result": [None] * count})
            elif message.get("id") == self.sent:
                assert "error" not in message, message
                return message["result"]

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def _send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _receive(self) -> Json:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the language server has ended"
        found: Json = json.loads(self.process.stdout.read(length))
        return found
