"""`Store`: the calls that the job's store must have, and `BoundedCaller`, which ends each of them in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from queue import SimpleQueue
from typing import Protocol, TypeVar

from elastic.agent.errors import StoreLostError

# `Store`: the few calls that the job's store must have; torch's has them.


class Store(Protocol):
    """What is needed of a `torch.distributed.Store`."""

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""

    def get(self, key: str, /) -> bytes:
        """Read a key; blocks until it exists."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Read keys; blocks until all exist."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or is missing and `expected` is empty."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""


# `BoundedCaller`: calls to the store that end in time, though torch's may not.
#
# `TCPStore` has a time limit only for waiting on a key; over a connection that was cut, and not closed, its
# calls hang until the kernel gives up, a quarter of an hour later (`c10d/TCPStore.cpp`, `TCPStore::doWait`:
# the answer to `CANCEL_WAIT` is read without a limit, and so is the answer to `compareSet`).

_T = TypeVar("_T")

_FAREWELL = 2.0
"""Seconds that a call gets to end; what takes longer hangs, and will not end just now."""


def first_line(error: Exception) -> str:
    """What torch says of an error, without the stacks that come after it."""
    return str(error).partition("\n")[0] or type(error).__name__


class BoundedCaller:
    """Makes the calls in a thread of its own, which it leaves behind when one hangs."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = self._hangs = False
        self._thread = threading.Thread(target=self._serve, name="dsconfig-store-calls", daemon=True)
        self._thread.start()

    def call(self, operation: Callable[[], _T]) -> _T:
        """What the operation returns.  Raises `StoreLostError` if it fails, or has not ended in time."""
        if self._closed:
            raise StoreLostError("the connection was closed, or an earlier call hangs")
        answer: Future[_T] = Future()
        self._calls.put(lambda: _answer(operation, answer))
        try:
            return answer.result(self._limit)
        except NoAnswerError:
            self._closed = self._hangs = True
            raise StoreLostError(f"no reply in {self._limit:g} s") from None
        except (RuntimeError, OSError) as error:  # torch's DistError is a RuntimeError
            raise StoreLostError(first_line(error)) from error

    def close(self) -> None:
        """Make no more calls, and wait a moment for the one under way.

        A thread that comes back from C++ while the interpreter ends is ended there, which aborts the process:
        "terminate called without an active exception".
        """
        self._closed = True
        self._calls.put(None)
        self._thread.join(0.0 if self._hangs else _FAREWELL)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _answer(operation: Callable[[], _T], answer: Future[_T]) -> None:
    try:
        answer.set_result(operation())
    except BaseException as error:  # it belongs to the caller
        answer.set_exception(error)
