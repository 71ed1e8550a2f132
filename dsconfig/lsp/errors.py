"""What the protocol calls the ways in which a request comes to nothing."""

from __future__ import annotations

INVALID, NOT_FOUND, INTERNAL = -32600, -32601, -32603
NOT_INITIALIZED, CANCELLED, REFUSED = -32002, -32800, -32803


class RequestError(Exception):
    """A request that cannot be answered, with the protocol's code for the reason."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
