"""`Store`: the few calls that the job's store must have; torch's has them."""

from __future__ import annotations

from typing import Protocol


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
