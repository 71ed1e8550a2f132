"""`PlanRendezvous`: a torch rendezvous handler for a `Node`. Imports torch."""

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

from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import (
    AgentError,
    Drained,
    HostError,
    JobSucceeded,
    SettingsError,
    escape_unprintable,
)
from elastic.agent.job_settings import ElasticJob, LocalNode, RendezvousSettings
from elastic.agent.node import Node
from elastic.agent.open_store import connect_store, host_store_if_local
from elastic.agent.store_endpoint import StoreEndpoint, exposure_warning, local_address, withhold_secrets
from elastic.agent.torch_compat import assume_identical_workers, exit_after_success

# Only the documented interface is used, because DeepSpeed's agent broke when it overrode private methods.
# Sources: torch distributed/elastic/rendezvous/api.py:RendezvousHandler;
# torch distributed/elastic/rendezvous/api.py:RendezvousInfo;
# torch distributed/elastic/rendezvous/api.py:RendezvousStoreInfo.

LINGER = 10.0
"""Seconds for which the node that hosts the store waits at the end for the other nodes to leave."""
_PREFIX = "dsconfig-elastic-"
_LONGEST = 90
"""Maximum length in bytes of the path of the workers' directory: the path of a Unix socket in it is limited to 107."""


class PlanRendezvous(RendezvousHandler):
    """A torch rendezvous that follows the elastic plan.

    `exits` is for callers outside this package, such as stock torchrun: an `AgentError` then becomes a line on stderr
    and an exit code.
    """

    def __init__(
        self,
        job: ElasticJob,
        settings: RendezvousSettings,
        endpoint: StoreEndpoint,
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
        self._drain = DrainRequest()
        with self._translate_errors():
            self._server = host_store_if_local(endpoint, settings)
            if self._server is not None:
                endpoint = replace(endpoint, addresses=((endpoint.host, self._server.port),))
                if (warning := exposure_warning(endpoint)) is not None:
                    _print_message(f"warning: {warning}")
            store = connect_store(endpoint, settings)
            self.node = Node.open(
                LocalNode(
                    job, settings, run_id, local_addr or local_address(endpoint), _make_worker_folder()
                ),
                store,
                lambda: connect_store(endpoint, settings),
                event_log,
                self._drain,
            )
        # torch does not shut a handler down after a signal, but this node should leave cleanly.
        atexit.register(self.node.leave)

    def get_backend(self) -> str:
        """Return the name of this rendezvous backend in torch."""
        return self._backend

    def get_run_id(self) -> str:
        """Return the name of the job in the store."""
        return self.node.local.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for a round that includes this node, and set its workers' environment in this process."""
        with self._translate_errors():
            assignment, view = self.node.join()
            os.environ.update(self.node.worker_environment(assignment, view))
        withhold_secrets()
        assume_identical_workers()
        self._round = RoundStore()
        master = RendezvousStoreInfo(assignment.master_addr, assignment.master_port)
        return RendezvousInfo(self._round, assignment.rank, assignment.nodes, master)

    def num_nodes_waiting(self) -> int:
        """Return a positive number if the workers should restart, because nodes join or the round is over.

        torch's agent calls this in its main thread after each poll of its workers.
        """
        self._drain.listen()
        with self._translate_errors():
            return self.node.num_nodes_waiting()

    def is_closed(self) -> bool:
        """Return whether the job has ended."""
        return self.node.has_ended()

    def set_closed(self) -> None:
        """End the job as failed; required by torch's handler interface, but not called by this package."""
        self.node.fail("closed")

    def shutdown(self) -> bool:
        """End this agent, by returning, or by the exception that torch's launcher propagates.

        torch 2.6 calls this once more for failed workers, without an exception.
        Source: torch distributed/elastic/agent/server/local_elastic_agent.py:LocalElasticAgent._shutdown.
        """
        exception = sys.exc_info()[1]
        exception = None if exception is self._outer else exception
        succeeded = exception is None and self._round is not None and self._round.used
        try:
            if succeeded:
                self.node.succeed()
            elif exception is None or isinstance(exception, ChildFailedError):
                self.node.fail(f"training failed on {self.node.local.name}")
        except AgentError:
            return False
        finally:
            self.node.leave(wait_for_others=LINGER if self._server else 0.0)
        return True

    def leave(self) -> None:
        """Leave the job cleanly, unless done already; after a signal, torch does not shut its handler down."""
        self.node.leave()
        atexit.unregister(self.node.leave)

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Convert errors that end this node's part in the job to exceptions for the caller."""
        try:
            yield
        except JobSucceeded as ended:
            if str(ended):
                _print_message(str(ended))
            raise exit_after_success() from None
        except Drained:
            if self._server is not None:
                _print_message("the job ends with this node, which hosts the store")
            raise SignalException("left after a drain", signal.SIGTERM) from None
        except AgentError as error:
            self._end(error)
        except OSError as error:
            self._end(HostError(f"this host failed: {error}"))

    def _end(self, error: AgentError) -> NoReturn:
        if not self._exits:
            raise error
        _print_message(f"error: {error}")
        raise SystemExit(error.code) from None


def _print_message(text: str) -> None:
    print(f"dsconfig: {escape_unprintable(text)}", file=sys.stderr, flush=True)


def _make_worker_folder() -> str:
    """Create the directory for the workers' files.

    Raises:
        SettingsError: the directory cannot be created.
    """
    try:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        if len(os.fsencode(folder)) <= _LONGEST:
            return folder
        os.rmdir(folder)
        return tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp")
    except OSError as error:
        raise SettingsError(f"cannot create a temporary directory: {error}") from None


# `RoundStore`: store of a round for torch's agent.


class RoundStore(Store):
    """An empty store, used only by torch's exit barrier, which it lets pass immediately.

    torch enters the barrier when all workers of the node have succeeded, and would wait 300 s for a node that was
    killed in the meantime. Instead, the job's state records when all nodes have succeeded (`Node.succeed`), and which
    ones were lost. Source: torch distributed/elastic/agent/server/api.py:SimpleElasticAgent._exit_barrier.
    """

    def __init__(self) -> None:
        super().__init__()
        self.used = False
        """Whether torch has used the store, which means that the workers have succeeded."""

    def add(self, _key: str, _value: int) -> int:
        """Return 0, so that torch never considers this node the last one, which would notify the others."""
        self.used = True
        return 0

    def wait(self, _keys: list[str], *_timeout: timedelta) -> None:
        """Return without waiting."""
