"""`StateStore`: the job's state in its store, changed by compare-and-set; `Mailbox` for requests of many nodes."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.requests import Request, decode_all, encode_all
from elastic.agent.state import State, decode
from elastic.agent.store_calls import BoundedCaller, Store

# `StateStore`: the job's state in its store, changed only by compare-and-set.
#
# Works with any store that has the few calls of `Store`: torch's, or a dict in a test. Beside the state
# stand the nodes' heartbeats and a *hint*, the revision of the state or an earlier one: it is small, so
# that a job of hundreds of nodes does not read its whole state many times a second.

_T = TypeVar("_T")

_DOUBLINGS = 5
"""Of the longest pause between two attempts to change the state: 10 ms at first, 0.32 s at the end."""


_ALONE = 3
"""Attempts of a node to change the state that fail before it leaves its request to others."""
_PATIENCE = 0.3
"""Seconds, at most, for which it then looks whether they have granted it."""

CROWD = 128
"""Members from which a job is large: what each does is then spread, or left to others."""


class Look(NamedTuple):
    """What a node looks at several times a second."""

    hint: int
    """The revision of the state, or an earlier one."""
    alarm: bytes
    """Changes when this node has been marked."""
    heartbeats: Mapping[str, int]
    """The last of each of the watched nodes."""


class StateStore:
    """One connection's view of the state; not to be shared between threads."""

    def __init__(self, store: Store, run_id: str, writer: str, limit: float = 15.0) -> None:
        self._caller = BoundedCaller(limit)
        self._store = store
        self._run_id = run_id
        self._writer = writer
        self._alarms = 0
        self._held: tuple[str, State] | None = None
        """The state that was read or written last."""
        self._mailbox = Mailbox(store, self._key(""), writer)

    def create(self) -> None:
        """Write the first state, unless there is one already."""
        first = State(time.time_ns() // 1000, writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key("hint"), "", "0"))
        self._call(lambda: self._store.compare_set(self._key("state"), "", first.encode()))

    def exists(self) -> bool:
        """Whether the job is known to the store."""
        return self._call(lambda: self._store.check([self._key("state")]))

    def read(self) -> State:
        """The state now."""
        return self._read()[1]

    def update(self, transition: Callable[[State], State]) -> State:
        """Apply a transition and return the new state; apply it again if another node wrote first.

        An exception that the transition raises ends the attempt.
        """
        for attempt in itertools.count():
            raw, current = self._read()
            changed = transition(current)
            if changed is current or changed == current:
                return current
            if written := self._write(raw, current, changed):
                return written
            # Each failure means that more nodes are writing than was thought.
            time.sleep(random.uniform(0.0, 0.01 * 2 ** min(attempt, _DOUBLINGS)))
        raise AssertionError

    def ask(self, wish: Callable[[State], Request | None], *, held: bool = False) -> State:
        """Have a request granted that follows from the state, and return the new state.

        Where many ask at once, whoever changes the state grants what the others have asked for, too.  With
        `held`, the first attempt takes the state as this connection saw it last.
        """
        raw, current = self._held if held and self._held else self._read()
        request = wish(current)
        posted = False
        for attempt in itertools.count():
            changed = current if request is None else request.grant(current)
            if request is None or changed is current:
                return current  # granted, or of no use any more
            crowded = attempt >= _ALONE or len(current.members) >= CROWD
            if crowded and not posted:
                posted = True
                self._call(partial(self._mailbox.post, request, current))
            else:
                if crowded:
                    changed = self._call(partial(self._mailbox.grant_all, changed))
                if written := self._write(raw, current, changed):
                    return written
            time.sleep(random.uniform(0.0, _PATIENCE if crowded else 0.01 * 2**attempt))
            raw, current = self._read()
        raise AssertionError

    def send_heartbeat(self, count: int) -> None:
        """Say that this node is alive."""
        self._call(lambda: self._store.set(self._key(f"heartbeat/{self._writer}"), str(count)))

    def poll(self, nodes: Sequence[str]) -> Look:
        """The small keys, as of one moment; this node and those that it watches have sent a heartbeat."""
        names = ["hint", f"alarm/{self._writer}", *(f"heartbeat/{node}" for node in nodes)]
        keys = [self._key(name) for name in names]
        hint, alarm, *heartbeats = self._call(lambda: self._store.multi_get(keys))
        return Look(
            int(hint), alarm, {node: int(count) for node, count in zip(nodes, heartbeats, strict=True)}
        )

    def listen(self) -> None:
        """Make the key by which other nodes alarm this one."""
        self._call(lambda: self._store.compare_set(self._key(f"alarm/{self._writer}"), "", "none"))

    def alarm(self, node: str) -> None:
        """Tell a node that it bears a mark: it reads the state before it renews its lease again."""
        self._alarms += 1
        text = f"{self._writer}/{self._alarms}"  # never one that was there before
        self._call(lambda: self._store.set(self._key(f"alarm/{node}"), text))

    def hint(self, state: State) -> None:
        """Tell all nodes that there is such a state."""
        self._call(lambda: self._store.set(self._key("hint"), str(state.revision)))

    def close(self) -> None:
        """End the connection's thread; every later call raises."""
        self._caller.close()

    def _key(self, name: str) -> str:
        return f"dsconfig/{self._run_id}/{name}"

    def _read(self) -> tuple[str, State]:
        raw = self._call(lambda: self._store.get(self._key("state")))
        self._held = raw.decode(), self._decode(raw)
        return self._held

    def _write(self, held: str, current: State, changed: State) -> State | None:
        """The changed state, as it was written; `None` if another node wrote first."""
        desired = replace(changed, revision=current.revision + 1, writer=self._writer)
        text = desired.encode()
        # The store answers with what the key holds now; revision and writer make each text unique.
        found = self._call(lambda: self._store.compare_set(self._key("state"), held, text))
        if found.decode() != text:
            return None
        self._held = text, desired
        self.hint(desired)
        return desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return self._caller.call(operation)
        except StoreLostError as error:
            raise StoreLostError(f"the store does not answer: {error}") from None

    def _decode(self, raw: bytes) -> State:
        try:
            return decode(raw)
        except ValueError as error:
            reason = f"the store's job `{self._run_id}` is not one of this release: {error}"
            raise SettingsError(f"{reason}; run the same release of dsconfig on every node") from None


# `Mailbox`: where nodes leave their requests when many want to change the state at once.
#
# Whoever changes the state next grants all that are there. So a group of thousands forms in dozens of
# changes; if each node made its own, it would wait for those of all the others. Nothing depends on the
# mail: a request that is lost here is granted by its own node.

_SLOTS = 64
"""Keys that requests are spread over; a request of etcd's gateway takes 128."""
_ATTEMPTS = 4
"""To leave a request in a slot, each time in another one."""


class Mailbox:
    """One connection's view of the requests of all nodes."""

    def __init__(self, store: Store, prefix: str, writer: str) -> None:
        self._store = store
        self._writer = writer
        self._made_by = f"{prefix}mailbox"
        self._slots = [f"{prefix}mailbox/{number}" for number in range(_SLOTS)]
        self._complete = False

    def post(self, request: Request, state: State) -> None:
        """Leave a request, unless others are always faster; `state` tells which of those there are done."""
        if not self._is_complete() and self._store.compare_set(self._made_by, "", self._writer) == (
            self._writer.encode()
        ):
            for slot in self._slots:
                self._store.compare_set(slot, "", "")
        for _ in range(_ATTEMPTS):
            slot, held = random.choice(self._slots), ""
            for _ in range(2):
                wanted = encode_all([*_pending(held, state), request])
                found = self._store.compare_set(slot, held, wanted).decode()
                if found == wanted:
                    return
                held = found

    def grant_all(self, state: State) -> State:
        """With what all nodes asked for."""
        if self._is_complete():
            for text in self._store.multi_get(self._slots):
                for request in decode_all(text):
                    state = request.grant(state)
        return state

    def _is_complete(self) -> bool:
        """Whether all slots can be read, which would wait for one that is missing."""
        self._complete = self._complete or self._store.check(self._slots)
        return self._complete


def _pending(text: str, state: State) -> list[Request]:
    """Those that this state has not granted; one of a later state may be yet to come."""
    found = decode_all(text)
    return [one for one in found if one.seen > state.revision or one.grant(state) is not state]
