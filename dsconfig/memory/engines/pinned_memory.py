"""What torch rounds where memory of the host is pinned.

`Tensor.pin_memory` takes blocks of powers of two from an allocator that keeps them
(ATen/core/CachingHostAllocator.h, `PowerOf2Ceil`); the tensor itself is as long as it was.
"""

from __future__ import annotations

from collections.abc import Iterable

PINNED = "rounding of pinned memory"


def rounding(blocks: Iterable[int]) -> int:
    """Bytes that these blocks have beyond what they hold."""
    return sum((1 << (count - 1).bit_length()) - count for count in blocks if count > 1)
