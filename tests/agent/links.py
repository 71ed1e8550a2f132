"""`Links`: the network between one node and the members of its store, which can be cut."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Sequence

_PATIENCE = 2.0
"""Seconds that an end gets to take what it was sent; a socket's buffers hold all that a node ever sends."""
_LOOK = 0.1


class Links:
    """Forwards connections, each on a port of its own for each member, in a thread.

    While they are cut, nothing passes and nothing is closed: what a broken cable does.
    """

    def __init__(self, members: Sequence[tuple[str, int]]) -> None:
        self._members: dict[socket.socket, tuple[str, int]] = {}
        self._other: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._whole = threading.Event()
        self._whole.set()
        self._open = True
        for member in members:
            listener = socket.create_server(("127.0.0.1", 0))
            self._members[listener] = member
            self._selector.register(listener, selectors.EVENT_READ)
        self.ports: list[int] = [listener.getsockname()[1] for listener in self._members]
        """Where the node finds the members, in their order."""
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self._whole.clear()

    def restore(self) -> None:
        """Let everything pass again, what was sent meanwhile included."""
        self._whole.set()

    def close(self) -> None:
        """End the thread, and with it all connections."""
        self._open = False
        self._whole.set()

    def _run(self) -> None:
        while self._open:
            for key, _ in self._selector.select(_LOOK):
                self._whole.wait()
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one in self._members:
                    self._accept(one)
                elif one in self._other:
                    self._forward(one)
        for one in [*self._members, *self._other]:
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(self._members[listener], _PATIENCE)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.settimeout(_PATIENCE)
            self._other[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if data := one.recv(1 << 16):
                self._other[one].sendall(data)
                return
        for end in (one, self._other[one]):
            self._selector.unregister(end)
            del self._other[end]
            end.close()
