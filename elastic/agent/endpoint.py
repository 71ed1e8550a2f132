"""Where a job's store is, and how this machine and the others reach each other."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args

from elastic.agent.errors import SettingsError, StoreLostError

DEFAULT_PORT = 29400
_NOT_IN_A_HOST = set("/@?#, \t\n")
ETCD_PORT = 2379

Kind = Literal["tcp", "etcd", "etcds"]
"""A store of ours or torch's; etcd without and with TLS."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the store, or those of etcd's members."""

    addresses: tuple[tuple[str, int], ...]
    kind: Kind = "tcp"
    hosts: bool | None = None
    """Whether this process hosts it; `None`: if the address is one of this machine.  Nobody hosts etcd."""
    token: str | None = field(default=None, repr=False)
    """The secret that every connection proves to know; `None`: the store takes orders from anybody."""

    @property
    def host(self) -> str:
        """Of the first address."""
        return self.addresses[0][0]

    @property
    def port(self) -> int:
        """Of the first address."""
        return self.addresses[0][1]

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


def parse_endpoint(text: str, hosts: bool | None = None, token: str | None = None) -> Endpoint:
    """`HOST[:PORT]`, or `etcd://HOST[:PORT],...` (`etcds://`: over TLS).  Raises `SettingsError`."""
    scheme, separator, listed = text.strip().rpartition("://")
    if not separator:
        return Endpoint((_address(text, text, DEFAULT_PORT),), hosts=hosts, token=token)
    kind: Kind | None = next((one for one in get_args(Kind)[1:] if one == scheme), None)
    if kind is None:
        raise SettingsError(f"endpoint `{text}` is not HOST:PORT or etcd://HOST:PORT,...")
    if token is not None:
        raise SettingsError("a token is for a store of dsconfig: etcd has users and certificates")
    if hosts:
        raise SettingsError("etcd's members are started apart: no node hosts them")
    return Endpoint(tuple(_address(one, text, ETCD_PORT) for one in listed.split(",")), kind, False)


def _address(text: str, endpoint: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or host.endswith(":") or ("[" in host) != host.endswith("]"):
        host, port = text.strip(), str(default_port)
    host = host.strip("[]")
    if not host or set(host) & _NOT_IN_A_HOST or not port.isdecimal() or not 0 <= int(port) <= 65535:
        kind = "etcd://HOST:PORT,..." if "://" in endpoint else "HOST:PORT"
        raise SettingsError(f"endpoint `{endpoint}` is not {kind}")
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


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


def open_to_others(endpoint: Endpoint) -> str | None:
    """The warning that a store which listens there takes orders from anybody; `None` if it does not."""
    if endpoint.token is not None or is_loopback(endpoint.host):
        return None
    reach = f"whoever reaches {endpoint} can end the job or have it load another checkpoint"
    return f"{reach}; give --token FILE here and on every node"


def own_address(endpoint: Endpoint) -> str:
    """The address from which this machine reaches the store, and at which others reach this machine."""
    for one in endpoint.addresses:
        with suppress(OSError), socket.create_connection(one, timeout=5) as trial:
            address: str = trial.getsockname()[0]
            return address
    raise StoreLostError(f"the store at {endpoint} is not reached any more")
