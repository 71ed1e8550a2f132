"""`PlanRendezvous`: a `Node` as torch's rendezvous handler.  Imports torch.

Only the documented interface is used (`torch/distributed/elastic/rendezvous/api.py`, `RendezvousHandler`,
`RendezvousInfo`, `RendezvousStoreInfo`): overriding private methods of the agent is what broke DeepSpeed's.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, Store, TCPStore
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo

from elastic.agent.admission import Job
from elastic.agent.drain import Drain
from elastic.agent.errors import AgentError, SettingsError
from elastic.agent.line import Line
from elastic.agent.node import Drained, JobSucceeded, Node
from elastic.agent.settings import Settings
from elastic.agent.store import connect_store, host_store, is_local, own_address

LINGER = 10.0
"""Seconds that the node which hosts the store waits at the end for the others to leave."""

_PREFIX = "dsconfig-elastic-"
_LONGEST = 90
"""Bytes of the folder's path: that of a Unix socket in it has room for 107."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the store is, and whether this process hosts it; None: where the address is this machine's."""

    host: str
    port: int
    hosts: bool | None = None


class RoundStore(PrefixStore):
    """The store of one round, which torch uses in its exit barrier only.

    It enters that when all workers of the node have ended well, and waits 300 s for a node that was killed
    since (`elastic/agent/server/api.py`, `SimpleElasticAgent._exit_barrier`); nobody needs that long here.
    """

    used = False
    """Whether the workers have ended well."""

    def __init__(self, prefix: str, store: Store, line: Line) -> None:
        super().__init__(prefix, store)
        self._line = line

    def add(self, key: str, value: int) -> int:
        """As ever, but it ends in time."""
        return self._line.call(lambda: super(RoundStore, self).add(key, value))

    def wait(self, *arguments: Any) -> None:
        """As ever, but it ends in time."""
        self._line.call(lambda: super(RoundStore, self).wait(*arguments))

    def set_timeout(self, timeout: timedelta) -> None:
        """Never longer than `LINGER` x 3."""
        self.used = True
        super().set_timeout(min(timeout, timedelta(seconds=3 * LINGER)))


class PlanRendezvous(RendezvousHandler):
    """Rendezvous by the elastic plan.

    `exits` is for callers that know nothing of this package (stock torchrun): an `AgentError` then becomes
    its line on stderr and its exit code.
    """

    def __init__(
        self,
        job: Job,
        settings: Settings,
        endpoint: Endpoint,
        run_id: str,
        backend: str,
        *,
        local_addr: str | None = None,
        event_log: str | None = None,
        exits: bool = False,
    ) -> None:
        self._exits = exits
        self._backend = backend
        self._round: RoundStore | None = None
        self._line = Line(4 * LINGER)
        self._outer = sys.exc_info()[1]
        with self._explained():
            self._server = _host(endpoint, settings)
            port = self._server.port if self._server else endpoint.port
            first = connect_store(endpoint.host, port, settings)
            address = local_addr or own_address(endpoint.host, port)
            folder = _folder()
            self._drain = Drain()
            self.node = Node(job, settings, run_id, address, folder, event_log, self._drain)
            self._store = first
            self.node.open(first, lambda: connect_store(endpoint.host, port, settings))
        # torch does not shut a handler down after a signal, for the others' sake; leave in order even so.
        atexit.register(self.node.leave)

    def get_backend(self) -> str:
        """The name under which torch knows this."""
        return self._backend

    def get_run_id(self) -> str:
        """The job's name in the store."""
        return self.node.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for a round with this node in it; its workers' variables are set in this process."""
        with self._explained():
            place, state = self.node.join()
            os.environ.update(self.node.variables(place, state))
        # All nodes have as many workers, so torch need not ask each of them
        # (`elastic/agent/server/api.py`, `_assign_worker_ranks`) and wait for one that has just died.
        os.environ["TORCH_ELASTIC_WORKER_IDENTICAL"] = "1"
        prefix = f"dsconfig/{self.node.run_id}/round/{state.incarnation}/{place.round}"
        self._round = RoundStore(prefix, self._store, self._line)
        master = RendezvousStoreInfo(place.master_addr, place.master_port)
        return RendezvousInfo(self._round, place.rank, place.nodes, master)

    def num_nodes_waiting(self) -> int:
        """Above 0 where the workers should be restarted: somebody joins, or their round is over.

        torch's agent asks in its main thread after each look at its workers.
        """
        self._drain.listen()
        with self._explained():
            return self.node.waiting()

    def is_closed(self) -> bool:
        """Whether the job has ended."""
        return self.node.ended()

    def set_closed(self) -> None:
        """End the job as failed: nothing else calls this."""
        self.node.fail("closed")

    def shutdown(self) -> bool:
        """This agent ends: well, or with the exception that torch's launcher is letting through just now.

        torch 2.6 calls this once more for workers that have failed, without an exception
        (`elastic/agent/server/local_elastic_agent.py`, `LocalElasticAgent._shutdown`).
        """
        passing = sys.exc_info()[1]
        passing = None if passing is self._outer else passing
        well = passing is None and self._round is not None and self._round.used
        try:
            if well:
                self.node.succeed()
            elif passing is None or isinstance(passing, ChildFailedError):
                self.node.fail(f"training failed on {self.node.name}")
        except AgentError:
            return False
        finally:
            self.node.leave(wait_for_others=LINGER if self._server else 0.0)
        return True

    def leave(self) -> None:
        """Leave in order, where that was not done: torch does not shut a handler down after a signal."""
        self.node.leave()
        self._line.close()
        atexit.unregister(self.node.leave)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what ends this node's part into what the caller understands."""
        try:
            yield
        except JobSucceeded as ended:
            if str(ended):
                _say(str(ended))
            # RendezvousGracefulExitError would be the word for it, but torch 2.13's launcher fails on it
            # (`launcher/api.py`, `launch_agent`: there is no result to ask whether it failed).
            raise SystemExit(0) from None
        except Drained:
            if self._server is not None:
                _say("the job ends with this node, which hosts the store")
            raise SignalException("left in order", signal.SIGTERM) from None
        except AgentError as error:
            if not self._exits:
                raise
            _say(f"error: {error}")
            raise SystemExit(error.code) from None


def _say(text: str) -> None:
    print(f"dsconfig: {text}", file=sys.stderr, flush=True)


def _folder() -> str:
    """A folder for what the workers of this node need.  Raises `SettingsError`."""
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        if len(os.fsencode(folder)) <= _LONGEST:
            return folder
        os.rmdir(folder)
        return tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
    except OSError as error:
        raise SettingsError(f"no temporary folder can be made: {error}") from None


def _host(endpoint: Endpoint, settings: Settings) -> TCPStore | None:
    """The store, where this process is to host it."""
    if endpoint.hosts is False or (endpoint.hosts is None and not is_local(endpoint.host)):
        return None
    try:
        return host_store(endpoint.host, endpoint.port, settings)
    except SettingsError:
        if endpoint.hosts:
            raise
        return None  # another agent of this machine hosts it already
