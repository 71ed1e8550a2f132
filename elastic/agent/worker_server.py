"""`WorkerServer`: the socket for requests of this node's workers; `WorkerRequests`: the replies."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.join_requests import FinishReport
from elastic.agent.state_store import StateStore
from elastic.worker.agent_client import HOLD_LIVENESS_PORT, Message
from elastic.worker.checkpoint_name import check_name

# Requests and replies are JSON lines over a Unix socket. Only the agent connects to the store; a worker needs neither
# that connection nor torch.


class WorkerServer:
    """Serves the requests of this node's workers until closed, with one thread per worker."""

    def __init__(
        self, path: str, reply: Callable[[Message], Message], liveness: socket.socket | None = None
    ) -> None:
        """Start the server; each worker also receives `liveness`, the listening socket of `LivenessPort`."""
        self._server = _Server(path, reply, liveness)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="dsconfig-worker-server",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop accepting requests."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, path: str, reply: Callable[[Message], Message], liveness: socket.socket | None
    ) -> None:
        super().__init__(path, _WorkerConnection)
        self.reply = reply
        self.liveness = liveness


class _WorkerConnection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer each request line until the worker disconnects."""
        assert isinstance(self.server, _Server)
        try:
            for line in self.rfile:
                if line == HOLD_LIVENESS_PORT:
                    self._pass_liveness_port(self.server.liveness)
                    continue
                reply = self._reply(self.server, line)
                self.wfile.write(json.dumps(reply).encode() + b"\n")
        except OSError:
            return  # the worker has ended

    def _pass_liveness_port(self, liveness: socket.socket | None) -> None:
        """Pass the socket of the liveness port to the worker, after a byte that says whether there is one."""
        sockets = [] if liveness is None else [liveness.fileno()]
        socket.send_fds(self.connection, [b"%d" % len(sockets)], sockets)

    @staticmethod
    def _reply(server: _Server, line: bytes) -> Message:
        try:
            return server.reply(json.loads(line))
        except Exception as error:  # a worker's request must not end the agent
            return {"error": f"{type(error).__name__}: {error}"}


# Commits and endings are decided by a compare-and-set on the state with the worker's own round, so a worker that was
# frozen, or whose node was removed, is rejected.

_POLL = 0.05


class WorkerRequests:
    """Answers workers' requests for a `WorkerServer`, accessing the store for one request at a time."""

    def __init__(self, store: StateStore, node: LocalNode, heartbeat: Heartbeat, log: EventLog) -> None:
        self._store = store
        self._node = node
        self._heartbeat = heartbeat
        self._log = log
        self._lock = threading.Lock()
        self._finished: dict[int, set[int]] = {}
        """Local ranks that have succeeded, by round."""

    def reply(self, message: Message) -> Message:
        """Answer a message, which has the request and the worker's round."""
        request, round_ = message["request"], int(message["round"])
        if request == "commit":
            return self._commit(round_, str(message["checkpoint"]))
        if request == "finish":
            return self._finish(round_, int(message["local_rank"]))
        if request == "give-up":
            return self._give_up(round_, str(message["text"]))
        if request == "state":
            with self._lock:
                state = self._store.read()
            return {"round": state.round, "phase": state.phase, "latest": state.latest}
        return {"error": f"unknown request {request!r}"}

    def _commit(self, round_: int, checkpoint: str) -> Message:
        check_name(checkpoint)
        with self._lock:
            before = self._store.read().commits
            state = self._store.update(
                partial(
                    job_state_transitions.commit_checkpoint,
                    node=self._node.name,
                    round_=round_,
                    checkpoint=checkpoint,
                )
            )
        committed = state.round == round_ and state.latest == checkpoint and state.commits > before
        self._log.write("commit" if committed else "commit-refused", round=round_, checkpoint=checkpoint)
        return {"committed": committed, "number": state.commits, "round": state.round}

    def _give_up(self, round_: int, text: str) -> Message:
        with self._lock:
            state = self._store.update(
                partial(job_state_transitions.fail_job, node=self._node.name, round_=round_, text=text)
            )
        return {"failed": state.outcome is not None}

    def _finish(self, round_: int, local_rank: int) -> Message:
        """Make a successful worker wait until its whole group has succeeded, or the round is over.

        When the last node reports, the job succeeds, whatever happens to the nodes afterwards. If the agent ends
        first, the worker gets no reply.
        """
        name = self._node.name
        with self._lock:
            finished = self._finished.setdefault(round_, set())
            finished.add(local_rank)
            if len(finished) == self._node.job.processes:
                self._store.ask(
                    lambda view: FinishReport(name, view.revision, round_), self._heartbeat.latest_view
                )
        while self._heartbeat.lost is None:
            view = self._heartbeat.view
            if view is not None and view.outcome is not None:
                return {"finished": True}
            if view is not None and job_state_transitions.is_round_over(view, round_):
                return {"finished": False}
            time.sleep(_POLL)
        return {"finished": False}
