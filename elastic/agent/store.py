"""The job's store: torch's `TCPStore`, hosted or reached.  Imports torch."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

from torch.distributed import TCPStore

from elastic.agent.bounded_call import BoundedCaller, first_line
from elastic.agent.endpoint import Endpoint, is_local
from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.settings import RendezvousSettings


def host_store(host: str, port: int, settings: RendezvousSettings) -> TCPStore:
    """A store that lives in this process.  Raises `SettingsError` if the port is taken."""
    timeout = timedelta(seconds=settings.read_timeout)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    try:
        return TCPStore(host, port, is_master=True, wait_for_workers=False, timeout=timeout)
    except RuntimeError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {first_line(error)}") from None


def host_if_ours(endpoint: Endpoint, settings: RendezvousSettings) -> TCPStore | None:
    """The store, if this process is to host it."""
    if endpoint.hosts is False or (endpoint.hosts is None and not is_local(endpoint.host)):
        return None
    try:
        return host_store(endpoint.host, endpoint.port, settings)
    except SettingsError:
        if endpoint.hosts:
            raise
        return None  # another agent of this machine hosts it already


def connect_store(
    host: str, port: int, settings: RendezvousSettings, patience: float | None = None
) -> TCPStore:
    """A new connection to a store.  Raises `StoreLostError` if none answers in time."""
    patience = settings.connect_timeout if patience is None else patience
    _await_listener(host, port, patience)
    limit = max(1.0, min(patience, settings.read_timeout))

    def connect() -> TCPStore:
        timeout = timedelta(seconds=limit)
        store = TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timeout)
        store.set_timeout(timedelta(seconds=settings.read_timeout))
        return store

    caller = BoundedCaller(1.5 * limit)
    try:
        return caller.call(connect)
    except StoreLostError as error:
        raise StoreLostError(f"no store answers at {host}:{port}: {error}") from None
    finally:
        caller.close()


def _await_listener(host: str, port: int, patience: float) -> None:
    """Wait until something listens: torch logs a warning with a stack for each attempt of its own."""
    until = time.monotonic() + patience
    while (refusal := _why_refused(host, port, until - time.monotonic())) is not None:
        if time.monotonic() >= until:
            raise StoreLostError(f"no store answers at {host}:{port} in {patience:g} s: {refusal}")
        time.sleep(0.1)


def _why_refused(host: str, port: int, patience: float) -> str | None:
    """Why no connection can be made; `None` if one can."""
    try:
        socket.create_connection((host, port), timeout=max(0.1, patience)).close()
    except OSError as error:
        return error.strerror or str(error)
    except UnicodeError:
        return "not a host name"
    return None
