"""JSON types for the type checker, a fast `NamedTuple`, lookup by dotted path, and copies."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

# Everything may import this module, and it imports nothing of ours. Config data is the only `Any` in the
# project.

Json: TypeAlias = Any
"""A value of a config: anything that JSON, Hjson or YAML can express, unknown until a rule checks it."""

JsonObject: TypeAlias = "dict[str, Json]"

KeyPath: TypeAlias = "tuple[str | int, ...]"
"""A path to a value: keys of objects and indices of lists."""

Spec: TypeAlias = "tuple[Any, ...]"
"""The type of a key in the key table: its kind, then the arguments of the kind, such as
`("int", 0, None, None, None)` or `("union", ("null",), ("section", "FP16"))`.
"""

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  # as the re-export that mypy asks for
else:

    class _Fields(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.get("__annotations__", {})
            defaults = list(map(body.__getitem__, filter(body.__contains__, fields)))
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])  # noqa: PYI024
            for key in body.keys() - fields.keys() - {"__module__"}:
                setattr(made, key, body[key])
            return made

    class NamedTuple(metaclass=_Fields):
        """A `typing.NamedTuple` at less than half its cost: the original compiles the text of each annotation.

        A check creates some seventy of these classes, a sixth of a cold run with the original.
        """


def at(data: Mapping[str, Json], path: str) -> Json:
    """Return the value at a dotted path; None if absent."""
    value: Json = data
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def copy_json(value: Json) -> Json:
    """Copy a value: objects and lists are new, other Python objects are shared.

    `copy.deepcopy` raises for a lock, a generator and anything else that cannot be pickled.
    """
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return tuple(map(copy_json, value)) if type(value) is tuple else value
