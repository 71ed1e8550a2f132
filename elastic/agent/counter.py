"""`Counter`: the answers to this node's workers: may I commit, may I end.

Every answer that matters is decided by a compare-and-set on the state, with the worker's own round: a worker
that was frozen, or whose node was removed, asks in vain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from elastic.agent import moves
from elastic.agent.board import Board
from elastic.agent.journal import Journal
from elastic.agent.pulse import Pulse

_POLL = 0.05


class Counter:
    """What the desk serves.  One connection, one question to the store at a time."""

    def __init__(self, board: Board, node: str, processes: int, pulse: Pulse, journal: Journal) -> None:
        self._board = board
        self._node = node
        self._processes = processes
        self._pulse = pulse
        self._journal = journal
        self._lock = threading.Lock()
        self._done: dict[int, set[int]] = {}

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one question, which names what is asked and the worker's round."""
        asked, round_ = question["ask"], int(question["round"])
        if asked == "commit":
            return self._commit(round_, str(question["checkpoint"]))
        if asked == "finish":
            return self._finish(round_, int(question["local_rank"]))
        if asked == "state":
            with self._lock:
                state = self._board.read()
            return {"round": state.round, "phase": state.phase, "latest": state.latest}
        return {"error": f"unknown question {asked!r}"}

    def _commit(self, round_: int, checkpoint: str) -> Mapping[str, Any]:
        with self._lock:
            before = self._board.read().commits
            committing = partial(moves.commit, node=self._node, round_=round_, checkpoint=checkpoint)
            state = self._board.update(committing)
        taken = state.round == round_ and state.latest == checkpoint and state.commits > before
        self._journal.write("commit" if taken else "commit-refused", round=round_, checkpoint=checkpoint)
        return {"committed": taken, "number": state.commits, "round": state.round}

    def _finish(self, round_: int, local_rank: int) -> Mapping[str, Any]:
        """Hold a worker that has ended well until all of its group have; the answer may never come.

        With the last of them the job has succeeded, whatever becomes of its nodes after that.
        """
        with self._lock:
            done = self._done.setdefault(round_, set())
            done.add(local_rank)
            if len(done) == self._processes:
                self._board.update(partial(moves.finish, node=self._node, round_=round_))
        while self._pulse.lost is None:
            state = self._pulse.view
            if state is not None and moves.all_finished(state, round_):
                with self._lock:
                    state = self._board.update(partial(moves.succeed, node=self._node, round_=round_))
            if state is not None and state.outcome is not None:
                return {"finished": True}
            if state is not None and moves.is_over(state, round_):
                return {"finished": False}
            time.sleep(_POLL)
        return {"finished": False}
