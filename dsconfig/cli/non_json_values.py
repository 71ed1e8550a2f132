"""Values that YAML and JavaScript have words for, and JSON has none: dates, sets, bytes, NaN, infinity."""

from __future__ import annotations

import base64
import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.core.json_types import Json, KeyPath


def plain(value: Json) -> Json:
    """The value in words of JSON: a date, NaN or bytes (base64) as text, a set as a list."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def unspeakable(value: Json, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every value for which JSON has no word: where it stands, and what it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unspeakable(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unspeakable(item, (*path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "NaN" if math.isnan(value) else "infinity"
    elif value is not None and not isinstance(value, bool | int | float | str):
        yield path, _KINDS.get(type(value).__name__, "of a type of its own")


_KINDS = {"date": "a date", "datetime": "a date and time", "set": "a set", "bytes": "binary data"}
