"""`Heartbeat`: the thread that keeps this node in the job, renews the workers' lease and watches others.

Why a node that was removed never trains on: a member is removed in three steps, and each observer takes all
of them.  It sees the mark in the state, or sets it; it alarms the member, by a small key of its own; and it
looks at the heartbeat once more, which must still not have changed.  A node counts its lease from its last
heartbeat, and only when it has looked at its alarm after that, and knows a state at least as new as the
alarm, in which it is a member without a mark.  So after a heartbeat that the observer did not see, the node
finds the alarm, and does not renew its lease; one that the observer saw is older than `heartbeat_timeout`
when the removal is written, and the lease is shorter.  An observer that was itself frozen between looking and
writing has old evidence, which does not count: a node that clears a mark counts that in the state, and one
that joins again gets another place in the order.

The alarm is there so that a node need not read the whole state after each of its heartbeats.
"""

from __future__ import annotations

import threading
from functools import partial

from elastic.agent import transitions
from elastic.agent.errors import AgentError, HostError, StoreLostError
from elastic.agent.failure_detector import Evidence, FailureDetector, Silence, watched_by
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.settings import RendezvousSettings
from elastic.agent.state import State
from elastic.agent.state_store import CROWD, Look, StateStore
from elastic.worker.lease import Lease, now


class Heartbeat:
    """Beats until it is stopped, in a thread of its own."""

    def __init__(
        self, store: StateStore, node: str, settings: RendezvousSettings, policy: ResizePolicy
    ) -> None:
        self._store = store
        self._node = node
        self._settings = settings
        self._policy = policy
        self._detector = FailureDetector(2 * settings.poll_interval, now)
        self._marked: dict[Evidence, float] = {}
        self._count = 0
        self._sent_at = now()
        self._read_at = 0.0
        self._alarm = b""
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="dsconfig-heartbeat", daemon=True)
        self.state: State | None = None
        """What was last read; `None` at first."""
        self.lease: Lease | None = None
        """What is renewed; `None` while no workers may run."""
        self.lapsed = False
        """Whether the lease has run out while its round went on: then that is why its workers ended."""
        self.lost: AgentError | None = None
        """What ended the thread."""

    def start(self) -> None:
        """Send a first heartbeat, so that others see this node before it joins; then go on in the thread."""
        self._send()
        self._thread.start()

    def stop(self) -> None:
        """Send no more; workers that still run end with their lease."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=self._settings.read_timeout)

    def grant(self, lease: Lease | None) -> None:
        """Renew this lease from now on, and never again the one before it."""
        before, self.lease = self.lease, lease
        self._wake.set()
        if before is not None:
            before.end()

    def begin_round(self) -> None:
        """The workers of a round start; its lease was renewed once."""
        self.lapsed = False

    def raise_if_lost(self) -> None:
        """Raise what ended the thread."""
        if self.lost is not None:
            raise self.lost

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wake.wait(self._settings.poll_interval)
                self._wake.clear()
                if not self._stopped:
                    self._tick()
        except AgentError as error:
            self.lost = error
        except OSError as error:
            self.lost = HostError(f"this host cannot go on: {error}")
        except Exception as error:  # the agent must not go on without a heartbeat
            self.lost = StoreLostError(f"the job's state cannot be used: {type(error).__name__}: {error}")

    def _tick(self) -> None:
        if now() - self._sent_at >= self._settings.keep_alive_interval:
            self._send()
        state = self.state
        watched = watched_by(state, self._node) if state else []
        look = self._store.poll([member.node for member in watched])
        self.state = state = self._look_closer(look, state)
        self._renew_lease(state)
        self._detector.observe(state, watched, look.heartbeats)
        self._remove_lost_members(state)

    def _look_closer(self, look: Look, state: State | None) -> State:
        """The state, read anew where it has changed, and from time to time: a hint may have been lost.

        In a large job each node does that so rarely that all together do it as often as `CROWD` nodes; the
        first node that finds a lost hint writes it again for all the others.
        """
        waited, settings = now() - self._read_at, self._settings
        size = len(state.members) / CROWD if state else 0.0
        overdue = waited >= settings.keep_alive_interval * max(1.0, size)
        patience = min(settings.poll_interval * int(size), settings.keep_alive_interval)
        hinted = state is not None and look.hint > state.revision and waited >= patience
        if state is not None and look.alarm == self._alarm and not overdue and not hinted:
            return state
        self._read_at = now()
        read = self._store.read()
        self._alarm = look.alarm
        if overdue and state is not None and read.revision > look.hint:
            self._store.hint(read)
        return read

    def _send(self) -> None:
        if self._count == 0:
            self._store.listen()
        self._count += 1
        before = now()
        self._store.send_heartbeat(self._count)
        self._sent_at = before

    def _renew_lease(self, state: State) -> None:
        """Renew the lease as of the time before the last heartbeat, or revoke it."""
        decision = self._policy.decide(state)
        lease = self.lease
        if lease is None:
            return
        lease.ask_for_checkpoint(decision.checkpoint_wanted)
        if state.member(self._node) is None or self._node in state.expelled or decision.over:
            lease.revoke()
        elif self._node in state.suspects:
            self.state = self._store.update(partial(transitions.clear_suspicion, node=self._node))
        else:
            self.lapsed = self.lapsed or not lease.valid
            lease.renew(self._sent_at + self._settings.lease_duration)

    def _remove_lost_members(self, state: State) -> None:
        """Mark those that seem lost, and remove the ones that were marked before and have not changed."""
        if state.member(self._node) is None or state.outcome:
            return
        silent = self._detector.silent(self._settings.heartbeat_timeout)
        late = self._detector.late(self._settings.arrive_timeout)
        marked: dict[Evidence, float] = {}
        found: list[Evidence] = [*silent, *late]
        for evidence in found:
            since = self._marked.get(evidence)
            if since is None:
                self._store.update(partial(transitions.mark, evidence=evidence))
                self._store.alarm(evidence.node)
            elif now() - since >= self._grace(evidence):
                self._store.update(partial(transitions.remove_marked, evidence=evidence))
            marked[evidence] = now() if since is None else since
        self._marked = marked

    def _grace(self, evidence: Evidence) -> float:
        # A silent node has let its lease run out already; a late one still had it when it was marked.
        silent = isinstance(evidence, Silence)
        return self._settings.poll_interval if silent else self._settings.heartbeat_timeout
