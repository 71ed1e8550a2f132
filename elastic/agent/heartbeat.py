"""`Heartbeat`: a thread that keeps this node in the job, renews the workers' lease and watches other nodes.

A removed node never continues training, for the following reason. An observer removes a member in three steps: it sets
the mark for removal in the state, or finds it there; it alerts the member through a small key; and it reads the
member's heartbeat once more, which must not have changed. A node renews its lease as of its last heartbeat, and only if
it has since read its alert, and a state at least as new as the alert in which it is an unmarked member. So after a
heartbeat that the observer did not see, the node finds the alert and does not renew its lease. A heartbeat that the
observer saw is older than `heartbeat_timeout` when the removal is written, and the lease is shorter than that. An
observer that was frozen between reading and writing has outdated evidence, which is ignored: a node that clears a mark
counts that in the state, and a node that rejoins gets another `join_order`.

Because of the alert, a node need not read the whole state after each of its heartbeats.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.errors import AgentError, HostError, StoreLostError
from elastic.agent.failure_detector import Evidence, FailureDetector, FormationDelay, members_watched_by
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.job_state import JobMember, JobState
from elastic.agent.liveness_port import ExitDetector
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import CROWD, SMALL, PolledKeys, StateStore
from elastic.worker.worker_lease import Lease, lease_clock

_LEAD = 1.5
"""Number of polls before its timeout at which a silent member is marked, so that its removal is not delayed further."""


class Heartbeat:
    """Sends this node's heartbeats from a separate thread until stopped."""

    def __init__(
        self, store: StateStore, node: str, settings: RendezvousSettings, policy: ResizePolicy
    ) -> None:
        self._store = store
        self._node = node
        self._settings = settings
        self._policy = policy
        self._detector = FailureDetector(2 * settings.poll_interval, lease_clock)
        self._exits = ExitDetector()
        self._marked: dict[Evidence, float] = {}
        self._count = 0
        self._sent_at = lease_clock()
        self._read_at = 0.0
        self._alarm = b""
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="dsconfig-heartbeat", daemon=True)
        self.state: JobState | None = None
        """State of the job that was read last, or `None` before the first read."""
        self.lease: Lease | None = None
        """Lease that the thread renews, or `None` while no workers may run."""
        self.lapsed = False
        """Whether the lease expired during its round, which explains why the workers ended."""
        self.lost: AgentError | None = None
        """Error that ended the heartbeat's thread, if any."""

    def start(self) -> None:
        """Send a first heartbeat, so that others see this node before it joins, and start the thread."""
        self._send()
        self._thread.start()

    def stop(self) -> None:
        """Stop sending heartbeats; running workers end when their lease expires."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=self._settings.read_timeout)
        self._exits.close()

    def grant(self, lease: Lease | None) -> None:
        """Start renewing `lease`, and end the previous lease for good."""
        previous, self.lease = self.lease, lease
        self._wake.set()
        if previous is not None:
            previous.end()

    def begin_round(self) -> None:
        """Reset `lapsed` when the workers of a round start, after their lease has been renewed once."""
        self.lapsed = False

    def raise_if_lost(self) -> None:
        """Raise the error that ended the heartbeat thread, if any."""
        if self.lost is not None:
            raise self.lost

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._wake.wait(self._pause)
                self._wake.clear()
                if not self._stopped:
                    self._tick()
        except AgentError as error:
            self.lost = error
        except OSError as error:
            self.lost = HostError(f"this host failed: {error}")
        except Exception as error:  # the agent must not continue without heartbeats
            self.lost = StoreLostError(f"the state of the job is invalid: {type(error).__name__}: {error}")

    @property
    def _pause(self) -> float:
        """Seconds between two polls of the store."""
        is_small = self.state is not None and len(self.state.members) <= SMALL
        return self._settings.poll_interval / (2 if is_small else 1)

    def _tick(self) -> None:
        if lease_clock() - self._sent_at >= self._settings.keep_alive_interval:
            self._send()
        state = self.state
        watched = members_watched_by(state, self._node) if state else []
        look = self._store.poll([member.node for member in watched])
        self.state = state = self._current_state(look, state)
        self._renew_lease(state)
        self._detector.observe(state, watched, look.heartbeats)
        self._remove_lost_members(state, watched)

    def _current_state(self, look: PolledKeys, state: JobState | None) -> JobState:
        """Return the state, reading it again if it has changed, and periodically in case a hint was lost.

        In a large job, nodes read so rarely that all of them together read as often as `CROWD` nodes would. The first
        node that detects a lost hint writes it again for the others.
        """
        age, settings = lease_clock() - self._read_at, self._settings
        size = len(state.members) / CROWD if state else 0.0
        is_overdue = age >= settings.keep_alive_interval * max(1.0, size)
        patience = min(settings.poll_interval * int(size), settings.keep_alive_interval)
        has_hint = state is not None and look.hint > state.revision and age >= patience
        if state is not None and look.alarm == self._alarm and not is_overdue and not has_hint:
            return state
        self._read_at = lease_clock()
        new_state = self._store.read()
        self._alarm = look.alarm
        if is_overdue and state is not None and new_state.revision > look.hint:
            self._store.hint(new_state)
        return new_state

    def _send(self) -> None:
        if self._count == 0:
            self._store.listen()
        self._count += 1
        sent_at = lease_clock()
        self._store.send_heartbeat(self._count)
        self._sent_at = sent_at

    def _renew_lease(self, state: JobState) -> None:
        """Renew the workers' lease as of the last heartbeat, or revoke it."""
        decision = self._policy.decide(state)
        lease = self.lease
        if lease is None:
            return
        lease.ask_for_checkpoint(decision.checkpoint_wanted)
        if state.member(self._node) is None or self._node in state.expelled or decision.over:
            lease.revoke()
        elif self._node in state.suspects:
            self.state = self._store.update(partial(job_state_transitions.clear_suspicion, node=self._node))
        else:
            self.lapsed = self.lapsed or not lease.valid
            lease.renew(self._sent_at + self._settings.lease_duration)

    def _remove_lost_members(self, state: JobState, watched: Sequence[JobMember]) -> None:
        """Mark members that seem lost, and remove those that were marked before and show no sign of life since."""
        if state.member(self._node) is None or state.outcome:
            return
        timeout = self._settings.heartbeat_timeout
        silent = self._detector.silent_members(timeout)
        suspected = self._detector.silent_members(timeout - _LEAD * self._settings.poll_interval)
        late = self._detector.late_members(self._settings.arrive_timeout)
        marked: dict[Evidence, float] = {}
        all_evidence: list[Evidence] = [*self._exits.ended_members(watched), *suspected, *late]
        for evidence in all_evidence:
            since = self._marked.get(evidence)
            if since is None:
                self._store.update(partial(job_state_transitions.mark_member, evidence=evidence))
                self._store.alarm(evidence.node)
            elif lease_clock() - since >= self._grace_period(evidence) and (
                evidence not in suspected or evidence in silent
            ):
                self._store.update(partial(job_state_transitions.remove_marked_member, evidence=evidence))
            marked[evidence] = lease_clock() if since is None else since
        self._marked = marked

    def _grace_period(self, evidence: Evidence) -> float:
        # No process of a node that ended, and no lease of a silent one is left; a late node still had a lease when it
        # was marked.
        is_late = isinstance(evidence, FormationDelay)
        return self._settings.heartbeat_timeout if is_late else self._settings.poll_interval
