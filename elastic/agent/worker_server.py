"""`WorkerServer`: where this node's workers ask their agent, over a Unix socket, one JSON line each way.

The agent has the connection to the store; a worker needs neither that nor torch.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable

from elastic.worker.agent_client import Message


class WorkerServer:
    """Serves until it is closed; each worker has a thread of its own."""

    def __init__(self, path: str, reply: Callable[[Message], Message]) -> None:
        self._server = _Server(path, reply)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="dsconfig-worker-server",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, reply: Callable[[Message], Message]) -> None:
        super().__init__(path, _Connection)
        self.reply = reply


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer every line until the worker hangs up."""
        assert isinstance(self.server, _Server)
        try:
            for line in self.rfile:
                reply = self._reply(self.server, line)
                self.wfile.write(json.dumps(reply).encode() + b"\n")
        except OSError:
            return  # the worker has gone, perhaps killed

    @staticmethod
    def _reply(server: _Server, line: bytes) -> Message:
        try:
            return server.reply(json.loads(line))
        except Exception as error:  # a worker's request must not end the agent
            return {"error": f"{type(error).__name__}: {error}"}
