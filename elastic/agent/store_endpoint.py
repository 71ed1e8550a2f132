"""Addresses of a job's store and of this machine, and secrets that workers must not inherit."""

from __future__ import annotations

import os
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
"""Kind of store: dsconfig's or torch's over TCP, etcd without TLS, or etcd with TLS."""


@dataclass(frozen=True, slots=True)
class StoreEndpoint:
    """The address of the job's store, or the addresses of the etcd members."""

    addresses: tuple[tuple[str, int], ...]
    kind: Kind = "tcp"
    hosts: bool | None = None
    """Whether this process hosts the store, or `None` to host it if the address is local. Never true for etcd."""
    token: str | None = field(default=None, repr=False)
    """Secret that every connection has to prove, or `None` if the store accepts any connection."""

    @property
    def host(self) -> str:
        """Host of the first address."""
        return self.addresses[0][0]

    @property
    def port(self) -> int:
        """Port of the first address."""
        return self.addresses[0][1]

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)


def parse_endpoint(text: str, hosts: bool | None = None, token: str | None = None) -> StoreEndpoint:
    """Parse `HOST[:PORT]`, `etcd://HOST[:PORT],...` or, for TLS, `etcds://...`.

    Raises:
        SettingsError: the text has none of these forms.
    """
    scheme, separator, listed = text.strip().rpartition("://")
    if not separator:
        return StoreEndpoint((_parse_address(text, text, DEFAULT_PORT),), hosts=hosts, token=token)
    kind: Kind | None = next((one for one in get_args(Kind)[1:] if one == scheme), None)
    if kind is None:
        raise SettingsError(f"endpoint `{text}` is not HOST:PORT or etcd://HOST:PORT,...")
    if token is not None:
        raise SettingsError(
            "a token only works with a store of dsconfig; use users and certificates for etcd"
        )
    if hosts:
        raise SettingsError("--host-store does not apply to etcd, whose members are started separately")
    return StoreEndpoint(
        tuple(_parse_address(one, text, ETCD_PORT) for one in listed.split(",")), kind, False
    )


def _parse_address(text: str, endpoint: str, default_port: int) -> tuple[str, int]:
    host, colon, port = text.strip().rpartition(":")
    if not colon or host.endswith(":") or ("[" in host) != host.endswith("]"):
        host, port = text.strip(), str(default_port)
    host = host.strip("[]")
    if not host or set(host) & _NOT_IN_A_HOST or not port.isdecimal() or not 0 <= int(port) <= 65535:
        kind = "etcd://HOST:PORT,..." if "://" in endpoint else "HOST:PORT"
        raise SettingsError(f"endpoint `{endpoint}` is not {kind}")
    return host, int(port)


def is_local(host: str) -> bool:
    """Return whether `host` is this machine: a socket can be bound to its address."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(address)
            except OSError:
                continue
            return True
    return False


def is_loopback(host: str) -> bool:
    """Return whether `host` is reachable only from this machine."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in addresses)


def exposure_warning(endpoint: StoreEndpoint) -> str | None:
    """Return a warning if other machines can connect to the store without a token, else `None`."""
    if endpoint.token is not None or is_loopback(endpoint.host):
        return None
    risk = f"anyone who reaches {endpoint} can end the job or make it load another checkpoint"
    return f"{risk}; pass --token FILE here and on every node"


def local_address(endpoint: StoreEndpoint) -> str:
    """Return the address from which this machine connects to the store, where other nodes can reach it."""
    for one in endpoint.addresses:
        with suppress(OSError), socket.create_connection(one, timeout=5) as connection:
            address: str = connection.getsockname()[0]
            return address
    raise StoreLostError(f"the store at {endpoint} is no longer reachable")


TOKEN, ETCD_USER = "DSCONFIG_ELASTIC_TOKEN", "ETCDCTL_USER"
_SECRETS = (TOKEN, ETCD_USER, "ETCDCTL_PASSWORD")
_withheld: dict[str, str] = {}


def read_secret(name: str) -> str | None:
    """Return the value of an environment variable, even after `withhold_secrets` has removed it."""
    return os.environ.get(name, _withheld.get(name))


def withhold_secrets() -> None:
    """Remove the store's secrets from this process's environment, which torch copies to each worker.

    This module keeps the secrets, because the agent reconnects to its store later. Processes of the same user can still
    read the initial environment in `/proc`; `--token FILE` avoids that.
    """
    for name in _SECRETS:
        if (value := os.environ.pop(name, None)) is not None:
            _withheld[name] = value
