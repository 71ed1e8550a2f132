"""The job's store: torch's `TCPStore`, reached or hosted.  Imports torch."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

from torch.distributed import TCPStore

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.line import Line, reason
from elastic.agent.settings import Settings

DEFAULT_PORT = 29400


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


def host_store(host: str, port: int, settings: Settings) -> TCPStore:
    """A store that lives in this process.  Raises `SettingsError` where the port is taken."""
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
        raise SettingsError(f"cannot listen on {host}:{port}: {reason(error)}") from None


def connect_store(host: str, port: int, settings: Settings, patience: float | None = None) -> TCPStore:
    """A connection of its own to a store.  Raises `StoreLostError` where none answers in time."""
    patience = settings.connect_timeout if patience is None else patience
    _await_listener(host, port, patience)
    limit = max(1.0, min(patience, settings.read_timeout))

    def connect() -> TCPStore:
        store = TCPStore(
            host, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=limit)
        )
        store.set_timeout(timedelta(seconds=settings.read_timeout))
        return store

    line = Line(1.5 * limit)
    try:
        return line.call(connect)
    except StoreLostError as error:
        raise StoreLostError(f"no store answers at {host}:{port}: {error}") from None
    finally:
        line.close()


def _await_listener(host: str, port: int, patience: float) -> None:
    """Wait until something listens: torch logs a warning with a stack for each attempt of its own."""
    until = time.monotonic() + patience
    while (refusal := _knock(host, port, until - time.monotonic())) is not None:
        if time.monotonic() >= until:
            raise StoreLostError(f"no store answers at {host}:{port} in {patience:g} s: {refusal}")
        time.sleep(0.1)


def _knock(host: str, port: int, patience: float) -> str | None:
    """Why nobody opens; `None` where somebody does."""
    try:
        socket.create_connection((host, port), timeout=max(0.1, patience)).close()
    except OSError as error:
        return error.strerror or str(error)
    except UnicodeError:
        return "not a host name"
    return None


def own_address(host: str, port: int) -> str:
    """The address by which this machine reaches the store, and so by which others reach this machine."""
    with socket.create_connection((host, port), timeout=5) as trial:
        address: str = trial.getsockname()[0]
        return address
