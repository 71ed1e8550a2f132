"""`Pulse`: the thread that keeps this node alive in the job, renews the workers' lease and watches others.

Why a node that was removed never trains on: a member is removed in two steps.  It is marked in the state
first; a node counts its lease from its last heartbeat, and only when it has read, after that, a state in
which it is a member without a mark; and the mark is followed by removal only where the heartbeat has still
not changed.  So that heartbeat is older than `silence` when the removal is written; the lease is shorter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from elastic.agent import moves
from elastic.agent.board import Board
from elastic.agent.errors import StoreLostError
from elastic.agent.lease import Lease
from elastic.agent.settings import Settings
from elastic.agent.state import State
from elastic.agent.watch import Watch


class Pulse:
    """Beats until it is stopped; what it last saw is in `view`, and what ended it in `lost`."""

    def __init__(
        self, board: Board, node: str, settings: Settings, lease: Lease, may_run: Callable[[State], bool]
    ) -> None:
        self._board = board
        self._node = node
        self._settings = settings
        self._lease = lease
        self._may_run = may_run
        self._watch = Watch(node, 2 * settings.poll)
        self._marked: dict[str, tuple[str, float]] = {}
        self._count = 0
        self._beaten = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dsconfig-pulse", daemon=True)
        self.view: State | None = None
        self.lost: StoreLostError | None = None

    def start(self) -> None:
        """Beat once, so that others see this node before it joins; then go on in the thread."""
        self._beat(time.monotonic())
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; workers that still run end with their lease."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=self._settings.read_timeout)

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._settings.poll):
                self._tick()
        except StoreLostError as error:
            self.lost = error
        except Exception as error:  # the agent must not go on without a pulse
            self.lost = StoreLostError(f"the job's state cannot be used: {type(error).__name__}: {error}")

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._beaten >= self._settings.keep_alive_interval:
            self._beat(now)
        state = self._board.read()
        self.view = state
        self._renew(state)
        self._watch.look(state, self._board.beat_of)
        self._judge(state)

    def _beat(self, now: float) -> None:
        self._count += 1
        self._board.beat(self._count)
        self._beaten = now

    def _renew(self, state: State) -> None:
        """Renew the lease as of the time before the last heartbeat, or revoke it."""
        may_run = self._may_run(state)
        if state.member(self._node) is None or self._node in state.expelled or not may_run:
            self._lease.revoke()
        elif self._node in state.suspects:
            self._board.update(partial(moves.clear_suspicion, node=self._node))
        else:
            self._lease.renew(self._beaten + self._settings.lease)

    def _judge(self, state: State) -> None:
        """Mark, and remove those marked before that have not changed."""
        if state.member(self._node) is None or state.outcome:
            return
        now, silence = time.monotonic(), self._settings.silence
        silent = self._watch.silent(silence)
        late = self._watch.late(self._settings.arrive_timeout)
        due = [node for node, (kind, since) in self._marked.items() if now - since >= self._grace(kind)]
        for node in due:
            kind, _ = self._marked.pop(node)
            if (kind == "silent" and node in silent) or (kind == "late" and node in late):
                self._board.update(partial(_remove_marked, node=node, kind=kind))
        for node, kind, mark in (
            *((node, "silent", moves.suspect) for node in silent),
            *((node, "late", moves.expel) for node in late),
        ):
            if node not in self._marked:
                self._board.update(partial(mark, node=node))
                self._marked[node] = (kind, now)
        seen = {*silent, *late}
        self._marked = {node: mark for node, mark in self._marked.items() if node in seen}

    def _grace(self, kind: str) -> float:
        # A silent node has let its lease run out already; a late one still had it when it was marked.
        return self._settings.poll if kind == "silent" else self._settings.silence


def _remove_marked(state: State, node: str, kind: str) -> State:
    if kind == "silent" and node in state.suspects:
        return moves.remove(state, node, "lost", "lost: no heartbeat")
    if kind == "late" and node in state.expelled:
        return moves.remove(state, node, "lost", "removed: did not come to the next round")
    return state
