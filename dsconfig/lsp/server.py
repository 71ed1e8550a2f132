"""The service over stdio: pygls carries the messages, which stay plain data.

Messages are taken in as they come; what takes time begins once nothing more is waiting. So of ten keystrokes
in a row the last one is judged, and a request that is cancelled meanwhile is not answered.
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

from dsconfig.lsp.protocol import CANCELLED
from dsconfig.lsp.service import Service, answered, failed

if TYPE_CHECKING:
    from typing import BinaryIO

    from dsconfig.core.json_types import Json, JsonObject

GONE: Final = {"method": "exit"}
"""Stands for the end of the input: nobody waits for answers any more."""
LARGEST_MESSAGE = 2**30
"""Bytes; a header that says more is no header, and the message that it stands before is passed over."""
_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*(\d{1,10})[ \t]*\r?\n\Z", re.IGNORECASE | re.ASCII)
_QUIET = 0.002
"""Seconds after a message in which another one may come that makes it void."""


class Wire(JsonRPCProtocol):
    """pygls' protocol, with every message as plain data for the service."""

    def __init__(self, server: JsonRPCServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.service = Service()
        self.unread = 0
        """Messages that have come, and were not taken in yet."""
        self.is_over = asyncio.Event()
        self._is_leaving = False
        """Whether `exit` has come; requests before it are still answered."""
        self._asked: dict[str | int, tuple[str, Json]] = {}
        self._due: asyncio.TimerHandle | None = None

    def handle_message(self, message: Json) -> None:
        """Take a message in; what takes time is done later."""
        self.unread -= 1
        if not isinstance(message, dict):
            return
        method, params = message.get("method"), message.get("params")
        if method == "exit":
            self._is_leaving = True
            if message is GONE or not self._asked:
                self.is_over.set()
        elif method == "initialize" and "id" in message:  # what follows at once needs its outcome
            self._send_data(answered(self.service, message["id"], method, params))
        elif method == "$/cancelRequest":
            self._cancel(params)
        elif method is not None and "id" in message:
            self._asked[message["id"]] = method, params
        elif method is not None:
            self.service.take(method, params)
        self._go_on(_QUIET)

    def _cancel(self, params: Json) -> None:
        number: Json = params.get("id") if isinstance(params, dict) else None
        if self._asked.pop(number, None) is not None:
            self._send_data(failed(number, CANCELLED, "cancelled"))

    def _go_on(self, seconds: float) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(seconds, self._work)

    def _work(self) -> None:
        """Do one piece of what is to be done, unless there is more to be taken in first."""
        self._due = None
        if self.unread:
            self._go_on(_QUIET)
        elif self._asked:
            number = next(iter(self._asked))
            self._send_data(answered(self.service, number, *self._asked.pop(number)))
            self._go_on(0)
        elif self._is_leaving:
            self.is_over.set()
        elif (message := next(self.service.pending(), None)) is not None:
            self._send_data(message)
            self._go_on(0)


def serve(stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> int:
    """Serve the editor that started this process, until it says so or goes away; returns the exit code."""
    output = stdout or os.fdopen(os.dup(1), "wb")
    sys.stdout = sys.stderr  # what is printed must not come between the messages
    wire = JsonRPCServer(Wire, Converter).protocol
    assert isinstance(wire, Wire)
    wire.set_writer(StdoutWriter(output))
    try:
        # At the end of the process nobody may be reading `sys.stdin` itself.
        asyncio.run(_run(wire, stdin or os.fdopen(os.dup(0), "rb")))
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    return 0 if wire.service.is_shut_down else 1


async def _run(wire: Wire, stdin: BinaryIO) -> None:
    loop = asyncio.get_running_loop()

    def hand_over(body: bytes | None) -> None:
        wire.unread += 1
        loop.call_soon_threadsafe(wire.handle_message, GONE if body is None else _parsed(body))

    threading.Thread(target=_listen, args=(stdin, hand_over), daemon=True).start()
    await wire.is_over.wait()


def _listen(stdin: BinaryIO, hand_over: Callable[[bytes | None], None]) -> None:
    """Hand over each message; None at the end."""
    while header := stdin.readline():
        length = 0
        while header.strip():
            # Behind a body that was passed over the next header stands on the same line.
            if (found := _LENGTH.search(header)) is not None:
                length = int(found[1])
            header = stdin.readline()
        if 0 < length <= LARGEST_MESSAGE:
            body = stdin.read(length)
            hand_over(body)
            if b'"exit"' in body and _parsed(body).get("method") == "exit":
                return
    hand_over(None)


def _parsed(body: bytes) -> JsonObject:
    """The message; what is none says nothing."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
