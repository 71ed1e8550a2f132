"""Amounts of memory, as people write them."""

from __future__ import annotations

import re

UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
LEAST = 1 << 20
"""No memory is smaller: a number below it that has no unit has lost it."""


def amount(text: str) -> int:
    """Bytes: `80GiB`, `512MiB`, `1.5TB`, `80e9`.

    Raises:
        ValueError: it is no amount.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2}(?![A-Za-z]))?)\s*([A-Za-z]*)", text.strip())
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or len(text) > 20 or len(found[1]) > 15:
        raise ValueError(f"expected an amount such as 80GiB, got `{text[:40]}`")
    count = int(float(found[1]) * unit)
    if not found[2] and 0 < count < LEAST:
        raise ValueError(f"expected an amount such as 80GiB, got `{text}`, which would be bytes")
    return count
