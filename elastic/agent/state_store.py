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


class Store(Protocol):
    """The methods of `torch.distributed.Store` that a job's store must provide."""

    def set(self, key: str, value: str, /) -> None:
        """Write `value` to a key."""

    def get(self, key: str, /) -> bytes:
        """Return the value of a key, blocking until the key exists."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Return the values of several keys, blocking until all of them exist."""

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
# the nodes' heartbeats and a *hint*: the revision of the state, or an earlier one. The hint is small, so a job of
# hundreds of nodes does not read its whole state many times per second.

_T = TypeVar("_T")

_DOUBLINGS = 5
"""Number of times that the longest pause between two attempts to change the state doubles: from 10 ms to 0.32 s."""


_MAX_ATTEMPTS_ALONE = 3
"""Number of failed attempts to change the state after which a node leaves its request to other nodes."""
_PATIENCE = 0.3
"""Longest pause in seconds before a node checks whether other nodes have granted its request."""

SMALL = 32
"""Maximum number of members of a small job, whose store easily serves twice as many polls."""
CROWD = 128
"""Minimum number of members of a large job, in which work is spread or left to other nodes."""


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

    def __init__(self, store: Store, run_id: str, writer: str, limit: float = 15.0) -> None:
        self._caller = BoundedCaller(limit)
        self._store = store
        self._run_id = run_id
        self._writer = writer
        self._alarms = 0
        self._last: tuple[str, JobState] | None = None
        """State that was last read or written, together with its encoded text."""
        self._mailbox = Mailbox(store, self._key(""), writer)

    def create(self) -> None:
        """Write the initial state of the job, unless the store already has a state."""
        first = JobState(time.time_ns() // 1000, writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key("hint"), "", "0"))
        self._call(lambda: self._store.compare_set(self._key("state"), "", first.encode()))

    def exists(self) -> bool:
        """Return whether the store contains the job."""
        return self._call(lambda: self._store.check([self._key("state")]))

    def read(self) -> JobState:
        """Read the current state of the job."""
        return self._read()[1]

    def update(self, transition: Callable[[JobState], JobState]) -> JobState:
        """Apply a transition, again if another node wrote first, and return the new state.

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

    def ask(self, make_request: Callable[[JobState], Request | None], *, use_last: bool = False) -> JobState:
        """Post a request that depends on the state, wait until it is granted, and return the new state.

        If many nodes make requests at once, the node that changes the state also grants the requests of the others.
        With `use_last`, the first attempt uses the last state that this connection has read.
        """
        raw, current = self._last if use_last and self._last else self._read()
        request = make_request(current)
        posted = False
        for attempt in itertools.count():
            changed = current if request is None else request.grant(current)
            if request is None or changed is current:
                return current  # granted, or obsolete
            crowded = attempt >= _MAX_ATTEMPTS_ALONE or len(current.members) >= CROWD
            if crowded and not posted:
                posted = True
                self._call(partial(self._mailbox.post, request, current))
            else:
                if crowded:
                    changed = self._call(partial(self._mailbox.grant_all, changed))
                if new_state := self._write(raw, current, changed):
                    return new_state
            time.sleep(random.uniform(0.0, _PATIENCE if crowded else 0.01 * 2**attempt))
            raw, current = self._read()
        raise AssertionError

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

    def hint(self, state: JobState) -> None:
        """Publish the revision of `state`, so that all nodes notice the change."""
        self._call(lambda: self._store.set(self._key("hint"), str(state.revision)))

    def await_hint(self, state: JobState, seconds: float, polls: int) -> None:
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
        self._last = raw.decode(), self._decode(raw)
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
        self.hint(desired)
        return desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return self._caller.call(operation)
        except StoreLostError as error:
            raise StoreLostError(f"the store does not answer: {error}") from None

    def _decode(self, raw: bytes) -> JobState:
        try:
            return decode_state(raw)
        except ValueError as error:
            reason = f"the job `{self._run_id}` in the store is not of this release: {error}"
            raise SettingsError(f"{reason}; run the same release of dsconfig on every node") from None


# `Mailbox`: requests of nodes while many want to change the state at once.
#
# The node that changes the state next grants all of them. So a group of thousands forms in dozens of changes; if each
# node made its own change, it would wait for those of all others. The mailbox may lose requests: each node also grants
# its own.

_SLOTS = 64
"""Number of keys over which requests are spread; one request to etcd's gateway may have 128 keys."""
_ATTEMPTS = 4
"""Number of attempts to leave a request, each in another slot."""


class Mailbox:
    """Access to the pending requests of all nodes over one connection."""

    def __init__(self, store: Store, prefix: str, writer: str) -> None:
        self._store = store
        self._writer = writer
        self._creator_key = f"{prefix}mailbox"
        self._slots = [f"{prefix}mailbox/{number}" for number in range(_SLOTS)]
        self._complete = False

    def post(self, request: Request, state: JobState) -> None:
        """Leave a request, and remove requests that `state` has granted; give up if other nodes keep writing first."""
        if not self._has_all_slots() and self._store.compare_set(self._creator_key, "", self._writer) == (
            self._writer.encode()
        ):
            for slot in self._slots:
                self._store.compare_set(slot, "", "")
        for _ in range(_ATTEMPTS):
            slot, current = random.choice(self._slots), ""
            for _ in range(2):
                desired = encode_requests([*_pending_requests(current, state), request])
                actual = self._store.compare_set(slot, current, desired).decode()
                if actual == desired:
                    return
                current = actual

    def grant_all(self, state: JobState) -> JobState:
        """Return the state with the requests of all nodes granted."""
        if self._has_all_slots():
            for text in self._store.multi_get(self._slots):
                for request in decode_requests(text):
                    state = request.grant(state)
        return state

    def _has_all_slots(self) -> bool:
        """Return whether all slots exist, because reading a missing slot would block."""
        self._complete = self._complete or self._store.check(self._slots)
        return self._complete


def _pending_requests(text: str, state: JobState) -> list[Request]:
    """Return the requests that `state` has not granted; a request from a later state may still become valid."""
    requests = decode_requests(text)
    return [one for one in requests if one.revision > state.revision or one.grant(state) is not state]
