"""`StateStore`: the job's state, changed by compare-and-set; `Mailbox`: pending requests of many nodes.

`Store` has the methods that the job's store must have; `BoundedCaller` calls the store with a timeout.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple, Protocol, TypeVar

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.job_state import JobState, decode_state
from elastic.agent.join_requests import Request, decode_requests, encode_requests
from elastic.agent.node_view import (
    NODES_PER_PAGE,
    NodeView,
    decode_page,
    encode_pages,
    page_key_of_node,
    view_of,
)


class Store(Protocol):
    """The methods of `torch.distributed.Store` that a job's store must provide."""

    def set(self, key: str, value: str, /) -> None:
        """Write `value` to a key."""

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, blocking until the key exists."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of several keys, blocking until all of them exist."""

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        """Write several keys, not necessarily at one point in time."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or if the key is missing and `expected` is empty."""

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys exist."""


# `TCPStore` has a timeout only for waiting on a key. If a connection is cut without being closed, its calls hang until
# the kernel gives up after 15 minutes (`c10d/TCPStore.cpp`, `TCPStore::doWait`: the answers to `CANCEL_WAIT` and
# `compareSet` are read without a timeout).


_FAREWELL = 2.0
"""Seconds that a running call has to end at close; a longer call counts as hanging."""


def first_line_of_error(error: Exception) -> str:
    """Return the first line of an error from torch, without the stacks that follow it."""
    return str(error).partition("\n")[0] or type(error).__name__


class BoundedCaller:
    """Calls functions with a timeout in a separate thread, which is abandoned if a call hangs."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = self._hangs = False
        self._thread = threading.Thread(target=self._serve_calls, name="dsconfig-store-calls", daemon=True)
        self._thread.start()

    def call(self, operation: Callable[[], _T]) -> _T:
        """Return the result of `operation`.

        Raises:
            StoreLostError: the operation fails or times out.
        """
        if self._closed:
            raise StoreLostError("the connection was closed, or an earlier call hangs")
        answer: Future[_T] = Future()
        self._calls.put(lambda: _run_operation(operation, answer))
        try:
            return answer.result(self._limit)
        except NoAnswerError:
            self._closed = self._hangs = True
            raise StoreLostError(f"no reply in {self._limit:g} s") from None
        except (RuntimeError, OSError) as error:  # torch's DistError is a RuntimeError
            raise StoreLostError(first_line_of_error(error)) from error

    def close(self) -> None:
        """Accept no further calls, and wait briefly for the current one.

        Otherwise, a thread that returns from C++ while the interpreter shuts down aborts the process: "terminate called
        without an active exception".
        """
        self._closed = True
        self._calls.put(None)
        self._thread.join(0.0 if self._hangs else _FAREWELL)

    def _serve_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _run_operation(operation: Callable[[], _T], answer: Future[_T]) -> None:
    try:
        answer.set_result(operation())
    except BaseException as error:  # raised in the caller's thread
        answer.set_exception(error)


# Works with any store that has the methods of `Store`: torch's, or a dict in a test. Besides the state, the store has
# the nodes' heartbeats and a *hint*: the revision of the state, or an earlier one. The hint is small, so a job does not
# read its state many times per second. A large job also has pages (`elastic.agent.node_view`).
#
# Pages and hint are written after the state, and not together with it. So their writer may end in between, and a slow
# one may replace them by older ones. Neither does harm: a page is true for its revision, a node ignores a page that is
# older than its view, and a few nodes at any time read the whole state and write pages and hint again.

_T = TypeVar("_T")

_DOUBLINGS = 5
"""Number of times that the longest pause between two attempts to change the state doubles: from 10 ms to 0.32 s."""


_MAX_ATTEMPTS_ALONE = 3
"""Number of failed attempts to change the state after which a node leaves its request to other nodes."""
_PATIENCE = 0.3
"""Longest pause in seconds before a node checks whether other nodes have granted its request."""

SMALL = 32
"""Maximum number of members of a small job, whose store easily serves twice as many polls."""
NO_ALARM = b"none"
"""Value of a node's alarm until the node is alarmed for the first time."""


