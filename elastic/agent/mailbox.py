"""`Mailbox`: where nodes leave their requests when many want to change the state at once.

Whoever changes the state next grants all that are there.  So a group of thousands forms in dozens of changes;
if each node made its own, it would wait for those of all the others.  Nothing depends on the mail: a request
that is lost here is granted by its own node.
"""

from __future__ import annotations

import random

from elastic.agent.requests import Request, decode_all, encode_all
from elastic.agent.state import State
from elastic.agent.store_calls import Store

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
