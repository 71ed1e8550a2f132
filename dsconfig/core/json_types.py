"""JSON types for the type checker, the value at a dotted path, and copies."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

# Names for the type checker: what a config holds, how a place in it is named, and the type of a key.
#
# Everything may import this, and it imports nothing. A config's own data is the one thing that is `Any`
# here.

Json: TypeAlias = Any
"""A value of a config: whatever JSON, Hjson or YAML can say. Nothing is known of it until a rule looks."""

JsonObject: TypeAlias = "dict[str, Json]"

KeyPath: TypeAlias = "tuple[str | int, ...]"
"""The way to a value: the keys of objects, the indices of lists."""

Spec: TypeAlias = "tuple[Any, ...]"
"""The type of a key, as the key table writes it: its kind, then what the kind needs, such as
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
        """`typing.NamedTuple` at less than half its cost: that compiles the text of each annotation.

        A check makes some seventy of these classes, which was a sixth of a cold run.
        """


# Values of JSON: the one at a dotted path, and copies.


def at(data: Mapping[str, Json], path: str) -> Json:
    """The value at a dotted path; None where there is none."""
    value: Json = data
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def copied(value: Json) -> Json:
    """The value with objects and lists of its own; what else a Python dict holds is shared.

    `copy.deepcopy` raises for a lock, a generator and whatever else cannot be pickled.
    """
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return tuple(map(copied, value)) if type(value) is tuple else value
