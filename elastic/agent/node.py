"""`Node`: this machine's part in the job: join a round, say when it is over, leave.

Knows nothing of torch: `elastic.agent.handler` gives it to torch's agent.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from elastic.agent import moves
from elastic.agent.admission import Job, difference
from elastic.agent.board import Board, Store
from elastic.agent.counter import Counter
from elastic.agent.desk import Desk
from elastic.agent.drain import Drain
from elastic.agent.errors import (
    AgentError,
    RefusedError,
    TooFewNodesError,
    TrainingFailedError,
)
from elastic.agent.journal import Journal
from elastic.agent.outlook import Outlook
from elastic.agent.place import Place, place_of, worker_variables
from elastic.agent.pulse import Pulse
from elastic.agent.quiet import Quiet
from elastic.agent.settings import Settings
from elastic.agent.state import Cause, Outcome, State
from elastic.worker.lease import Lease, lease_path

EVENTS = "events.jsonl"
_LATE = " before this node came: there is nothing to do here, and another job needs another `--rdzv-id`"


class JobSucceeded(Exception):  # noqa: N818 - not an error
    """The job has ended well without needing this node (any more)."""


class Drained(Exception):  # noqa: N818 - not an error
    """This node was asked to leave, and may go now."""


class Node:
    """A member of the job, from `open` to `leave`."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        run_id: str,
        host: str,
        folder: str,
        event_log: str | None = None,
        drain: Drain | None = None,
    ) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self.run_id = run_id
        self.folder = folder
        self.job = job
        self._settings = settings
        self._host = host
        self.journal = Journal(event_log or os.path.join(folder, EVENTS), self.name)
        self._lease: Lease | None = None
        self._outlook = Outlook(job, self.name, settings)
        self.drain = drain or Drain()
        self._place: Place | None = None
        self._cause: Cause | None = None
        self._was_member = False
        self._said_leaving = False
        self._open = False
        self._boards: list[Board] = []

    def open(self, store: Store, connect: Callable[[], Store]) -> None:
        """Take part; `connect` makes another connection: one call to the store may hold up another."""
        self._board = self._board_on(store)
        self._board.open()
        self._pulse = Pulse(self._board_on(connect()), self.name, self._settings, self._may_run)
        board = self._board_on(connect())
        counter = Counter(board, self.name, self.job.processes, self._pulse, self.journal)
        self._pulse.start()
        self._desk = Desk(os.path.join(self.folder, "agent.sock"), counter.answer)
        self._open = True

    def _board_on(self, store: Store) -> Board:
        board = Board(store, self.run_id, self.name, 1.5 * self._settings.read_timeout)
        self._boards.append(board)
        return board

    # -- what torch's agent asks ---------------------------------------------------------------------------

    def join(self) -> tuple[Place, State]:
        """Wait until a group with this node in it runs.

        Raises `JobSucceeded`, `Drained`, and an `AgentError` where that cannot happen any more.
        """
        cause = self._end_round()
        port, release = _reserve_port()
        self.journal.write("arrived", cause=cause)
        deadline = time.monotonic() + self._settings.join_timeout
        entering, quiet = True, Quiet(self._settings.last_call_timeout)
        with contextlib.closing(release):
            while True:
                self._raise_if_drained()
                state = self._board.update(partial(self._arrive, port=port, entering=entering, cause=cause))
                self._raise_if_ended(state)
                entering = False
                if self.name in state.group and state.phase == "proposed":
                    state = self._board.update(partial(moves.acknowledge, node=self.name))
                if self.name in state.group and state.phase == "running" and self._has_lease(state):
                    return self._take_place(state)
                if state.phase == "forming":
                    self._try_to_propose(state, quiet)
                    self._check_deadline(state, deadline)
                else:
                    deadline = time.monotonic() + self._settings.join_timeout
                self._pause(state)

    def variables(self, place: Place, state: State) -> Mapping[str, str]:
        """What the workers of this place get to know."""
        return worker_variables(place, state, self.job, self.run_id, self.folder)

    def waiting(self) -> int:
        """How many nodes this one's workers should be restarted for; 1 where their round is over.

        Asks nobody: what the pulse saw last is enough, and a store that hangs must not hold up torch's agent.
        """
        self._raise_if_lost()
        state, view = self._pulse.view, self._outlook.view
        if state is not None:
            self._raise_if_failed(state)
        if self._place is None or view.round != self._place.round:
            return 0  # the pulse has not looked since the round began
        if self.drain.asked:
            self._ask_to_leave()
        if (self.drain.asked and view.over) or view.may_leave:
            raise Drained
        if not (view.over or view.joining):
            return 0
        self._cause = None if view.over else "change"
        broken = state.broken if state and view.over else None
        self.journal.write("restart", round=view.round, broken=broken, joining=view.joining or None)
        return view.joining or 1

    def ended(self) -> bool:
        """Whether the job has ended."""
        return self._board.read().outcome is not None

    def succeed(self) -> None:
        """All workers of this node have ended well: wait for the others', and end the job with them."""
        if self._place is None:
            return
        round_ = self._place.round
        state = self._board.update(partial(moves.finish, node=self.name, round_=round_))
        while not (state.outcome or moves.is_over(state, round_) or self.drain.asked):
            if moves.all_finished(state, round_):
                state = self._board.update(partial(moves.succeed, node=self.name, round_=round_))
            else:
                self._pause(state)
                state = self._pulse.view or state

    def fail(self, text: str) -> None:
        """This node's agent gives up: the job has failed, where this node trained the current round."""
        if self._place is not None:
            self._board.update(partial(moves.fail, node=self.name, round_=self._place.round, text=text))

    def leave(self, text: str = "left", *, wait_for_others: float = 0.0) -> None:
        """Take part no more; the others need not wait for heartbeats.  Never raises."""
        if not self._open:
            return
        self._open = False
        self._grant(None)
        self._pulse.stop()
        if self._pulse.lost is None:
            with contextlib.suppress(AgentError):
                self._board.update(partial(moves.remove, node=self.name, cause="change", text=text))
                until = time.monotonic() + wait_for_others
                while self._board.read().members and time.monotonic() < until:
                    time.sleep(self._settings.poll)
        self._desk.close()
        for board in self._boards:
            board.close()
        self.journal.write("left", text=text)
        self.journal.close()
        _clear(self.folder)

    # -- joining -------------------------------------------------------------------------------------------

    def _end_round(self) -> Cause | None:
        """This node has no workers any more; why, where it is the one that knows."""
        cause, self._cause, self._place = self._cause, None, None
        if cause == "failure" and self._lease is not None:
            if self._lease.revoked:
                cause = None  # the round was over before its workers ended
            elif self._pulse.lapsed or self._lease.left() <= 0:
                cause = "change"  # this host or the store stood still: no worker is to blame
        self._grant(None)
        self._outlook.begin(0)
        return cause

    def _grant(self, lease: Lease | None) -> None:
        """From now on this lease is renewed, and none before it ever again."""
        before, self._lease = self._lease, lease
        self._pulse.grant(lease)
        if before is not None:
            before.end()

    def _pause(self, state: State) -> None:
        """A moment; where this node is on standby, until the pulse has seen a change."""
        standby = state.phase == "running" and self.name in state.standby
        while True:
            time.sleep(self._settings.poll / 2)
            self._raise_if_lost()
            seen = self._pulse.view
            if not standby or self.drain.asked or (seen is not None and seen.revision > state.revision):
                return

    def _arrive(self, state: State, port: int, entering: bool, cause: Cause | None) -> State:
        """Arrive on entering, and again where this node was removed meanwhile or its new group broke."""
        known = state.member(self.name)
        if known is None:
            state = self._agree(state)
        elif not entering and (known.arrived or state.phase != "forming"):
            return state
        return moves.arrive(state, self.name, self._host, port, cause if entering else None)

    def _agree(self, state: State) -> State:
        """The first node's contract is the job's; another one refuses everybody, or later only its node."""
        ours = self.job.contract()
        if not state.contract or (not state.members and state.round == 0):
            return replace(state, contract=ours)
        them = state.members[0].node if state.members else "the others"
        text = difference(state.contract, ours, them, self.name)
        if text is None or state.outcome:
            return state
        if state.round == 0:
            return moves.close(state, self.name, Outcome("refused", text))
        raise RefusedError(text)

    def _try_to_propose(self, state: State, quiet: Quiet) -> None:
        arrived = [member.node for member in state.members if member.arrived]
        settled = quiet.settled(tuple(arrived)) or not self._awaits_more(state, len(arrived))
        if len(arrived) < len(state.members) or not settled or self.name not in arrived:
            return
        try:
            self._board.update(partial(self._propose, arrived=arrived))
        except RefusedError as error:
            refused = Outcome("refused", str(error))
            self._board.update(partial(moves.close, node=self.name, outcome=refused))

    def _propose(self, state: State, arrived: list[str]) -> State:
        if state.phase != "forming" or [m.node for m in state.members] != arrived or state.outcome:
            return state
        size = self.job.size(len(arrived))
        return state if size is None else moves.propose(state, size, self.job.max_restarts)

    def _awaits_more(self, state: State, arrived: int) -> bool:
        """Nobody waits for more nodes than may train, nor after a loss for nodes that nobody knows."""
        return arrived < self.job.max_nodes and not any(state.member(node) for node in state.group)

    def _has_lease(self, state: State) -> bool:
        """Whether workers may start; the first heartbeat as a member may be still to come."""
        lease = Lease(lease_path(self.folder, state.round), create=True)
        self._grant(lease)
        while lease.left() <= 0:
            self._raise_if_lost()
            self._raise_if_drained()
            now = self._board.read()
            if moves.is_over(now, state.round) or now.member(self.name) is None:
                return False
            time.sleep(self._settings.poll / 4)
        self._pulse.begin()
        return True

    def _take_place(self, state: State) -> tuple[Place, State]:
        self._place = place_of(state, self.name, self.job)
        # What torch's agent restarts workers for without having asked us is a failure of theirs.
        self._cause = "failure"
        self._outlook.begin(state.round)
        self.journal.write(
            "round",
            round=state.round,
            rank=self._place.rank,
            group=list(state.group),
            standby=list(state.standby),
            restarts=state.restarts,
        )
        return self._place, state

    def _check_deadline(self, state: State, deadline: float) -> None:
        if time.monotonic() < deadline:
            return
        have, need = len(state.members), ", ".join(map(str, self.job.admissible()))
        late = [member.node for member in state.members if not member.arrived]
        which = f"; not arrived: {', '.join(late)}" if late else ""
        waited = f"no group formed in {self._settings.join_timeout:g} s"
        raise TooFewNodesError(f"{waited}: have {have} nodes, need one of [{need}]{which}")

    # -- watching ------------------------------------------------------------------------------------------

    def _may_run(self, state: State) -> bool:
        """Whether workers of this node may run in this state; says to them whether a checkpoint is wanted."""
        self._outlook.look(state)
        view = self._outlook.view
        if (lease := self._lease) is not None:
            lease.ask_for_checkpoint(view.save)
        return not view.over

    def _ask_to_leave(self) -> None:
        if not self._said_leaving:
            self._said_leaving = True
            self.journal.write("asked-to-leave")
            self._board.update(partial(moves.ask_to_leave, node=self.name))

    def _raise_if_drained(self) -> None:
        view = self._pulse.view
        if self.drain.asked or (view is not None and self.name in view.leaving):
            raise Drained

    def _raise_if_lost(self) -> None:
        if self._pulse.lost is not None:
            raise self._pulse.lost

    def _raise_if_ended(self, state: State) -> None:
        self._raise_if_lost()
        self._raise_if_failed(state)
        if state.outcome is not None:
            raise JobSucceeded("" if self._was_member else f"job `{self.run_id}` has succeeded{_LATE}")
        self._was_member = True

    def _raise_if_failed(self, state: State) -> None:
        if state.outcome is not None and state.outcome.kind != "succeeded":
            if state.outcome.kind == "refused":
                raise RefusedError(state.outcome.text)  # the same words on every node, whenever it came
            raise TrainingFailedError(state.outcome.text + ("" if self._was_member else _LATE))


def _clear(folder: str) -> None:
    """Remove what only this run's workers needed; an event log that nobody asked for elsewhere stays."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name != EVENTS:
                os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def _reserve_port() -> tuple[int, socket.socket]:
    """A free port, held until the socket is closed; for the workers' store should this node get rank 0."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.bind(("", 0))
    port: int = held.getsockname()[1]
    return port, held
