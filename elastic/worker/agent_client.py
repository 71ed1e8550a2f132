"""`AgentClient`: a worker's connection to the agent that started it, which answers from the same machine."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from typing import TypeAlias

from elastic.json_types import Json

Message: TypeAlias = "Mapping[str, Json]"
"""A request or a reply, as JSON carries it."""


class AgentClient:
    """Asks over the agent's Unix socket, one JSON line each way; the connection is lost with the agent."""

    def __init__(self, folder: str) -> None:
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.path.join(folder, "agent.sock"))
        self._file = self._socket.makefile("r", encoding="utf-8")

    def ask(self, request: str, **details: str | int) -> Message:
        """The agent's reply.  Raises `ConnectionError` if it has gone or could not reply."""
        message = {"request": request, **details}
        with self._lock:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._file.readline()
        if not line:
            raise ConnectionError("the elastic agent of this worker has gone")
        reply: Message = json.loads(line)
        if "error" in reply:
            raise ConnectionError(f"the elastic agent could not answer: {reply['error']}")
        return reply
