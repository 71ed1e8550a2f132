"""Start or connect to the job's store: torch's `TCPStore`, dsconfig's token store, or etcd. Imports torch."""

from __future__ import annotations

import socket
import time
from datetime import timedelta
from typing import Protocol, cast

import torch
from torch.distributed import TCPStore

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.etcd_store import EtcdStore
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.state_store import BoundedCaller, Store, first_line_of_error
from elastic.agent.store_endpoint import StoreEndpoint, is_local
from elastic.agent.token_store import TokenServer, TokenStore, requires_token
from elastic.agent.torch_compat import libuv_takes_sockets

_BACKLOG = 4096
"""Number of pending connections that the listening socket queues: all nodes of a large job connect at once."""


class HostedStore(Protocol):
    """A store that this process serves."""

    @property
    def port(self) -> int:
        """Port on which the store listens."""


def host_store(endpoint: StoreEndpoint, settings: RendezvousSettings) -> HostedStore:
    """Start a store that listens only on the endpoint's address.

    torch's own server listens on every address of the machine, unless it is given a listening socket
    (`c10d/TCPStoreLibUvBackend.cpp`, `LibUVStoreDaemon::init`).

    Raises:
        SettingsError: the store cannot be started.
    """
    listener = _listen_on_address(endpoint)
    if endpoint.token is not None:
        return TokenServer(listener, endpoint.token)
    host, port = listener.getsockname()[:2]
    timeout = timedelta(seconds=settings.read_timeout)
    try:
        return TCPStore(
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=timeout,
            master_listen_fd=listener.detach(),
            use_libuv=libuv_takes_sockets(torch.__version__),
        )
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {endpoint}: {first_line_of_error(error)}") from None


def _listen_on_address(endpoint: StoreEndpoint) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        return socket.create_server(addresses[0][4][:2], family=addresses[0][0], backlog=_BACKLOG)
    except OSError as error:
        raise SettingsError(f"cannot listen on {endpoint}: {error.strerror}") from None
    except UnicodeError:
        raise SettingsError(f"cannot listen on {endpoint}: not a host name") from None


def host_store_if_local(endpoint: StoreEndpoint, settings: RendezvousSettings) -> HostedStore | None:
    """Start and return the store if this process must host it, else return `None`."""
    if endpoint.hosts is False or (endpoint.hosts is None and not is_local(endpoint.host)):
        return None
    try:
        return host_store(endpoint, settings)
    except SettingsError:
        if endpoint.hosts:
            raise
        return None  # another agent on this machine hosts it


def connect_store(
    endpoint: StoreEndpoint, settings: RendezvousSettings, patience: float | None = None
) -> Store:
    """Connect to the job's store.

    Raises:
        StoreLostError: no store answers in time.
    """
    patience = settings.connect_timeout if patience is None else patience
    _await_listener(endpoint, patience)
    limit = max(1.0, min(patience, settings.read_timeout))

    def connect() -> Store:
        if endpoint.kind != "tcp":
            secure = endpoint.kind == "etcds"
            return EtcdStore(endpoint.addresses, settings.read_timeout, secure=secure)
        if endpoint.token is not None:
            return TokenStore(endpoint.host, endpoint.port, endpoint.token, settings.read_timeout)
        if requires_token(endpoint.host, endpoint.port):
            raise StoreLostError("it requires a token; pass --token FILE")
        timeout = timedelta(seconds=limit)
        store = TCPStore(
            endpoint.host, endpoint.port, is_master=False, wait_for_workers=False, timeout=timeout
        )
        store.set_timeout(timedelta(seconds=settings.read_timeout))
        return cast("Store", store)  # torch's type stubs lack `multi_set`

    caller = BoundedCaller(1.5 * limit)
    try:
        return caller.call(connect)
    except StoreLostError as error:
        raise StoreLostError(f"no store at {endpoint}: {error}") from None
    finally:
        caller.close()


def _await_listener(endpoint: StoreEndpoint, patience: float) -> None:
    """Wait until the store listens, because torch logs a warning with a stack trace for each failed attempt."""
    deadline = time.monotonic() + patience
    while True:
        for address in endpoint.addresses:
            failure = _connection_error(*address, (deadline - time.monotonic()) / len(endpoint.addresses))
            if failure is None:
                return
        if time.monotonic() >= deadline:
            raise StoreLostError(f"no store at {endpoint} after {patience:g} s: {failure}")
        time.sleep(0.1)


def _connection_error(host: str, port: int, patience: float) -> str | None:
    """Return why a connection to `host` and `port` fails, or `None` if it succeeds."""
    try:
        socket.create_connection((host, port), timeout=max(0.1, patience)).close()
    except OSError as error:
        return error.strerror or str(error)
    except UnicodeError:
        return "not a host name"
    return None
