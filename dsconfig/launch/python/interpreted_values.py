"""Values of variables during interpretation, operations on them, and the merging of values from two branches.

Dicts, lists and constants have known values; every other value is `UNKNOWN`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from dsconfig.document.located_tree import UNKNOWN

if TYPE_CHECKING:
    import ast

    from dsconfig.core.json_types import Json
    from dsconfig.launch.python.syntax_trees import ParsedModule


_MAX_DEPTH = 20


class Container:
    """A dict, a list, an object with attributes, or the variables of a call, compared by identity."""

    __slots__ = ("entries", "has_other_keys", "kind", "literal", "origins")

    def __init__(
        self, kind: Literal["dict", "list", "object", "frame"], entries: dict[object, object] | None = None
    ) -> None:
        self.kind = kind
        self.entries: dict[object, object] = entries or {}
        self.has_other_keys = kind == "object"
        """Whether the container may have keys that the source does not show."""
        self.literal: ValueOrigin | None = None
        """Dict in the source whose keys the container starts with; None for a container that is not such a dict."""
        self.origins: tuple[ValueOrigin, ...] = ()
        """Outermost expressions that created the dict, one for each branch; empty for any other container."""

    def value_at(self, key: object) -> object:
        """Return the value of a key, `UNKNOWN` if the key may be absent, or None if it is absent."""
        missing = UNKNOWN if self.has_other_keys else None
        return self.entries.get(key, missing) if _is_plain_key(key) else UNKNOWN

    def set_value(self, key: object, value: object) -> None:
        """Set the value of a key; if the key is unknown, all values become unknown."""
        if _is_plain_key(key):
            self.entries[key] = value
        else:
            self.forget_values()

    def forget_values(self) -> None:
        """Mark all values as unknown, also in nested containers, because other code may have changed them."""
        inner = list(self.entries.values())
        self.has_other_keys = True
        self.entries = dict.fromkeys(self.entries, UNKNOWN)
        for each in inner:
            if isinstance(each, Container) and each.kind in ("dict", "list"):
                each.forget_values()


class ValueOrigin(NamedTuple):
    """The expression that creates a value, and its module."""

    module: ParsedModule
    node: ast.expr


class CommandArguments:
    """The result of an argument parser, with the command's flags as attributes."""

    def __repr__(self) -> str:
        return "<arguments of the command>"


COMMAND_ARGUMENTS: Final = CommandArguments()


def _is_plain_key(key: object) -> bool:
    return isinstance(key, str | int | bool | float) or key is None


HeapState: TypeAlias = dict[Container, tuple[dict[object, object], bool]]
"""Entries of each container, and whether the container may have other keys."""


class Heap:
    """All containers of one evaluation, so that the effects of branches can be merged."""

    def __init__(self) -> None:
        self.containers: dict[Container, None] = {}
        self._adopted: HeapState = {}
        """Entries of the containers that other code created, as they are before any statement of this evaluation."""

    def new(
        self,
        kind: Literal["dict", "list", "object", "frame"],
        entries: dict[object, object] | None = None,
    ) -> Container:
        """Create a container, and add it to the heap."""
        container = Container(kind, entries)
        self.containers[container] = None
        return container

    def drop(self, frame: Container) -> None:
        """Drop the variables of a call that has returned."""
        self.containers.pop(frame, None)

    def adopt(self, value: object) -> object:
        """Copy a value from another heap, in the state it had before this evaluation began."""
        copied: dict[Container, Container] = {}

        def copy(each: object) -> object:
            if not isinstance(each, Container):
                return each
            if each not in copied:
                inner = copied[each] = self.new(each.kind)
                inner.origins, inner.has_other_keys = each.origins, each.has_other_keys
                inner.literal = each.literal
                inner.entries = {key: copy(entry) for key, entry in each.entries.items()}
                self._adopted[inner] = (dict(inner.entries), inner.has_other_keys)
            return copied[each]

        return copy(value)

    def save(self) -> HeapState:
        """Return the current entries of all containers."""
        return {each: (dict(each.entries), each.has_other_keys) for each in self.containers}

    def restore(self, state: HeapState) -> None:
        """Restore the entries of all containers from a state that `save` returned."""
        for container, (entries, has_other_keys) in (self._adopted | state).items():
            container.entries, container.has_other_keys = dict(entries), has_other_keys

    def merge(self, states: list[HeapState], values: Iterable[object] = ()) -> object:
        """Merge the states of several branches into the heap, and return the merge of their values.

        A key that is absent from some of the states becomes `UNKNOWN`.
        """
        values = list(values) or [UNKNOWN] * len(states)
        states = [self._adopted | each for each in states]
        result, state = values[0], states[0]
        for other, value in zip(states[1:], values[1:], strict=True):
            merger = _StateMerger(self, state, other)
            result = merger.merge_values(result, value)
            state = merger.merge_states()
        self.restore(state)
        return result


