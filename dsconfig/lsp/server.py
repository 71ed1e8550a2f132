"""The service over stdio: pygls carries the messages, which stay plain data.

Messages are taken in as they come; what takes time begins once nothing more is waiting. So of ten keystrokes
in a row the last one is judged, and a request that is cancelled meanwhile is not answered.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from cattrs import Converter
from pygls.protocol import JsonRPCProtocol
from pygls.server import JsonRPCServer

from dsconfig.lsp.errors import CANCELLED
from dsconfig.lsp.service import Service, answered, failed

if TYPE_CHECKING:
    from typing import BinaryIO

    from dsconfig.json_types import Json, JsonObject

_QUIET = 0.002
"""Seconds after a message in which another one may come that makes it void."""


class Wire(JsonRPCProtocol):
    """pygls' protocol, with every message as plain data for the service."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.service = Service()
        self._asked: dict[str | int, asyncio.TimerHandle] = {}
        self._due: asyncio.TimerHandle | None = None

    def structure_message(self, data: JsonObject) -> JsonObject:
        """The message as it came."""
        return data

    def handle_message(self, message: Json) -> None:
        """Take a message in; what takes time is done later."""
        method, params = message.get("method"), message.get("params")
        if method == "exit":
            self._server.shutdown()  # type: ignore[no-untyped-call]
        elif method == "$/cancelRequest":
            self._cancel(params["id"])
        elif method is not None and "id" in message:
            later = asyncio.get_running_loop().call_later(_QUIET, self._answer, message["id"], method, params)
            self._asked[message["id"]] = later
        elif method is not None:
            self.service.take(method, params)
            self._tell_later(_QUIET)

    def _cancel(self, number: str | int) -> None:
        if (later := self._asked.pop(number, None)) is not None:
            later.cancel()
            self._send_data(failed(number, CANCELLED, "cancelled"))

    def _answer(self, number: str | int, method: str, params: Json) -> None:
        del self._asked[number]
        self._send_data(answered(self.service, number, method, params))
        self._tell_later(0)

    def _tell_later(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(seconds, self._tell)

    def _tell(self) -> None:
        """Say what was found in one text, and take messages in before the next one."""
        self._due = None
        message = next(self.service.pending(), None)
        if message is not None:
            self._send_data(message)
            self._tell_later(0)


def serve(stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> int:
    """Serve the editor that started this process, until it says so or goes away; returns the exit code."""
    output = stdout or sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever is printed must not come between the messages
    server = JsonRPCServer(Wire, Converter)
    server.start_io(stdin, output)
    wire = server.protocol
    assert isinstance(wire, Wire)
    return 0 if wire.service.is_shut_down else 1
