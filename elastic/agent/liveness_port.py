"""`LivenessPort`: a port that is open while any process of this node lives; `ExitDetector`: detects closed ports.

The agent opens the port, and each worker holds the same listening socket (`elastic.worker.agent_client`). So the kernel
rejects connections only after the agent and all of its workers have ended, which is as conclusive as an expired lease.
A frozen process still holds its socket, and a host without power or network answers nothing; both are detected because
their heartbeats stop.

A rejected connection alone proves nothing, since a firewall may also reject connections to live hosts. So an observer
connects while the node is healthy, and both ends compare the addresses of the connection, which differ if there is a
proxy in between. Only if the agent's kernel closes this connection in order, and then rejects another one, has the node
ended.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence

from elastic.agent.failure_detector import ProcessExit
from elastic.agent.job_state import JobMember
from elastic.worker.worker_lease import lease_clock

_MAX_OBSERVERS = 64
"""Maximum number of observers' connections; above it, the oldest is closed. Four nodes watch each member."""
_LONGEST = 512
"""Maximum length in bytes of the greeting that a liveness port sends."""
_WAKE = 0.2
"""Seconds between two checks whether the port should be closed."""
_PROBE = 0.05
"""Seconds that a host has to accept or reject a connection; a host that does neither may be cut off."""
_RETRY = 5.0
"""Seconds until an observer connects again after a failed connection."""


class LivenessPort:
    """The listening socket by which other nodes observe whether processes of this node still run."""

    def __init__(self, host: str, node: str) -> None:
        """Listen on an address of this machine.

        Raises:
            OSError: `host` is not an address of this machine.
        """
        self._node = node
        self._is_closed = False
        self._observers: deque[socket.socket] = deque()
        self.listener = socket.create_server((host, 0), family=_address_family(host), backlog=_MAX_OBSERVERS)
        # Never `shutdown`: that would close the port although workers still hold it.
        self.listener.settimeout(_WAKE)
        self.number: int = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, name="dsconfig-liveness", daemon=True).start()

    def close(self) -> None:
        """Close the port in this process, and disconnect the observers, which by now know that the node has left."""
        self._is_closed = True

    def _serve(self) -> None:
        with self.listener:
            while not self._is_closed:
                with contextlib.suppress(OSError):
                    observer, _ = self.listener.accept()
                    observer.setblocking(False)
                    observer.sendall(_greeting(self._node, observer.getsockname(), observer.getpeername()))
                    self._observers.append(observer)
                    if len(self._observers) > _MAX_OBSERVERS:
                        self._observers.popleft().close()
        for observer in self._observers:
            observer.close()


def _address_family(host: str) -> socket.AddressFamily:
    """Return the family of a numeric address.

    Raises:
        OSError: `host` is a name, which may be slow to resolve.
    """
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise OSError(f"{host} is not a numeric address") from None
    return socket.AF_INET if version == 4 else socket.AF_INET6


def _greeting(node: str, server: Sequence[object], client: Sequence[object]) -> bytes:
    return f"dsconfig-liveness {node} {server[0]} {server[1]} {client[0]} {client[1]}\n".encode()


class ExitDetector:
    """Connections of this node to the liveness ports of the members that it watches."""

    def __init__(self, clock: Callable[[], float] = lease_clock) -> None:
        self._clock = clock
        self._connections: dict[ProcessExit, _LivenessConnection] = {}

    def ended_members(self, watched: Sequence[JobMember]) -> list[ProcessExit]:
        """Return the watched members without a running process, blocking for at most 0.05 s per member."""
        previous, self._connections = self._connections, {}
        for member in watched:
            if member.liveness_port:
                key = ProcessExit(member.node, member.join_order, member.cleared)
                connection = previous.pop(key, None) or _LivenessConnection(member, self._clock)
                self._connections[key] = connection
        for connection in previous.values():
            connection.close()
        return [key for key, connection in self._connections.items() if connection.has_ended()]

    def close(self) -> None:
        """Close the connections to all watched members."""
        self.ended_members([])


class _LivenessConnection:
    """A connection to the liveness port of a member; its methods block only briefly."""

    def __init__(self, member: JobMember, clock: Callable[[], float]) -> None:
        self._member = member
        self._clock = clock
        self._ended = False
        self._socket: socket.socket | None = None
        self._received = b""
        self._closed_in_order = False
        self._failed_at: float | None = None
        self._connect()

    def has_ended(self) -> bool:
        """Return whether all processes of the member have ended."""
        if self._ended:
            return True
        self._receive_greeting()
        if self._closed_in_order:
            self._ended = self._is_rejected()
        if not self._ended and self._failed_at is not None and self._clock() - self._failed_at >= _RETRY:
            self.close()
            self._connect()
        return self._ended

    def close(self) -> None:
        """Close the connection to the member."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _connect(self) -> None:
        self._received, self._closed_in_order, self._failed_at = b"", False, None
        try:
            family = _address_family(self._member.host)
            self._socket = connection = socket.socket(family, socket.SOCK_STREAM)
            connection.setblocking(False)
            connection.connect((self._member.host, self._member.liveness_port))
        except BlockingIOError:
            pass  # `recv` raises the error of a connection that fails later
        except OSError:
            self._failed_at = self._clock()

    def _receive_greeting(self) -> None:
        if self._socket is None or self._failed_at is not None:
            return
        try:
            data = self._socket.recv(_LONGEST)
            self._received += data[: _LONGEST - len(self._received)]
            if data:
                return
            expected = _greeting(self._member.node, self._socket.getpeername(), self._socket.getsockname())
            self._closed_in_order = self._received == expected
        except BlockingIOError:
            return
        except OSError:
            pass  # reset by the host after a power failure, or by a firewall
        self._failed_at = self._clock()

    def _is_rejected(self) -> bool:
        """Return whether the host rejects a new connection, which means that no process holds the port any more."""
        try:
            socket.create_connection((self._member.host, self._member.liveness_port), timeout=_PROBE).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            self._closed_in_order = False  # the host is gone or cut off: only its silence counts now
        return False