class _StateMerger:
    def __init__(self, heap: Heap, left: HeapState, right: HeapState) -> None:
        self._heap, self._left, self._right = heap, left, right
        self._merged: dict[tuple[Container, Container], Container] = {}
        self._new: HeapState = {}

    def merge_states(self) -> HeapState:
        """Return the merged entries of all containers."""
        state: HeapState = {}
        for each in (*self._left, *self._right):
            if each in state or each not in self._heap.containers:
                continue
            left, right = self._left.get(each), self._right.get(each)
            # Only one branch created it.
            state[each] = self._merge_entries(left, right) if left and right else left or right or ({}, True)
        return state | self._new

    def merge_values(self, left: object, right: object) -> object:
        """Merge the values that an expression has in two branches."""
        if left is right:
            return left
        if isinstance(left, Container) and isinstance(right, Container) and left.kind == right.kind:
            if (left, right) not in self._merged:
                both = self._merged[left, right] = self._heap.new(left.kind)
                both.literal = left.literal if left.literal == right.literal else None
                both.origins = tuple(dict.fromkeys((*left.origins, *right.origins)))
                states = self._left.get(left), self._right.get(right)
                if len(self._merged) < _MAX_DEPTH and states[0] and states[1]:
                    self._new[both] = self._merge_entries(states[0], states[1])
                else:
                    self._new[both] = ({}, True)
            return self._merged[left, right]
        is_same = not isinstance(left, Container) and type(left) is type(right) and left == right
        return left if is_same else UNKNOWN

    def _merge_entries(
        self, left: tuple[dict[object, object], bool], right: tuple[dict[object, object], bool]
    ) -> tuple[dict[object, object], bool]:
        keys = [*left[0], *(key for key in right[0] if key not in left[0])]
        entries = {
            key: self.merge_values(left[0][key], right[0][key])
            if key in left[0] and key in right[0]
            else UNKNOWN
            for key in keys
        }
        return entries, left[1] or right[1]


def to_json(value: object, depth: int = 0) -> Json:
    """Convert a value to JSON, with `UNKNOWN` for parts known only at run time."""
    if isinstance(value, Container):
        if value.has_other_keys or depth > _MAX_DEPTH:
            return UNKNOWN
        if value.kind == "list":
            return [to_json(each, depth + 1) for each in value.entries.values()]
        if value.kind == "dict":
            return {
                key if isinstance(key, str) else str(key): to_json(each, depth + 1)
                for key, each in value.entries.items()
            }
        return UNKNOWN
    return value if isinstance(value, str | bool | int | float) or value is None else UNKNOWN


# Operations: comparisons, conversions and tests.

MAX_TEXT = 1000
"""Maximum length of a string that is computed."""
CONVERSIONS: dict[str, Callable[..., object]] = {
    "int": int, "float": float, "str": str, "bool": bool, "abs": abs, "round": round,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., object]] = {"min": min, "max": max}
_COMPARISONS: dict[type[ast.cmpop], Callable[..., object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.eq, ast.IsNot: operator.ne,
}  # fmt: skip


def convert_values(function: Callable[..., object], values: Sequence[object]) -> object:
    """Return the result of a builtin such as `int`, or `UNKNOWN` if a value is unknown or the builtin raises."""
    if not all(isinstance(each, str | int | float) for each in values):
        return UNKNOWN
    try:
        result = function(*values)
    except (ValueError, TypeError, OverflowError):
        return UNKNOWN
    return result if not isinstance(result, str) or len(result) <= MAX_TEXT else UNKNOWN


def change_entry(method: str, container: Container, key: object, default: object) -> object:
    """Apply `setdefault` or `pop` to a dict, and return the result."""
    if not isinstance(key, str | int):
        container.forget_values()
        return UNKNOWN
    if method == "pop":
        value = container.entries.get(key, default)
        remove_key(container, key)
        return value
    if key not in container.entries:
        container.entries[key] = UNKNOWN if container.has_other_keys else default
    elif container.entries[key] is UNKNOWN:
        return UNKNOWN
    return container.entries[key]


def remove_key(container: Container, key: object) -> None:
    """Remove a key from a dict; if the key or container is unknown, mark all values as unknown."""
    if isinstance(key, str | int) and container.kind == "dict":
        container.entries.pop(key, None)
    else:
        container.forget_values()


def compare_values(op: ast.cmpop, left: object, right: object) -> object:
    """Compare two values; return `UNKNOWN` if either is unknown."""
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, Container) or isinstance(left, Container) or left is UNKNOWN:
            return UNKNOWN
        # The key of a dict with the value `UNKNOWN` may be absent.
        values = right.entries if right.kind == "dict" else dict.fromkeys(_plain_values(right))
        is_open = right.has_other_keys or len(values) < len(right.entries)
        is_member = left in values and values[left] is not UNKNOWN
        if not is_member and (is_open or left in values):
            return UNKNOWN
        return is_member is isinstance(op, ast.In)
    if isinstance(left, Container) or isinstance(right, Container):
        is_equality = isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        # A container is never None.
        is_none = is_equality and (left is None or right is None)
        return isinstance(op, ast.IsNot | ast.NotEq) if is_none else UNKNOWN
    plain = isinstance(left, str | int | float) or left is None
    if not plain or not (isinstance(right, str | int | float) or right is None):
        return UNKNOWN
    try:
        return _COMPARISONS[type(op)](left, right)
    except TypeError:
        return UNKNOWN


def _plain_values(container: Container) -> list[object]:
    return [
        each for each in container.entries.values() if isinstance(each, str | int | float) or each is None
    ]


def compute_unary(op: ast.unaryop, value: object) -> object:
    """Return the result of a unary operator such as `-`, or `UNKNOWN` if the value is unknown."""
    if isinstance(op, ast.Not):
        truth = truth_of(value)
        return UNKNOWN if truth is None else not truth
    if isinstance(value, int | float) and isinstance(op, ast.USub | ast.UAdd):
        return -value if isinstance(op, ast.USub) else +value
    return UNKNOWN


def truth_of(value: object) -> bool | None:
    """Return the truth value of a value, or None if it is known only at run time."""
    if value is None or isinstance(value, str | bool | int | float):
        return bool(value)
    if isinstance(value, Container) and value.kind in ("dict", "list"):
        if any(each is not UNKNOWN for each in value.entries.values()):
            return True
        return None if value.entries or value.has_other_keys else False
    return None


def forget_container(value: object) -> None:
    """Mark the contents of a container as unknown, because other code receives it."""
    if isinstance(value, Container) and value.kind in ("dict", "list"):
        value.forget_values()