class WriterLottery:
    """Decides at random whether this node makes a change that many nodes of a large job want to make.

    The chance doubles with each draw. So however many nodes draw, a few of them soon write, no node has to be elected,
    and none can fail in office.
    """

    def __init__(self) -> None:
        self._writers = float(_WRITERS)

    def draw(self, rivals: int) -> bool:
        """Return whether this node is to write now, when about `rivals` nodes draw."""
        wins = random.random() * max(rivals, 1) < self._writers
        self._writers *= 2
        return wins


_WRITERS = 2
"""Number of nodes that are expected to write at the first draw, if all nodes draw at the same time."""


class PolledKeys(NamedTuple):
    """Values of the small keys that a node polls several times per second."""

    hint: int
    """Revision of the job's state, or an earlier one."""
    alarm: bytes
    """Value that changes when this node has been marked."""
    heartbeats: Mapping[str, int]
    """Count of the last heartbeat of each watched node."""


class StateStore:
    """Access to the job's state over one connection; must not be shared between threads."""

    def __init__(
        self, store: Store, run_id: str, writer: str, limit: float = 15.0, *, pages: int = 0
    ) -> None:
        """Open the state of the job `run_id` for the node `writer`.

        `pages` is the number of pages from which this node reads its view (`page_count`); 0 means none.
        """
        self._caller = BoundedCaller(limit)
        self._store = store
        self._run_id = run_id
        self._writer = writer
        self._alarms = 0
        self._last: tuple[str, JobState] | None = None
        """State that was last read or written, together with its encoded text."""
        self._pages = pages
        self._page_key = self._key(page_key_of_node(writer, pages))
        self._has_page = False
        self._mailbox = Mailbox(store, self._key(""), max(_SLOTS_PER_PAGE * pages, _FEWEST_SLOTS))

    @property
    def pages(self) -> int:
        """Number of pages from one of which this node reads its view; 0 in a small job."""
        return self._pages

    def create(self) -> None:
        """Write the initial state of the job, unless the store already has a state."""
        if self.exists():
            return  # a failed compare-and-set would return the whole state
        first = JobState(time.time_ns() // 1000, writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key("hint"), "", "0"))
        text = first.encode()
        if self._call(lambda: self._store.compare_set(self._key("state"), "", text)).decode() == text:
            self._call(self._mailbox.create)

    def exists(self) -> bool:
        """Return whether the store contains the job."""
        return self._call(lambda: self._store.check([self._key("state")]))

    def read(self) -> JobState:
        """Read the current state of the job."""
        return self._read()[1]

    def read_page(self) -> NodeView | None:
        """Read the view of this node, of a recent revision, from its page; return `None` if there is no page."""
        if not self._has_page:
            self._has_page = self._call(lambda: self._store.check([self._page_key]))
            if not self._has_page:
                return None
        raw = self._call(lambda: self._store.get(self._page_key))
        return self._decode(partial(decode_page, raw, self._writer))

    def update(self, transition: Callable[[JobState], JobState]) -> JobState:
        """Apply a transition, retrying if another node wrote first, and return the new state.

        An exception raised by the transition ends the update.
        """
        for attempt in itertools.count():
            raw, current = self._read()
            changed = transition(current)
            if changed is current or changed == current:
                return current
            if new_state := self._write(raw, current, changed):
                return new_state
            # Each failure means that more nodes are writing than expected.
            time.sleep(random.uniform(0.0, 0.01 * 2 ** min(attempt, _DOUBLINGS)))
        raise AssertionError

    def ask(
        self,
        make_request: Callable[[NodeView], Request | None],
        latest_view: Callable[[], NodeView | None],
        follow_up: Callable[[JobState], JobState] = lambda state: state,
        *,
        use_last: bool = False,
    ) -> NodeView:
        """Post a request that depends on the node's view, wait until it is granted, and return the new view.

        If many nodes make requests at once, the node that changes the state also grants the requests of the others.
        `latest_view` returns the view that this node's heartbeat has read last, if any, and `follow_up` is a transition
        that a node of a large job applies after its grants. With `use_last`, the first attempt uses the last state that
        this connection has read.
        """
        if self._pages:
            return self._ask_in_crowd(make_request, latest_view, follow_up)
        raw, current = self._last if use_last and self._last else self._read()
        request = make_request(view_of(current, self._writer))
        posted = False
        for attempt in itertools.count():
            changed = current if request is None else request.grant(current)
            if request is None or changed is current:
                return view_of(current, self._writer)  # granted, or obsolete
            crowded = attempt >= _MAX_ATTEMPTS_ALONE
            if crowded and not posted:
                posted = True
                self._call(partial(self._mailbox.post, request, view_of(current, self._writer)))
            else:
                if crowded:
                    changed = self._call(partial(self._mailbox.grant_all, changed))
                if new_state := self._write(raw, current, changed):
                    return view_of(new_state, self._writer)
            time.sleep(random.uniform(0.0, _PATIENCE if crowded else 0.01 * 2**attempt))
            raw, current = self._read()
        raise AssertionError

    def _ask_in_crowd(
        self,
        make_request: Callable[[NodeView], Request | None],
        latest_view: Callable[[], NodeView | None],
        follow_up: Callable[[JobState], JobState],
    ) -> NodeView:
        """Leave a request to other nodes, and grant those of all nodes if this node draws the lot to write."""
        view = self._newest_view(latest_view())
        request = make_request(view)
        lottery, posted = WriterLottery(), 0
        while request is not None and request.is_pending(view):
            posted = posted or self._call(partial(self._mailbox.post, request, view))
            rivals = request.rivals(view)
            if rivals is None:
                missing = NODES_PER_PAGE * self._pages - view.present
                rivals = min(posted or missing, missing)
            if lottery.draw(rivals):
                self._grant_all(request, follow_up)
                view = self._newest_view(view)
            if request.is_pending(view):
                time.sleep(random.uniform(0.0, _PATIENCE))
                view = self._newest_view(latest_view())
        return view

    def _grant_all(self, request: Request, follow_up: Callable[[JobState], JobState]) -> None:
        """Try once to grant the requests of this node and of all others."""
        raw, current = self._read()
        changed = request.grant(current)
        if changed is not current:
            changed = self._call(partial(self._mailbox.grant_all, changed))
            self._write(raw, current, follow_up(changed))

    def _newest_view(self, view: NodeView | None) -> NodeView:
        """Return `view`, or the view of the state that this connection has read or written if that is newer."""
        state = self._last[1] if self._last else None
        if view is None and state is None:
            view = self.read_page()  # without a page, no change of the job has been published yet
        if view is not None and (state is None or view.revision >= state.revision):
            return view
        return view_of(state or JobState(0), self._writer)

    def send_heartbeat(self, count: int) -> None:
        """Send heartbeat number `count` of this node."""
        self._call(lambda: self._store.set(self._key(f"heartbeat/{self._writer}"), str(count)))

    def poll(self, nodes: Sequence[str]) -> PolledKeys:
        """Read all polled keys in one call; this node and the watched nodes must already have sent a heartbeat."""
        names = ["hint", f"alarm/{self._writer}", *(f"heartbeat/{node}" for node in nodes)]
        keys = [self._key(name) for name in names]
        hint, alarm, *heartbeats = self._call(lambda: self._store.multi_get(keys))
        return PolledKeys(
            int(hint), alarm, {node: int(count) for node, count in zip(nodes, heartbeats, strict=True)}
        )

    def listen(self) -> None:
        """Create the key through which other nodes can alert this node."""
        self._call(lambda: self._store.compare_set(self._key(f"alarm/{self._writer}"), "", "none"))

    def alarm(self, node: str) -> None:
        """Alert a node, so that it reads the state before it renews its lease."""
        self._alarms += 1
        text = f"{self._writer}/{self._alarms}"  # unique
        self._call(lambda: self._store.set(self._key(f"alarm/{node}"), text))

    def publish(self, state: JobState) -> None:
        """Write the pages of a large job, and then the hint, so that all nodes notice the change."""
        if pages := encode_pages(state):
            keys = [self._key(key) for key in pages]
            self._call(lambda: self._store.multi_set(keys, [*pages.values()]))
        self._call(lambda: self._store.set(self._key("hint"), str(state.revision)))

    def await_hint(self, state: NodeView, seconds: float, polls: int) -> None:
        """Wait up to `seconds` for a hint newer than `state`, polling `polls` times."""
        for _ in range(polls):
            time.sleep(seconds / polls)
            if int(self._call(lambda: self._store.get(self._key("hint")))) > state.revision:
                return

    def close(self) -> None:
        """End the thread of this connection; later calls raise an error."""
        self._caller.close()

    def _key(self, name: str) -> str:
        return f"dsconfig/{self._run_id}/{name}"

    def _read(self) -> tuple[str, JobState]:
        raw = self._call(lambda: self._store.get(self._key("state")))
        self._last = raw.decode(), self._decode(partial(decode_state, raw))
        return self._last

    def _write(self, expected: str, current: JobState, changed: JobState) -> JobState | None:
        """Write a changed state and return it with its revision, or return `None` if another node wrote first."""
        desired = replace(changed, revision=current.revision + 1, writer=self._writer)
        text = desired.encode()
        # The store returns the current value; revision and writer make each text unique.
        actual = self._call(lambda: self._store.compare_set(self._key("state"), expected, text))
        if actual.decode() != text:
            return None
        self._last = text, desired
        self.publish(desired)
        return desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return self._caller.call(operation)
        except StoreLostError as error:
            raise StoreLostError(f"the store does not answer: {error}") from None

    def _decode(self, decode: Callable[[], _T]) -> _T:
        try:
            return decode()
        except ValueError as error:
            reason = f"the job `{self._run_id}` in the store is not of this release: {error}"
            raise SettingsError(f"{reason}; run the same release of dsconfig on every node") from None


# `Mailbox`: requests of nodes while many want to change the state at once.
#
# The node that changes the state next grants all of them. So a group of thousands forms in dozens of changes; if each
# node made its own change, it would wait for those of all others. The mailbox may lose requests: each node also grants
# its own.

_FEWEST_SLOTS = 64
"""Minimum number of keys over which requests are spread."""
_SLOTS_PER_PAGE = 2
"""Number of these keys for each page of a large job, so that few nodes write the same one at once."""
_LONG_SLOT = 32
"""Number of requests in a slot above which the node that grants them empties it: nodes may come and go in one round."""
_ATTEMPTS = 8
"""Number of attempts to leave a request."""


class Mailbox:
    """Access to the pending requests of all nodes over one connection."""

    def __init__(self, store: Store, prefix: str, slots: int = _FEWEST_SLOTS) -> None:
        self._store = store
        self._slots = [f"{prefix}mailbox/{number}" for number in range(slots)]
        self._complete = False

    def create(self) -> None:
        """Create all slots, before any node has left a request."""
        self._store.multi_set(self._slots, [""] * len(self._slots))
        self._complete = True

    def post(self, request: Request, view: NodeView) -> int:
        """Leave a request, and estimate how many nodes have left one; return 0 if other nodes kept writing first.

        Requests for an earlier round than that of `view` are removed; their nodes grant them if need be.
        """
        slot, current = random.choice(self._slots), ""
        for _ in range(_ATTEMPTS):
            others = [one for one in _decode_slot(current) if one.round >= view.round]
            desired = encode_requests([*others, request])
            actual = self._store.compare_set(slot, current, desired).decode()
            if actual == desired:
                return len(self._slots) * (len(others) + 1)
            current = actual
        return 0

    def grant_all(self, state: JobState) -> JobState:
        """Return the state with the requests of all nodes granted."""
        self._create_missing_slots()
        for slot, text in zip(self._slots, self._store.multi_get(self._slots), strict=True):
            requests = _decode_slot(text)
            for request in requests:
                state = request.grant(state)
            if len(requests) > _LONG_SLOT:
                self._store.compare_set(slot, text.decode(), "")
        return state

    def _create_missing_slots(self) -> None:
        """Create slots that the job's first node has not created, since reading a missing slot would block."""
        if not self._complete and not self._store.check(self._slots):
            for slot in self._slots:
                self._store.compare_set(slot, "", "")
        self._complete = True


def _decode_slot(text: str | bytes) -> list[Request]:
    try:
        return decode_requests(text)
    except ValueError as error:
        raise SettingsError(f"the mailbox in the store is not of this release: {error}") from None
