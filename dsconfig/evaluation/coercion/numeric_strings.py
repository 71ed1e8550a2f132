"""Numbers in strings, as pydantic 2 reads them where a field takes a number.

Source: pydantic-core, `str_as_int` and `str_as_float` (input/shared.rs); written out here, since a compiled
package would keep the checker from running in a browser. Zeros in front of a sign are pydantic-core's own.
"""

from __future__ import annotations

import re
from functools import lru_cache

_BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""What Rust trims: fewer characters than `str.strip` does."""
_LONGEST = 4300
"""Digits of an integer, without the zeros in front; Python's own limit."""
_SIGN, _DIGITS = r"(?:\+(?!-)|-)?", r"[0-9]+(?:_[0-9]+)*"
_ZEROS = r"0[0_]*"
_INTEGER = re.compile(
    rf"(?P<sign>{_SIGN})(?:{_ZEROS}(?=[1-9]|0(?:\.0+)?\Z))?(?P<digits>{_DIGITS})(?:\.0+)?"
    rf"|\+?{_ZEROS}(?P<behind>-_?(?:0|[1-9][0-9]*(?:_[0-9]+)*))(?:\.0+)?"
)
_FLOAT = re.compile(
    r"[+-]?(?:inf|infinity|nan|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.IGNORECASE | re.ASCII
)


@lru_cache(maxsize=256)
def integer(text: str) -> int | None:
    """The integer in a string, or None where pydantic finds none."""
    found = _INTEGER.fullmatch(text.strip(_BLANK))
    if not found:
        return None
    digits = (found["digits"] or found["behind"]).replace("_", "")
    return int(found["sign"] + digits if found["digits"] else digits) if len(digits) <= _LONGEST else None


@lru_cache(maxsize=256)
def number(text: str) -> float | None:
    """The number in a string, or None where pydantic finds none."""
    trimmed = text.strip(_BLANK)
    if _FLOAT.fullmatch(trimmed):
        return float(trimmed)
    if text.startswith("_") or text.endswith("_") or "__" in text:
        return None
    joined = text.replace("_", "")
    return float(joined) if _FLOAT.fullmatch(joined) else None
