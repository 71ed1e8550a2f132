"""`EtcdStore`: a job store in etcd 3, accessed through its JSON gateway; it survives the loss of an etcd member.

A call goes to the member that answered last. If that member does not answer or has no leader, the call goes to the
other members in turn. A change that is sent twice is applied once: `compare_set` also succeeds if the key already has
the desired value, and desired values are unique per node. Reads are linearizable, which is etcd's default.

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
from functools import partial
from typing import TypeVar

from elastic.agent.errors import SettingsError
from elastic.agent.store_endpoint import ETCD_USER, read_secret
from elastic.json_files import Json

ATTEMPT = 1.0
"""Seconds that one etcd member has to answer while there are other members to ask."""
_LONGEST = 1 << 26
"""Maximum length of a reply in bytes: etcd stores at most 1.5 MB at once, and a reply has the values of a few keys."""
_MOST_OPERATIONS = 128
"""Number of operations in one transaction that etcd accepts by default: `--max-txn-ops` (`embed/config.go`)."""
_PAUSE = 0.1
"""Seconds between two rounds of requests to all etcd members."""
_Raw = TypeVar("_Raw")
_Parsed = TypeVar("_Parsed")
_PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""Errors that parsing a reply raises if the server is not etcd."""


class EtcdStore:
    """Client of an etcd cluster that talks to one member at a time; must not be shared between threads."""

    def __init__(self, addresses: Sequence[tuple[str, int]], limit: float, *, secure: bool = False) -> None:
        self._connection: http.client.HTTPConnection | None = None
        self._addresses = list(addresses)
        self._limit = limit
        self._tls = _tls_context() if secure else None
        self._headers = {"Content-Type": "application/json"}
        self._log_in()

    def __del__(self) -> None:
        """Close the connection, as torch's store does when it is deleted."""
        if self._connection is not None:
            self._connection.close()

    def set(self, key: str, value: str, /) -> None:
        """Write `value` to a key."""
        self._call(
            "kv/put",
            {"key": _decode_text(key), "value": _decode_text(value)},
            lambda answer: answer["header"],
        )

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, blocking until the key exists."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of several keys, blocking until all of them exist."""
        deadline = time.monotonic() + self._limit
        while True:
            values = self._values_of_keys(keys)
            if all(value is not None for value in values):
                return [value for value in values if value is not None]
            if time.monotonic() > deadline:
                raise TimeoutError(f"no key `{keys[values.index(None)]}` in {self._limit:g} s")
            time.sleep(_PAUSE)

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or if the key is missing and `expected` is empty."""
        has_value = {"target": "VALUE", "value": _decode_text(expected)}
        missing = {"target": "CREATE", "create_revision": "0"}
        current = self._call(
            "kv/txn",
            {
                "compare": [
                    {"key": _decode_text(key), "result": "EQUAL", **(has_value if expected else missing)}
                ],
                "success": [{"requestPut": {"key": _decode_text(key), "value": _decode_text(desired)}}],
                "failure": [{"requestRange": {"key": _decode_text(key)}}],
            },
            lambda answer: desired.encode() if answer.get("succeeded") else _values_of_ranges(answer, 1)[0],
        )
        return current or expected.encode()

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys exist."""
        names = [_decode_text(key) for key in keys]
        counts = [
            self._call("kv/txn", {"success": ranges}, partial(_counts_of_ranges, count=len(ranges)))
            for ranges in _in_batches([{"requestRange": {"key": name, "count_only": True}} for name in names])
        ]
        return all(count for batch in counts for count in batch)

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        """Write several keys, in batches that one transaction of etcd may have."""
        for puts in _in_batches(
            [
                {"requestPut": {"key": _decode_text(key), "value": _decode_text(value)}}
                for key, value in zip(keys, values, strict=True)
            ]
        ):
            self._call("kv/txn", {"success": puts}, lambda answer: answer["header"])

    def _values_of_keys(self, keys: Sequence[str]) -> list[bytes | None]:
        ranges = [{"requestRange": {"key": _decode_text(key)}} for key in keys]
        batches = [
            self._call("kv/txn", {"success": batch}, partial(_values_of_ranges, count=len(batch)))
            for batch in _in_batches(ranges)
        ]
        return [value for batch in batches for value in batch]

    def _log_in(self) -> None:
        """Log in as the user in `ETCDCTL_USER`, if set, so that later calls send the resulting token."""
        name, colon, password = (read_secret(ETCD_USER) or "").partition(":")
        if colon:
            token = self._headers.pop("Authorization", None)
            try:
                credentials = {"name": name, "password": password}
                token = self._call("auth/authenticate", credentials, lambda answer: str(answer["token"]))
            finally:
                if (
                    token is not None
                ):  # keep the old one if no member answers: without any, etcd rejects calls for good
                    self._headers["Authorization"] = token

    def _call(
        self, path: str, request: Mapping[str, Json], read: Callable[[Mapping[str, Json]], _Parsed]
    ) -> _Parsed:
        """Send a request to the etcd members in turn, and return the parsed reply.

        Raises:
            OSError: no member answered in time.
        """
        deadline, body = time.monotonic() + self._limit, json.dumps(request)
        while True:
            for _ in self._addresses:
                patience = min(ATTEMPT, self._limit) if len(self._addresses) > 1 else self._limit
                try:
                    return _parse_reply(read, self._ask(f"/v3/{path}", body, patience))
                except (OSError, http.client.HTTPException, _UnavailableError) as error:
                    self._next_member()
                    last_error = error
            if time.monotonic() >= deadline:
                members = ", ".join(f"{host}:{port}" for host, port in self._addresses)
                why = f"{last_error or type(last_error).__name__}{self._missing_certificate_hint(last_error)}"
                raise OSError(f"no etcd member of {members} answers: {why}")
            time.sleep(_PAUSE)

    def _missing_certificate_hint(self, error: Exception) -> str:
        """Return a hint if a client certificate is missing, because the server then closes the connection."""
        is_tls_error = self._tls is not None and isinstance(error, ssl.SSLError | ConnectionError)
        return " (ETCDCTL_CERT is not set)" if is_tls_error and "ETCDCTL_CERT" not in os.environ else ""

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
            return _parse_reply(json.loads, text)
        message = _error_message_of_response(text)
        if answer.status in _PERMANENT:
            raise SettingsError(f"etcd rejects the request: {message}")
        if answer.status == http.HTTPStatus.UNAUTHORIZED and "Authorization" in self._headers:
            self._log_in()  # the token has expired
        raise _UnavailableError(message)

    def _next_member(self) -> None:
        """Close the connection, and switch to the next etcd member."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._addresses.append(self._addresses.pop(0))


class _UnavailableError(Exception):
    """An etcd member is temporarily unable to answer, for example because it has no leader."""


def _parse_reply(read: Callable[[_Raw], _Parsed], raw: _Raw) -> _Parsed:
    """Parse a server's reply.

    Raises:
        _UnavailableError: the reply does not come from etcd.
    """
    try:
        return read(raw)
    except _PARSE_ERRORS:
        raise _UnavailableError("the server is not etcd") from None


_PERMANENT = (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.FORBIDDEN, http.HTTPStatus.NOT_FOUND)


def _error_message_of_response(text: bytes) -> str:
    try:
        parsed = json.loads(text)
        return str(parsed.get("error") or parsed.get("message") or parsed)
    except (ValueError, AttributeError):
        return text.decode(errors="replace").strip()[:200]


def _decode_text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _in_batches(requests: list[Json]) -> list[list[Json]]:
    """Split requests into batches of as many as one transaction may have."""
    return [requests[start : start + _MOST_OPERATIONS] for start in range(0, len(requests), _MOST_OPERATIONS)]


def _counts_of_ranges(answer: Mapping[str, Json], count: int) -> list[int]:
    """Return the number of keys in each range of a transaction's reply; etcd omits empty fields."""
    ranges = [answer["responses"][number].get("response_range", {}) for number in range(count)]
    if any("kvs" in one for one in ranges):
        raise ValueError("a reply with values instead of counts")
    return [int(one.get("count", 0)) for one in ranges]


def _values_of_ranges(answer: Mapping[str, Json], count: int) -> list[bytes | None]:
    """Return the value of each range in a transaction's reply, from which etcd omits empty fields."""
    ranges = [answer["responses"][number].get("response_range", {}).get("kvs") for number in range(count)]
    return [base64.b64decode(kvs[0].get("value", "")) if kvs else None for kvs in ranges]


def _tls_context() -> ssl.SSLContext:
    """Create a TLS context from the environment variables of `etcdctl`."""
    authority = os.environ.get("ETCDCTL_CACERT")
    certificate, key = os.environ.get("ETCDCTL_CERT"), os.environ.get("ETCDCTL_KEY")
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate:
            context.load_cert_chain(certificate, key)
    except OSError as error:
        files = ", ".join(filter(None, (authority, certificate, key)))
        raise SettingsError(f"cannot read the certificates {files}: {error}") from None
    return context
