"""`WorkerRequests`: the agent's replies to this node's workers: may I commit, may I end.

Every reply that matters is decided by a compare-and-set on the state, with the worker's own round: a worker
that was frozen, or whose node was removed, is refused.
"""

from __future__ import annotations

import threading
import time
from functools import partial

from elastic.agent import transitions
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.local_node import LocalNode
from elastic.agent.state_store import StateStore
from elastic.worker.agent_client import Message
from elastic.worker.checkpoint_name import check_name

_POLL = 0.05


class WorkerRequests:
    """Replies for a `WorkerServer`, with one request to the store at a time."""

    def __init__(self, store: StateStore, node: LocalNode, heartbeat: Heartbeat, log: EventLog) -> None:
        self._store = store
        self._node = node
        self._heartbeat = heartbeat
        self._log = log
        self._lock = threading.Lock()
        self._finished: dict[int, set[int]] = {}
        """The local ranks that have ended well in each round."""

    def reply(self, message: Message) -> Message:
        """Reply to one message, which says what is requested and names the worker's round."""
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
                partial(transitions.commit, node=self._node.name, round_=round_, checkpoint=checkpoint)
            )
        taken = state.round == round_ and state.latest == checkpoint and state.commits > before
        self._log.write("commit" if taken else "commit-refused", round=round_, checkpoint=checkpoint)
        return {"committed": taken, "number": state.commits, "round": state.round}

    def _give_up(self, round_: int, text: str) -> Message:
        with self._lock:
            state = self._store.update(
                partial(transitions.fail, node=self._node.name, round_=round_, text=text)
            )
        return {"failed": state.outcome is not None}

    def _finish(self, round_: int, local_rank: int) -> Message:
        """Hold back a worker that has ended well until all of its group have; the reply may never come.

        With the last of them the job has succeeded, whatever becomes of its nodes after that.
        """
        name = self._node.name
        with self._lock:
            finished = self._finished.setdefault(round_, set())
            finished.add(local_rank)
            if len(finished) == self._node.job.processes:
                self._store.update(partial(transitions.finish, node=name, round_=round_))
        while self._heartbeat.lost is None:
            state = self._heartbeat.state
            if state is not None and transitions.all_finished(state, round_):
                with self._lock:
                    state = self._store.update(partial(transitions.succeed, node=name, round_=round_))
            if state is not None and state.outcome is not None:
                return {"finished": True}
            if state is not None and transitions.is_over(state, round_):
                return {"finished": False}
            time.sleep(_POLL)
        return {"finished": False}
