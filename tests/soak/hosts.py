"""`Host`: a node of the soak's job with a clock, a disk and a network of its own."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.agent.cluster import ROOT, Cluster, Process
from tests.agent.etcd import Etcd
from tests.agent.links import Links
from tests.soak.disks import Disk

_SHIM = Path(__file__).with_name("shim")
_CONF = "last_call_timeout=1,stall_timeout=5,stall_restart=10"


class Host:
    """A machine: what is done to it, and how its agent may end in consequence."""

    def __init__(self, job: Cluster, etcd: Etcd) -> None:
        self.number = len(job.nodes)
        self.closed = False
        self._folder = job.folder / f"host-{self.number}"
        self._folder.mkdir()
        self.links = Links(etcd.addresses)
        self.disk = Disk(self._folder / "tmp", megabytes=1)
        self.expected = {-signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM}
        """Exit codes of an agent that was killed, or drained, if need be before Python had begun."""
        job.endpoint = "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self.links.ports)
        job.environment |= {
            "DISTURBED": str(self._folder),
            "PYTHONPATH": f"{_SHIM}:{ROOT}",
            "TMPDIR": str(self._folder / "tmp"),
        }
        self.node: Process = job.start_node("--max-restarts", "1000000", conf=_CONF)

    def shift_clock(self, seconds: float) -> None:
        """Set the time of day."""
        (self._folder / "clock").write_text(str(seconds))

    def slow_disk(self, seconds: float) -> None:
        """Have every fsync take so long; 0: no longer than it does."""
        (self._folder / "slow-disk").write_text(str(seconds))

    def close(self) -> None:
        """Give back what the machine took, once its agent has ended."""
        if self.closed:
            return
        self.closed = True
        self.links.close()
        self.disk.close()
