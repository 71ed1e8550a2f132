"""`Heartbeat`: a thread that keeps this node in the job, renews the workers' lease and watches other nodes.

A removed node never continues training, for the following reason. An observer removes a member in three steps: it sets
the mark for removal in the state, or finds it there; it alerts the member through a small key; and it reads the
member's heartbeat once more, which must not have changed. A node renews its lease as of its last heartbeat, and only if
it has since read its alert, and a state at least as new as the alert in which it is an unmarked member. So after a
heartbeat that the observer did not see, the node finds the alert and does not renew its lease. A heartbeat that the
observer saw is older than `heartbeat_timeout` when the removal is written, and the lease is shorter than that. An
observer that was frozen between reading and writing has outdated evidence, which is ignored: a node that clears a mark
counts that in the state, and a node that rejoins gets another `join_order`.

Because of the alert, a node need not read the whole state after each of its heartbeats. The state that it knows may be
that of its page, which is a true extract of one revision. Only an alert requires the whole, current state.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.errors import AgentError, HostError, StoreLostError
from elastic.agent.failure_detector import Evidence, FailureDetector, FormationDelay
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.job_state import JobMember, JobState
from elastic.agent.liveness_port import ExitDetector
from elastic.agent.node_view import NODES_PER_PAGE, NodeView, view_of
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import NO_ALARM, SMALL, PolledKeys, StateStore, WriterLottery
from elastic.worker.worker_lease import Lease, lease_clock

_LEAD = 1.5
"""Number of polls before its timeout at which a silent member is marked, so that its removal is not delayed further."""
_READERS = 16
"""Number of nodes of a large job that read the whole state in each `keep_alive_interval`, to restore lost pages."""


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
        self._alarm = NO_ALARM
        self._healing: WriterLottery | None = None
        """Lottery for the node that restores the pages, while this node's page is older than the hint."""
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="dsconfig-heartbeat", daemon=True)
        self.view: NodeView | None = None
        """View of the last state that this node knows, or `None` before the first read."""
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

    def latest_view(self) -> NodeView | None:
        """Return the last view of this node, if any, or raise the error that ended the heartbeat."""
        self.raise_if_lost()
        return self.view

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
        is_small = self.view is not None and self.view.present <= SMALL
        return self._settings.poll_interval / (2 if is_small else 1)

    def _tick(self) -> None:
        if lease_clock() - self._sent_at >= self._settings.keep_alive_interval:
            self._send()
        watched = [one.member for one in self.view.watched] if self.view else []
        polled = self._store.poll([member.node for member in watched])
        self.view = view = self._current_view(polled, self.view)
        self._renew_lease(view)
        self._detector.observe(view, watched, polled.heartbeats)
        self._remove_lost_members(view, watched)

    def _current_view(self, polled: PolledKeys, view: NodeView | None) -> NodeView:
        """Return the view, reading it again if the state has changed, and sometimes in case a hint was lost."""
        if polled.alarm != self._alarm:
            return self._read_whole_state(polled)
        if self._store.pages:
            return self._view_from_page(polled, view)
        is_overdue = lease_clock() - self._read_at >= self._settings.keep_alive_interval
        if view is None or is_overdue or polled.hint > view.revision:
            return self._read_whole_state(polled, republish=is_overdue)
        return view

    def _view_from_page(self, polled: PolledKeys, view: NodeView | None) -> NodeView:
        """Return the view of a node of a large job.

        A few nodes at random read the whole state, and restore a hint or pages that were lost with their writer.
        """
        if view is None and polled.hint == 0:
            return view_of(JobState(0), self._node)  # no change of the job has been published yet
        if view is not None and self._is_chosen_to_restore(view):
            return self._read_whole_state(polled, republish=True)
        if view is not None and polled.hint <= view.revision:
            self._healing = None
            return view
        page = self._store.read_page()
        if page is None:
            return self._read_whole_state(polled)  # a job with other settings, which will reject this node
        if page.revision >= polled.hint:
            self._healing = None
        else:
            self._healing = self._healing or WriterLottery()
            if self._healing.draw(page.present):
                return self._read_whole_state(polled, republish=True)
        return page if view is None or page.revision > view.revision else view

    def _is_chosen_to_restore(self, view: NodeView) -> bool:
        present = view.present or NODES_PER_PAGE * self._store.pages
        chance = self._pause / self._settings.keep_alive_interval
        return random.random() * max(1.0, present / _READERS) < chance

    def _read_whole_state(self, polled: PolledKeys, *, republish: bool = False) -> NodeView:
        """Read the state; with `republish`, publish it again for the other nodes if they may not have noticed it."""
        self._read_at = lease_clock()
        state = self._store.read()
        self._alarm = polled.alarm
        if republish and (state.revision > polled.hint or self._healing is not None):
            self._store.publish(state)
        self._healing = None
        return view_of(state, self._node)

    def _send(self) -> None:
        if self._count == 0:
            self._store.listen()
        self._count += 1
        sent_at = lease_clock()
        self._store.send_heartbeat(self._count)
        self._sent_at = sent_at

    def _renew_lease(self, view: NodeView) -> None:
        """Renew the workers' lease as of the last heartbeat, or revoke it."""
        decision = self._policy.decide(view)
        lease = self.lease
        if lease is None:
            return
        lease.ask_for_checkpoint(decision.checkpoint_wanted)
        if view.own_row is None or view.own_row.expelled or decision.over:
            lease.revoke()
        elif view.own_row.suspected:
            state = self._store.update(partial(job_state_transitions.clear_suspicion, node=self._node))
            self.view = view_of(state, self._node)
        else:
            self.lapsed = self.lapsed or not lease.valid
            lease.renew(self._sent_at + self._settings.lease_duration)

    def _remove_lost_members(self, view: NodeView, watched: Sequence[JobMember]) -> None:
        """Mark members that seem lost, and remove those that were marked before and show no sign of life since."""
        if view.own_row is None or view.outcome:
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
