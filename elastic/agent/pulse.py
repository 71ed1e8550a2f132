"""`Pulse`: the thread that keeps this node alive in the job, renews the workers' lease and watches others.

Why a node that was removed never trains on: a member is removed in two steps.  It is marked in the state
first; a node counts its lease from its last heartbeat, and only when it has read, after that, a state in
which it is a member without a mark; and the mark is followed by removal only where the heartbeat has still
not changed.  So that heartbeat is older than `silence` when the removal is written; the lease is shorter.
An observer that itself was frozen between looking and writing has old evidence, which does not count: a node
that takes a mark away writes its heartbeat into the state, and one that comes again has another seat.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from elastic.agent import moves
from elastic.agent.board import Board
from elastic.agent.errors import AgentError, StoreLostError
from elastic.agent.evidence import Evidence, Silence
from elastic.agent.settings import Settings
from elastic.agent.state import State
from elastic.agent.watch import Watch, ring
from elastic.worker.lease import Lease, now


class Pulse:
    """Beats until it is stopped; what it last saw is in `view`, and what ended it in `lost`."""

    def __init__(self, board: Board, node: str, settings: Settings, may_run: Callable[[State], bool]) -> None:
        self._board = board
        self._node = node
        self._settings = settings
        self._may_run = may_run
        self._lease: Lease | None = None
        self._watch = Watch(2 * settings.poll, now)
        self._marked: dict[Evidence, float] = {}
        self._count = 0
        self._beaten = now()
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="dsconfig-pulse", daemon=True)
        self.view: State | None = None
        self.lapsed = False
        """Whether the lease has run out while its round went on: then its workers have ended for that."""
        self.lost: AgentError | None = None

    def start(self) -> None:
        """Beat once, so that others see this node before it joins; then go on in the thread."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; workers that still run end with their lease."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=self._settings.read_timeout)

    def grant(self, lease: Lease | None) -> None:
        """Renew this lease from now on."""
        self._lease = lease
        self._wake.set()

    def begin(self) -> None:
        """The workers of a round start; its lease was renewed once."""
        self.lapsed = False

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wake.wait(self._settings.poll)
                self._wake.clear()
                if not self._stopped:
                    self._tick()
        except AgentError as error:
            self.lost = error
        except Exception as error:  # the agent must not go on without a pulse
            self.lost = StoreLostError(f"the job's state cannot be used: {type(error).__name__}: {error}")

    def _tick(self) -> None:
        beats = now() - self._beaten >= self._settings.keep_alive_interval
        if beats:
            self._beat()
        known = self.view
        watched = ring(known, self._node) if known else []
        hint, seen = self._board.look([member.node for member in watched])
        if known is None or beats or hint > known.revision:
            known = self._board.read()
        self.view = known
        self._renew(known)
        self._watch.look(known, watched, seen)
        self._judge(known)

    def _beat(self) -> None:
        self._count += 1
        before = now()
        self._board.beat(self._count)
        self._beaten = before

    def _renew(self, state: State) -> None:
        """Renew the lease as of the time before the last heartbeat, or revoke it."""
        may_run = self._may_run(state)
        lease = self._lease
        if lease is None:
            return
        if state.member(self._node) is None or self._node in state.expelled or not may_run:
            lease.revoke()
        elif self._node in state.suspects:
            self._board.update(partial(moves.clear_suspicion, node=self._node, beat=self._count))
        else:
            self.lapsed = self.lapsed or lease.left() <= 0
            lease.renew(self._beaten + self._settings.lease)

    def _judge(self, state: State) -> None:
        """Mark, and remove those marked before that have not changed."""
        if state.member(self._node) is None or state.outcome:
            return
        silent = self._watch.silent(self._settings.silence)
        late = self._watch.late(self._settings.arrive_timeout)
        found: list[Evidence] = [*silent, *late]
        marked: dict[Evidence, float] = {}
        for one in found:
            since = self._marked.get(one)
            if since is None:
                self._board.update(partial(moves.mark, evidence=one))
            elif now() - since >= self._grace(one):
                self._board.update(partial(moves.remove_marked, evidence=one))
            marked[one] = now() if since is None else since
        self._marked = marked

    def _grace(self, evidence: Evidence) -> float:
        # A silent node has let its lease run out already; a late one still had it when it was marked.
        return self._settings.poll if isinstance(evidence, Silence) else self._settings.silence
