"""JSON types, a fast replacement for `typing.NamedTuple`, and helpers for JSON values."""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any, TypeAlias

# Everything may import this module, and it imports nothing of ours. Config data is the only `Any` in the
# project.

Json: TypeAlias = "Any"
"""A value of a config: anything that JSON, Hjson or YAML can express, of unknown type until a rule checks it."""

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
    from collections import _tuplegetter  # with which `namedtuple` itself reads fields
    from functools import cache
    from itertools import repeat
    from types import FunctionType

    class _Record(tuple):
        """Methods that all named tuples inherit; `collections.namedtuple` would create them for each class."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            changed = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return changed

        __replace__ = _replace

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            values = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(values)})"

    @cache
    def _constructor(fields):
        """Return a `__new__` for a class with this number of fields; the names of its parameters are set afterwards."""
        names = list(map("_{}".format, range(fields)))
        values = f"({', '.join(names)},)" if names else "()"
        return eval(f"lambda {', '.join(['_cls', *names])}: _new(_cls, {values})", {"_new": tuple.__new__})

    class _NamedTupleMeta(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            annotations = body.setdefault("__annotations__", {})
            fields = tuple(annotations)
            template = _constructor(len(fields))
            code = template.__code__.replace(co_name="__new__", co_varnames=("_cls", *fields))
            defaults = tuple(map(body.__getitem__, filter(body.__contains__, fields)))
            constructor = FunctionType(code, template.__globals__, "__new__", defaults)
            constructor.__annotations__ = annotations
            constructor.__qualname__ = f"{name}.__new__"  # which a TypeError names
            body["__new__"] = constructor
            body |= {"__slots__": (), "_fields": fields, "__match_args__": fields}
            body |= zip(fields, map(_tuplegetter, range(len(fields)), repeat(None)), strict=True)
            return type(name, (_Record,), body)

    class NamedTuple(metaclass=_NamedTupleMeta):
        """Drop-in replacement for `typing.NamedTuple` at a fifth of its cost.

        `typing.NamedTuple` compiles each annotation, and a constructor for each class. A check creates about seventy of
        these classes, which took a sixth of the time of a cold run.
        """


def value_at_dotted_path(data: Mapping[str, Json], path: str) -> Json:
    """Return the value at a dotted path, or None if the path is absent."""
    value: Json = data
    for part in path.split("."):
        # `dict` comes first: the test for an abstract class takes twenty times as long.
        value = value.get(part) if isinstance(value, (dict, Mapping)) else None
    return value


def copy_json(value: Json) -> Json:
    """Copy a value, creating new objects and lists but sharing other Python objects.

    `copy.deepcopy` raises for a lock, a generator and anything else that cannot be pickled.
    """
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return tuple(map(copy_json, value)) if type(value) is tuple else value
