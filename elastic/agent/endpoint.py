"""Where a job's store is, and how this machine and the others reach each other."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from elastic.agent.errors import SettingsError

DEFAULT_PORT = 29400


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the store."""

    host: str
    port: int
    hosts: bool | None = None
    """Whether this process hosts it; `None`: if the address is one of this machine."""


def parse_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of `HOST[:PORT]`.  Raises `SettingsError`."""
    host, colon, port = endpoint.strip().rpartition(":")
    if not colon or host.endswith(":") or ("[" in host) != host.endswith("]"):
        host, port = endpoint.strip(), str(DEFAULT_PORT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise SettingsError(f"endpoint `{endpoint}` is not HOST:PORT")
    return host, int(port)


def is_local(host: str) -> bool:
    """Whether an address of the host is one of this machine: only then can a socket be bound to it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as trial:
            try:
                trial.bind(address)
            except OSError:
                continue
            return True
    return False


def own_address(host: str, port: int) -> str:
    """The address from which this machine reaches the store, and at which others reach this machine."""
    with socket.create_connection((host, port), timeout=5) as trial:
        address: str = trial.getsockname()[0]
        return address
