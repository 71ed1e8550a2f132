"""One DeepSpeed release says which values it ends up with, inside the parity environment's venv.

JSON lines in as for `judge.py`, JSON lines out: {"id", "ok", "error", "values"}. `values` are the public
attributes of the release's config object, and of what it holds.
"""

import enum
import os
import signal
from typing import Any

from judge import OutOfTime, serve  # type: ignore[import-not-found]

DEPTH = 8
BITS = 10_000


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON can say it, objects by their public attributes."""
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if isinstance(value, int) and value.bit_length() > BITS:
        return f"{value.bit_length()} bits"  # more digits than Python writes out
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > DEPTH:
        return type(value).__name__
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    inside = getattr(value, "__dict__", None)
    if inside is None or isinstance(value, type) or type(value).__module__.startswith("torch"):
        return str(value) if type(value).__module__.startswith("torch") else type(value).__name__
    found = {key: plain(item, depth + 1) for key, item in inside.items() if not key.startswith("_")}
    return found | {alias: found[name] for name, alias in aliases(type(value)) if name in found}


def aliases(kind: type) -> "list[tuple[str, str]]":
    """The names under which a config has the fields of a pydantic class, where they differ."""
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__fields__", {})
    return [(name, field.alias) for name, field in fields.items() if field.alias not in (None, name)]


def answer(judge: Any, case: "dict[str, Any]") -> "dict[str, Any]":
    """What becomes of one config."""
    judge.stage, judge.world_size = "parse", case.get("world_size", 1)
    signal.setitimer(signal.ITIMER_REAL, 5.0)
    try:
        built = judge.build(case)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {"id": case["id"], "ok": True, "error": None, "values": plain(built)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        ok = None if isinstance(error, OutOfTime | MemoryError) else False
        return {"id": case["id"], "ok": ok, "error": f"{type(error).__name__}: {error}"[:300], "values": None}
    finally:
        os.environ.clear()
        os.environ.update(judge.variables)


if __name__ == "__main__":
    serve(answer)
