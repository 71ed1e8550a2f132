"""`AgentClient`: a worker's connection to the agent on the same machine."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping
from typing import TypeAlias

from elastic.json_files import Json

Message: TypeAlias = "Mapping[str, Json]"
"""Request to the agent, or its reply, as JSON."""
HOLD_LIVENESS_PORT = b"hold-liveness-port\n"
"""Request for the listening socket of `elastic.agent.liveness_port`."""


class AgentClient:
    """Client that sends requests as JSON lines over the agent's Unix socket.

    The connection is lost when the agent ends.

    This process, and processes that it forks, hold the node's liveness port open until they end.
    """

    def __init__(self, folder: str) -> None:
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.path.join(folder, "agent.sock"))
        self._liveness = _receive_liveness_port(self._socket)
        self._file = self._socket.makefile("r", encoding="utf-8")

    def ask(self, request: str, **details: str | int) -> Message:
        """Send a request and return the reply.

        Raises:
            ConnectionError: the agent has ended or cannot reply.
        """
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


def _receive_liveness_port(agent: socket.socket) -> list[int]:
    """Receive the node's liveness port, if any, as a file descriptor.

    Raises:
        ConnectionError: the agent has ended.
    """
    agent.sendall(HOLD_LIVENESS_PORT)
    count, files, *_ = socket.recv_fds(agent, 1, 1)
    if count != b"%d" % len(files):
        raise ConnectionError("the elastic agent of this worker has ended, or there are too many open files")
    return files
