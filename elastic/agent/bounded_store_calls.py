"""`Store`: the methods that the job's store must have; `BoundedCaller`: calls with a timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from queue import SimpleQueue
from typing import Protocol, TypeVar

from elastic.agent.errors import StoreLostError


class Store(Protocol):
    """Methods of `torch.distributed.Store` that are needed."""

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


# `TCPStore` has a timeout only for waiting on a key. If a connection is cut without being closed, its calls hang until
# the kernel gives up after 15 minutes (`c10d/TCPStore.cpp`, `TCPStore::doWait`: the answers to `CANCEL_WAIT` and
# `compareSet` are read without a timeout).

_T = TypeVar("_T")

_FAREWELL = 2.0
"""Seconds that a call has to end at close; a longer one hangs."""


def first_line_of_error(error: Exception) -> str:
    """Error message of torch, without the stacks that follow it."""
    return str(error).partition("\n")[0] or type(error).__name__


class BoundedCaller:
    """Make calls in a separate thread, which is abandoned if a call hangs."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = self._hangs = False
        self._thread = threading.Thread(target=self._serve_calls, name="dsconfig-store-calls", daemon=True)
        self._thread.start()

    def call(self, operation: Callable[[], _T]) -> _T:
        """Result of the operation.  Raises `StoreLostError` if it fails or times out."""
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
        """Accept no more calls, and wait briefly for the current one.

        A thread that returns from C++ while the interpreter shuts down aborts the process: "terminate called without an
        active exception".
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
