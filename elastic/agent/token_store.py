"""`TokenServer` and `TokenStore`: a store protected by a token; torch's own store accepts any connection.

Each end sends a nonce, and then signs every line with a key derived from the token and both nonces. Without the token,
others can read the traffic, but neither take part in it nor change it; etcd with TLS also prevents reading. The server
has a Python thread per connection, for jobs of up to a hundred nodes.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Mapping
from typing import Any

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.store_endpoint import TOKEN, read_secret
from elastic.json_files import Json

SHORTEST = 16
"""Minimum length of a token in characters; a shorter token can be guessed."""
_GREETING = b"dsconfig-token "
_GREETED = 0.05
"""Seconds within which a store that requires a token sends its greeting; torch's store sends none."""
_NUMBER = 16
_PATIENCE = 5.0
"""Seconds that each end of a connection has to prove that it knows the token."""
_LONGEST = 1 << 16
"""Maximum length of a line in bytes until the other end has proved that it knows the token."""
_LONGEST_SIGNED = 1 << 26
"""Maximum length of any line in bytes; a signature can only be verified once the whole line has been read."""
_PAUSE = 0.05
MAX_UNPROVEN = 256
"""Maximum number of connections that have not proved the token; above it, the oldest is closed."""


def read_token(path: str | None) -> str | None:
    """Return the token in the file `path` or in `DSCONFIG_ELASTIC_TOKEN`, or `None` if there is neither.

    Raises:
        SettingsError: the token cannot be read, or is invalid.
    """
    token, where = read_secret(TOKEN), TOKEN
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                token, where = file.read(_LONGEST).strip(), path
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the token in {path}: {error}") from None
    if token is not None and len(token) < SHORTEST:
        raise SettingsError(
            f"the token in {where} has {len(token)} characters; at least {SHORTEST} are required"
        )
    return token


