"""Run the language server over stdio, using pygls to exchange messages as plain data.

Messages are queued as they arrive, and slow work starts only when the queue is empty: after ten keystrokes in a row,
only the last version is checked, and a canceled request is not answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cattrs import Converter
from pygls.io_ import StdoutWriter
from pygls.protocol import JsonRPCProtocol
from pygls.server import JsonRPCServer

from dsconfig.lsp.language_server import LanguageServer, error_response, response_to_request
from dsconfig.lsp.protocol import CANCELLED

if TYPE_CHECKING:
    from typing import BinaryIO

    from dsconfig.core.json_types import Json, JsonObject

END_OF_INPUT: Final = {"method": "exit"}
"""Queued message that marks the end of the input, after which no more responses are expected."""
LARGEST_MESSAGE = 2**30
"""Maximal size of a message in bytes; a message whose header states a larger size is ignored."""
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,10})[ \t]*\r?\n\Z", re.IGNORECASE | re.ASCII)
_QUIET = 0.002
"""Seconds to wait after a message for another one that supersedes it."""


class ServiceProtocol(JsonRPCProtocol):
    """A pygls protocol that passes every message to the language server as plain data."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.service = LanguageServer()
        self.unread = 0
        """Messages received but not handled yet."""
        self.is_over = asyncio.Event()
        self._is_leaving = False
        """Whether `exit` was received; earlier requests are still answered."""
        self._requests: dict[str | int, tuple[str, Json]] = {}
        self._due: asyncio.TimerHandle | None = None

    def handle_message(self, message: Json) -> None:
        """Handle or queue a message."""
        self.unread -= 1
        if not isinstance(message, dict):
            return
        method, params = message.get("method"), message.get("params")
        if method == "exit":
            self._is_leaving = True
            if message is END_OF_INPUT or not self._requests:
                self.is_over.set()
        elif method == "initialize" and "id" in message:  # the following messages depend on it
            self._send_data(response_to_request(self.service, message["id"], method, params))
        elif method == "$/cancelRequest":
            self._cancel_request(params)
        elif method is not None and "id" in message:
            self._requests[message["id"]] = method, params
        elif method is not None:
            self.service.handle_notification(method, params)
        self._schedule_next(_QUIET)

    def _cancel_request(self, params: Json) -> None:
        number: Json = params.get("id") if isinstance(params, dict) else None
        if self._requests.pop(number, None) is not None:
            self._send_data(error_response(number, CANCELLED, "cancelled"))

    def _schedule_next(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(seconds, self._run_next)

    def _run_next(self) -> None:
        """Answer a request or send a message, unless more input is waiting."""
        self._due = None
        if self.unread:
            self._schedule_next(_QUIET)
        elif self._requests:
            number = next(iter(self._requests))
            self._send_data(response_to_request(self.service, number, *self._requests.pop(number)))
            self._schedule_next(0)
        elif self._is_leaving:
            self.is_over.set()
        elif (message := next(self.service.pending_messages(), None)) is not None:
            self._send_data(message)
            self._schedule_next(0)


def serve_stdio(stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> int:
    """Serve the editor until it exits or disconnects, and return the exit code."""
    output = stdout or os.fdopen(os.dup(1), "wb")
    sys.stdout = sys.stderr  # print must not write between the messages
    protocol = JsonRPCServer(ServiceProtocol, Converter).protocol
    assert isinstance(protocol, ServiceProtocol)
    protocol.set_writer(StdoutWriter(output))
    try:
        # Reading `sys.stdin` itself would block the interpreter's shutdown.
        asyncio.run(_run_event_loop(protocol, stdin or os.fdopen(os.dup(0), "rb")))
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0 if protocol.service.is_shut_down else 1


async def _run_event_loop(protocol: ServiceProtocol, stdin: BinaryIO) -> None:
    loop = asyncio.get_running_loop()

    def deliver(body: bytes | None) -> None:
        protocol.unread += 1
        loop.call_soon_threadsafe(
            protocol.handle_message, END_OF_INPUT if body is None else _parse_message(body)
        )

    threading.Thread(target=_read_messages, args=(stdin, deliver), daemon=True).start()
    await protocol.is_over.wait()


def _read_messages(stdin: BinaryIO, deliver: Callable[[bytes | None], None]) -> None:
    """Pass each input message to `deliver`, and None at the end of the input."""
    while header := stdin.readline():
        length = 0
        while header.strip():
            # After an ignored body, the next header is on the same line.
            if (match := _LENGTH.search(header)) is not None:
                length = int(match[1])
            header = stdin.readline()
        if 0 < length <= LARGEST_MESSAGE:
            body = stdin.read(length)
            deliver(body)
            if b'"exit"' in body and _parse_message(body).get("method") == "exit":
                return
    deliver(None)


def _parse_message(body: bytes) -> JsonObject:
    """Parse a message; invalid JSON becomes an empty message."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
