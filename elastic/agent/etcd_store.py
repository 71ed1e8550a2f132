"""`EtcdStore`: the job's store in etcd 3, by its JSON gateway; it outlives any one of its members.

A call goes to the member that answered last and, where that one does not answer or has no leader, to the
others in turn.  A change that was sent twice is made once: `compare_set` succeeds if the key holds what was
desired, and no two nodes desire the same.  Reads are linearizable, which is etcd's default.

Paths and fields: etcd's `api/etcdserverpb/rpc.proto`, the same since 3.4 below `/v3`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from elastic.agent.errors import SettingsError
from elastic.agent.secret_variables import ETCD_USER, secret
from elastic.json_types import Json

ATTEMPT = 1.0
"""Seconds that one member gets to answer, while others are there to be asked."""
_LONGEST = 1 << 26
"""Bytes of a reply: etcd stores 1.5 MB at once, and a reply has the values of some keys."""
_PAUSE = 0.1
"""Seconds between two rounds of asking all."""
_Said = TypeVar("_Said")
_Read = TypeVar("_Read")
_STRANGE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""What reading the reply of something else than etcd raises."""


class EtcdStore:
    """One connection at a time, to whichever member answers; not to be shared between threads."""

    def __init__(self, addresses: Sequence[tuple[str, int]], limit: float, *, secure: bool = False) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._addresses = list(addresses)
        self._limit = limit
        self._tls = _tls() if secure else None
        self._headers = {"Content-Type": "application/json"}
        self._log_in()

    def __del__(self) -> None:
        """End the connection, as torch's store does."""
        if self._connection is not None:
            self._connection.close()

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""
        self._call("kv/put", {"key": _text(key), "value": _text(value)}, lambda answer: answer["header"])

    def get(self, key: str, /) -> bytes:
        """Read a key; waits until it exists."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Read keys as of one moment; waits until all exist."""
        until = time.monotonic() + self._limit
        while True:
            found = self._ranges([{"requestRange": {"key": _text(key)}} for key in keys])
            if all(value is not None for value in found):
                return [value for value in found if value is not None]
            if time.monotonic() > until:
                raise TimeoutError(f"no key `{keys[found.index(None)]}` in {self._limit:g} s")
            time.sleep(_PAUSE)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or is missing and `expected` is empty."""
        known = {"target": "VALUE", "value": _text(expected)}
        missing = {"target": "CREATE", "create_revision": "0"}
        held = self._call(
            "kv/txn",
            {
                "compare": [{"key": _text(key), "result": "EQUAL", **(known if expected else missing)}],
                "success": [{"requestPut": {"key": _text(key), "value": _text(desired)}}],
                "failure": [{"requestRange": {"key": _text(key)}}],
            },
            lambda answer: desired.encode() if answer.get("succeeded") else _values(answer, 1)[0],
        )
        return held or expected.encode()

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""
        found = self._ranges([{"requestRange": {"key": _text(key)}} for key in keys])
        return all(value is not None for value in found)

    def _ranges(self, requests: Sequence[Json]) -> list[bytes | None]:
        return self._call(
            "kv/txn", {"success": list(requests)}, lambda answer: _values(answer, len(requests))
        )

    def _log_in(self) -> None:
        """As the user of `ETCDCTL_USER`, where there is one; its token goes with every call."""
        name, colon, password = (secret(ETCD_USER) or "").partition(":")
        if colon:
            token = self._headers.pop("Authorization", None)
            try:
                asked = {"name": name, "password": password}
                token = self._call("auth/authenticate", asked, lambda answer: str(answer["token"]))
            finally:
                if token is not None:  # the old one, where nobody answers: without any, etcd refuses for good
                    self._headers["Authorization"] = token

    def _call(
        self, path: str, request: Mapping[str, Json], read: Callable[[Mapping[str, Json]], _Read]
    ) -> _Read:
        """What `read` makes of the reply of some member.  Raises `OSError` once the time is up."""
        until, body = time.monotonic() + self._limit, json.dumps(request)
        while True:
            for _ in self._addresses:
                patience = min(ATTEMPT, self._limit) if len(self._addresses) > 1 else self._limit
                try:
                    return _understood(read, self._ask(f"/v3/{path}", body, patience))
                except (OSError, http.client.HTTPException, _UnavailableError) as error:
                    self._turn_away()
                    failed = error
            if time.monotonic() >= until:
                named = ", ".join(f"{host}:{port}" for host, port in self._addresses)
                why = f"{failed or type(failed).__name__}{self._without_certificate(failed)}"
                raise OSError(f"none of etcd's members {named} answers: {why}")
            time.sleep(_PAUSE)

    def _without_certificate(self, failed: Exception) -> str:
        """What may be behind it: a server that asks for a certificate just hangs up on who has none."""
        suspected = self._tls is not None and isinstance(failed, ssl.SSLError | ConnectionError)
        return " (ETCDCTL_CERT is not set)" if suspected and "ETCDCTL_CERT" not in os.environ else ""

    def _ask(self, path: str, body: str, patience: float) -> Mapping[str, Json]:
        if self._connection is None:
            host, port = self._addresses[0]
            if self._tls is None:
                self._connection = http.client.HTTPConnection(host, port, timeout=patience)
            else:
                self._connection = http.client.HTTPSConnection(
                    host, port, timeout=patience, context=self._tls
                )
        self._connection.request("POST", path, body, self._headers)
        answer = self._connection.getresponse()
        text = answer.read(_LONGEST)
        if answer.status == http.HTTPStatus.OK:
            return _understood(json.loads, text)
        said = _reason(text)
        if answer.status in _FINAL:
            raise SettingsError(f"etcd refuses: {said}")
        if answer.status == http.HTTPStatus.UNAUTHORIZED and "Authorization" in self._headers:
            self._log_in()  # the token has expired
        raise _UnavailableError(said)

    def _turn_away(self) -> None:
        """Ask the next member from now on."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._addresses.append(self._addresses.pop(0))


class _UnavailableError(Exception):
    """A member cannot answer now: it has no leader, say."""


def _understood(read: Callable[[_Said], _Read], said: _Said) -> _Read:
    """What `read` makes of it.  Raises `_UnavailableError` where something else speaks."""
    try:
        return read(said)
    except _STRANGE:
        raise _UnavailableError("what answers is not etcd") from None


_FINAL = (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND)


def _reason(text: bytes) -> str:
    try:
        read = json.loads(text)
        return str(read.get("error") or read.get("message") or read)
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()[:200]


def _text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _values(answer: Mapping[str, Json], count: int) -> list[bytes | None]:
    """What the ranges of a transaction found, so many; etcd leaves out empty fields."""
    found = [answer["responses"][number].get("response_range", {}).get("kvs") for number in range(count)]
    return [base64.b64decode(kvs[0].get("value", "")) if kvs else None for kvs in found]


def _tls() -> ssl.SSLContext:
    """By the variables that `etcdctl` reads."""
    authority = os.environ.get("ETCDCTL_CACERT")
    certificate, key = os.environ.get("ETCDCTL_CERT"), os.environ.get("ETCDCTL_KEY")
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        named = ", ".join(filter(None, (authority, certificate, key)))
        raise SettingsError(f"cannot read the certificates {named}: {error}") from None
    return context
