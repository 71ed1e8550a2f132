"""`PlanRendezvous`: a `Node` as torch's rendezvous handler. Imports torch."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

from torch.distributed import Store
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo
from torch.distributed.elastic.rendezvous.api import RendezvousStoreInfo

from elastic.agent.drain import Drain
from elastic.agent.endpoint import Endpoint, open_to_others, own_address
from elastic.agent.errors import AgentError, Drained, HostError, JobSucceeded, SettingsError, printable
from elastic.agent.job import Job, LocalNode
from elastic.agent.node import Node
from elastic.agent.secret_variables import withhold
from elastic.agent.settings import RendezvousSettings
from elastic.agent.store import connect_store, host_if_ours
from elastic.agent.torch_releases import end_well, spare_the_ranks

# `PlanRendezvous`: a `Node` as torch's rendezvous handler.  Imports torch.
#
# Only the documented interface is used (`torch/distributed/elastic/rendezvous/api.py`, `RendezvousHandler`,
# `RendezvousInfo`, `RendezvousStoreInfo`): overriding private methods of the agent is what broke DeepSpeed's.

LINGER = 10.0
"""Seconds that the node which hosts the store waits at the end for the others to leave."""
_PREFIX = "dsconfig-elastic-"
_LONGEST = 90
"""Bytes of the folder's path: the path of a Unix socket in it has room for 107."""


class PlanRendezvous(RendezvousHandler):
    """Rendezvous by the elastic plan.

    `exits` is for callers that know nothing of this package (stock torchrun): an `AgentError` then becomes
    its line on stderr and its exit code.
    """

    def __init__(
        self,
        job: Job,
        settings: RendezvousSettings,
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
        self._outer = sys.exc_info()[1]
        self._drain = Drain()
        with self._explained():
            self._server = host_if_ours(endpoint, settings)
            if self._server is not None:
                endpoint = replace(endpoint, addresses=((endpoint.host, self._server.port),))
                if (warning := open_to_others(endpoint)) is not None:
                    _say(f"warning: {warning}")
            store = connect_store(endpoint, settings)
            self.node = Node.open(
                LocalNode(job, settings, run_id, local_addr or own_address(endpoint), _make_folder()),
                store,
                lambda: connect_store(endpoint, settings),
                event_log,
                self._drain,
            )
        # torch does not shut a handler down after a signal, for the others' sake; leave in order even so.
        atexit.register(self.node.leave)

    def get_backend(self) -> str:
        """The name under which torch knows this."""
        return self._backend

    def get_run_id(self) -> str:
        """The job's name in the store."""
        return self.node.local.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for a round with this node in it; its workers' variables are set in this process."""
        with self._explained():
            assignment, state = self.node.join()
            os.environ.update(self.node.worker_environment(assignment, state))
        withhold()
        spare_the_ranks()
        self._round = RoundStore()
        master = RendezvousStoreInfo(assignment.master_addr, assignment.master_port)
        return RendezvousInfo(self._round, assignment.rank, assignment.nodes, master)

    def num_nodes_waiting(self) -> int:
        """Above 0 where the workers should be restarted: somebody joins, or their round is over.

        torch's agent asks in its main thread after each look at its workers.
        """
        self._drain.listen()
        with self._explained():
            return self.node.num_nodes_waiting()

    def is_closed(self) -> bool:
        """Whether the job has ended."""
        return self.node.has_ended()

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
                self.node.fail(f"training failed on {self.node.local.name}")
        except AgentError:
            return False
        finally:
            self.node.leave(wait_for_others=LINGER if self._server else 0.0)
        return True

    def leave(self) -> None:
        """Leave in order, if that was not done: torch does not shut a handler down after a signal."""
        self.node.leave()
        atexit.unregister(self.node.leave)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what ends this node's part into what the caller understands."""
        try:
            yield
        except JobSucceeded as ended:
            if str(ended):
                _say(str(ended))
            raise end_well() from None
        except Drained:
            if self._server is not None:
                _say("the job ends with this node, which hosts the store")
            raise SignalException("left in order", signal.SIGTERM) from None
        except AgentError as error:
            self._end(error)
        except OSError as error:
            self._end(HostError(f"this host cannot go on: {error}"))

    def _end(self, error: AgentError) -> NoReturn:
        if not self._exits:
            raise error
        _say(f"error: {error}")
        raise SystemExit(error.code) from None


def _say(text: str) -> None:
    print(f"dsconfig: {printable(text)}", file=sys.stderr, flush=True)


def _make_folder() -> str:
    """A folder for what the workers of this node need.  Raises `SettingsError`."""
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        if len(os.fsencode(folder)) <= _LONGEST:
            return folder
        os.rmdir(folder)
        return tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
    except OSError as error:
        raise SettingsError(f"no temporary folder can be made: {error}") from None


# `RoundStore`: what torch's agent gets as the store of a round.  Imports torch.


class RoundStore(Store):
    """A store that keeps nothing: torch's exit barrier, which alone uses it, is passed at once.

    torch enters it when all workers of the node have ended well, and waits 300 s for a node that was killed
    since (`elastic/agent/server/api.py`, `SimpleElasticAgent._exit_barrier`).  Here the job's state says when
    all have ended (`Node.succeed`), and who was lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used = False
        """Whether the workers have ended well."""

    def add(self, _key: str, _value: int) -> int:
        """Never the last one, who would tell the others."""
        self.used = True
        return 0

    def wait(self, _keys: list[str], *_timeout: timedelta) -> None:
        """At once."""
