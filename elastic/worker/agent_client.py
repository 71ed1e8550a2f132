"""`AgentClient`: connection of a worker to its agent on the same machine."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from typing import TypeAlias

from elastic.json_files import Json

Message: TypeAlias = "Mapping[str, Json]"
"""Request or reply, as JSON."""


class AgentClient:
    """Send requests over the agent's Unix socket as JSON lines; the connection ends with the agent."""

    def __init__(self, folder: str) -> None:
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.path.join(folder, "agent.sock"))
        self._file = self._socket.makefile("r", encoding="utf-8")

    def ask(self, request: str, **details: str | int) -> Message:
        """Reply of the agent.  Raises `ConnectionError` if it has ended or cannot reply."""
        message = {"request": request, **details}
        with self._lock:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._file.readline()
        if not line:
            raise ConnectionError("the elastic agent of this worker has ended")
        reply: Message = json.loads(line)
        if "error" in reply:
            raise ConnectionError(f"the elastic agent could not answer: {reply['error']}")
        return reply