def requires_token(host: str, port: int) -> bool:
    """Return whether a store at this address must have a token."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout=_PATIENCE) as connection,
    ):
        connection.settimeout(_GREETED)
        return connection.recv(len(_GREETING)) == _GREETING
    return False


class _SignedConnection:
    """A connection whose lines are signed, each with its sender and sequence number."""

    def __init__(self, connection: socket.socket, token: str, own_role: bytes, other_role: bytes) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        nonce = os.urandom(_NUMBER).hex().encode()
        connection.sendall(_GREETING + nonce + b"\n")
        other_nonce = self._file.readline(len(_GREETING) + 2 * _NUMBER + 1).strip().removeprefix(_GREETING)
        nonces = b" ".join(sorted((own_role + nonce, other_role + other_nonce)))
        self._keys = [hmac.digest(token.encode(), role + nonces, "sha256") for role in (own_role, other_role)]
        self._count = [0, 0]

    def write(self, value: Json) -> None:
        text = json.dumps(value).encode()
        self._connection.sendall(self._sign(0, text) + b" " + text + b"\n")

    def read(self, limit: int = _LONGEST_SIGNED) -> Json:
        """Return the next value.

        Raises:
            ConnectionError: the connection has ended, or a line has a wrong signature.
        """
        line = self._file.readline(limit)
        signature, _, text = line.rstrip(b"\n").partition(b" ")
        if not (line.endswith(b"\n") and hmac.compare_digest(signature, self._sign(1, text))):
            raise ConnectionError("the connection ended, or a line had no valid signature")
        return json.loads(text)

    def close(self) -> None:
        """Stop reading from the connection."""
        self._file.close()

    def _sign(self, end: int, text: bytes) -> bytes:
        self._count[end] += 1
        return hmac.digest(self._keys[end], b"%d " % self._count[end] + text, "sha256").hex().encode()


class TokenStore:
    """Client connection to a `TokenServer`; must not be shared between threads."""

    def __init__(self, host: str, port: int, token: str, limit: float) -> None:
        self._limit = limit
        self._connection = socket.create_connection((host, port), timeout=min(limit, _PATIENCE))
        try:
            self._signed = _SignedConnection(self._connection, token, b"client", b"server")
            self._ask("get", limit=_LONGEST)
        except OSError:
            raise StoreLostError(f"the store at {host}:{port} rejected the token") from None
        self._connection.settimeout(limit)

    def __del__(self) -> None:
        """Close the connection, as torch's store does when it is deleted."""
        if hasattr(self, "_signed"):
            self._signed.close()
        self._connection.close()

    def set(self, key: str, value: str, /) -> None:
        """Write `value` to a key."""
        self.multi_set([key], [value])

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, blocking until the key exists."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of several keys, blocking until all of them exist."""
        deadline = time.monotonic() + self._limit
        while None in (values := self._ask("get", *keys)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no key `{keys[values.index(None)]}` in {self._limit:g} s")
            time.sleep(_PAUSE)
        return [value.encode() for value in values]

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        """Write several keys at one point in time."""
        self._ask("set", *keys, values=values)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or if the key is missing and `expected` is empty."""
        current: str = self._ask("compare_set", key, expected=expected, value=desired)[0] or expected
        return current.encode()

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys exist."""
        return None not in self._ask("get", *keys)

    def _ask(
        self, kind: str, *keys: str, limit: int = _LONGEST_SIGNED, **values: str | list[str]
    ) -> list[Json]:
        self._signed.write({"kind": kind, "keys": keys, **values})
        reply: list[Json] = self._signed.read(limit)
        return reply


class TokenServer:
    """A store that requires a token, served by threads of this process."""

    def __init__(self, listener: socket.socket, token: str) -> None:
        address = listener.getsockname()
        self.port: int = address[1]
        self._server = _Server(address[:2], _Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket, self._server.token = listener, token
        threading.Thread(target=self._server.serve_forever, name="dsconfig-token-store", daemon=True).start()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    token = ""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._data: dict[str, str] = {}
        self._unproven: dict[socket.socket, float] = {}
        """Connections that have not proved the token yet, oldest first, each with its start time."""
        self._lock = threading.Lock()

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection, which is unproven until its client proves the token."""
        connection, address = super().get_request()
        with self._lock:
            self._unproven[connection] = time.monotonic()
        return connection, address

    def service_actions(self) -> None:
        """Close unproven connections that are too slow or too many; a legitimate client proves its token at once."""
        with self._lock:
            for one, since in list(self._unproven.items()):
                if len(self._unproven) <= MAX_UNPROVEN and time.monotonic() - since <= _PATIENCE:
                    break
                del self._unproven[one]
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mark_connection_proven(self, request: socket.socket) -> None:
        """Stop treating a connection as unproven, because its client has proved the token, or it has ended."""
        with self._lock:
            self._unproven.pop(request, None)

    def reply(self, request: Mapping[str, Json]) -> list[str | None]:
        """Apply a request and return the resulting values of its keys, or nothing if it has set them."""
        kind, keys = request["kind"], request["keys"]
        with self._lock:
            if kind == "set":
                self._data.update(zip(keys, request["values"], strict=True))
                return []
            if kind == "compare_set" and self._data.get(keys[0], "") == request["expected"]:
                self._data[keys[0]] = request["value"]
            return [self._data.get(key) for key in keys]


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Answer each signed line until the client disconnects."""
        assert isinstance(self.server, _Server)
        connection: socket.socket = self.request
        connection.settimeout(_PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            signed = _SignedConnection(connection, self.server.token, b"server", b"client")
            with contextlib.closing(signed):
                request = signed.read(_LONGEST)
                self.server.mark_connection_proven(connection)
                connection.settimeout(None)
                while True:
                    signed.write(self.server.reply(request))
                    request = signed.read()

    def finish(self) -> None:
        """Stop tracking the connection after it has ended."""
        assert isinstance(self.server, _Server)
        self.server.mark_connection_proven(self.request)
