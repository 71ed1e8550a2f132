"""`TokenServer` and `TokenStore`: a store for those who know a secret; torch's own takes orders from anybody.

Each end sends a random number, and signs every line from then on with a key of the token and both numbers:
whoever does not know the token may read what is said, and can neither take part nor change it.  What must not
be read needs etcd with TLS.  A Python thread for each connection: for jobs of up to a hundred nodes.
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
from elastic.agent.secret_variables import TOKEN, secret
from elastic.json_types import Json

SHORTEST = 16
"""Characters of a token: a shorter one can be guessed."""
_GREETING = b"dsconfig-token "
_GREETED = 0.05
"""Seconds in which a store that asks for a token has greeted; torch's says nothing."""
_NUMBER = 16
_PATIENCE = 5.0
"""Seconds that either end gets to show that it knows the token."""
_LONGEST = 1 << 16
"""Bytes of a line from somebody who has not."""
_LONGEST_SIGNED = 1 << 26
"""Bytes of any line: its signature is at its beginning, and is known to be false at its end only."""
_PAUSE = 0.05
STRANGERS = 256
"""Connections at once that have not proved that they know the token; one more, and the oldest has to go."""


def read_token(path: str | None) -> str | None:
    """The token in that file, else in `DSCONFIG_ELASTIC_TOKEN`, if there is one.  Raises `SettingsError`."""
    token, where = secret(TOKEN), TOKEN
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                token, where = file.read(_LONGEST).strip(), path
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the token in {path}: {error}") from None
    if token is not None and len(token) < SHORTEST:
        raise SettingsError(f"the token in {where} has {len(token)} characters; give at least {SHORTEST}")
    return token


def asks_for_token(host: str, port: int) -> bool:
    """Whether the store there is one with a token."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=_PATIENCE) as trial:
        trial.settimeout(_GREETED)
        return trial.recv(len(_GREETING)) == _GREETING
    return False


class _Signed:
    """A connection whose lines are signed, by their sender and their number."""

    def __init__(self, connection: socket.socket, token: str, mine: bytes, theirs: bytes) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        number = os.urandom(_NUMBER).hex().encode()
        connection.sendall(_GREETING + number + b"\n")
        other = self._file.readline(len(_GREETING) + 2 * _NUMBER + 1).strip().removeprefix(_GREETING)
        both = b" ".join(sorted((mine + number, theirs + other)))
        self._keys = [hmac.digest(token.encode(), role + both, "sha256") for role in (mine, theirs)]
        self._count = [0, 0]

    def write(self, value: Json) -> None:
        text = json.dumps(value).encode()
        self._connection.sendall(self._sign(0, text) + b" " + text + b"\n")

    def read(self, limit: int = _LONGEST_SIGNED) -> Json:
        """The next value.  Raises `ConnectionError` at the end, and for what the other end did not sign."""
        line = self._file.readline(limit)
        signature, _, text = line.rstrip(b"\n").partition(b" ")
        if not (line.endswith(b"\n") and hmac.compare_digest(signature, self._sign(1, text))):
            raise ConnectionError("the connection ended, or what came was not signed")
        return json.loads(text)

    def close(self) -> None:
        """Read no more."""
        self._file.close()

    def _sign(self, end: int, text: bytes) -> bytes:
        self._count[end] += 1
        return hmac.digest(self._keys[end], b"%d " % self._count[end] + text, "sha256").hex().encode()


class TokenStore:
    """A connection to a `TokenServer`; not to be shared between threads."""

    def __init__(self, host: str, port: int, token: str, limit: float) -> None:
        self._limit = limit
        self._connection = socket.create_connection((host, port), timeout=min(limit, _PATIENCE))
        try:
            self._signed = _Signed(self._connection, token, b"client", b"server")
            self._ask("get", limit=_LONGEST)
        except OSError:
            raise StoreLostError(f"the store at {host}:{port} does not know this token") from None
        self._connection.settimeout(limit)

    def __del__(self) -> None:
        """End the connection, as torch's store does."""
        if hasattr(self, "_signed"):
            self._signed.close()
        self._connection.close()

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""
        self._ask("set", key, value=value)

    def get(self, key: str, /) -> bytes:
        """Read a key; waits until it exists."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Read keys; waits until all exist."""
        until = time.monotonic() + self._limit
        while None in (found := self._ask("get", *keys)):
            if time.monotonic() > until:
                raise TimeoutError(f"no key `{keys[found.index(None)]}` in {self._limit:g} s")
            time.sleep(_PAUSE)
        return [value.encode() for value in found]

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or is missing and `expected` is empty."""
        held: str = self._ask("compare_set", key, expected=expected, value=desired)[0] or expected
        return held.encode()

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""
        return None not in self._ask("get", *keys)

    def _ask(self, kind: str, *keys: str, limit: int = _LONGEST_SIGNED, **values: str) -> list[Json]:
        self._signed.write({"kind": kind, "keys": keys, **values})
        reply: list[Json] = self._signed.read(limit)
        return reply


class TokenServer:
    """The store, in threads of this process."""

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
        self._strangers: dict[socket.socket, float] = {}
        """The connections that have proved nothing yet, oldest first, and since when."""
        self._changing = threading.Lock()

    def get_request(self) -> tuple[socket.socket, object]:
        """Take a connection, of a stranger for now."""
        connection, address = super().get_request()
        with self._changing:
            self._strangers[connection] = time.monotonic()
        return connection, address

    def service_actions(self) -> None:
        """Hang up on strangers that are slow or too many: who knows the token needs no time to prove it."""
        with self._changing:
            for one, since in list(self._strangers.items()):
                if len(self._strangers) <= STRANGERS and time.monotonic() - since <= _PATIENCE:
                    break
                del self._strangers[one]
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def acquainted(self, request: socket.socket) -> None:
        """Take a connection off the strangers: it has proved itself, or ended."""
        with self._changing:
            self._strangers.pop(request, None)

    def reply(self, request: Mapping[str, Json]) -> list[str | None]:
        """What the keys hold after the request."""
        kind, keys = request["kind"], request["keys"]
        with self._changing:
            if kind == "set" or (
                kind == "compare_set" and self._data.get(keys[0], "") == request["expected"]
            ):
                self._data[keys[0]] = request["value"]
            return [self._data.get(key) for key in keys]


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Answer every signed line until the other end hangs up."""
        assert isinstance(self.server, _Server)
        connection: socket.socket = self.request
        connection.settimeout(_PATIENCE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            signed = _Signed(connection, self.server.token, b"server", b"client")
            with contextlib.closing(signed):
                request = signed.read(_LONGEST)
                self.server.acquainted(connection)
                connection.settimeout(None)
                while True:
                    signed.write(self.server.reply(request))
                    request = signed.read()

    def finish(self) -> None:
        """Forget a stranger that has gone."""
        assert isinstance(self.server, _Server)
        self.server.acquainted(self.request)
