"""Operations of a fix on paths, and the editor that turns each of them into edits of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from dsconfig.core.diagnostic import Fix, Move, Operation, Remove, Rename, Replace, Set
from dsconfig.core.json_types import copied
from dsconfig.document.document import Document
from dsconfig.document.reader import read_text
from dsconfig.document.text_edit import Edit, EditError, apply, trimmed

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.tree import Node


# What a fix does: to a config's values, and to its text.


def edits(document: Document, fix: Fix) -> list[Edit]:
    """The edits of the text that make the fix.

    Raises:
        EditError: the text gives no place for it.
    """
    try:
        match fix.operations:
            case (Set() | Remove() | Rename() as only,):
                return _edits(document, only)
            case operations:
                replaced = [Edit(o.start, o.end, o.text) for o in operations if isinstance(o, Replace)]
                if len(replaced) == len(operations):
                    return replaced
    except ValueError as error:
        raise EditError(str(error)) from None
    return _one_after_another(document, operations)


def _one_after_another(document: Document, operations: tuple[Operation, ...]) -> list[Edit]:
    """Each operation applies to what the one before it leaves."""
    now = document
    try:
        apart = _at_once(document, operations)
        if apart is not None:
            return apart
        for operation in operations:
            for step in _steps(operation):
                now = again(now, apply(now.text, _edits(now, step)))
    except ValueError as error:
        raise EditError(str(error)) from None
    return _apart(document, operations, now.text) or [trimmed(document.text, now.text)]


def _apart(document: Document, operations: tuple[Operation, ...], text: str) -> list[Edit]:
    """The edits of each operation on the same text, where they lead to the new text and to nothing else."""
    try:
        made = [edit for whole in operations for step in _steps(whole) for edit in _edits(document, step)]
        return made if apply(document.text, made) == text else []
    except ValueError:
        return []


def _at_once(document: Document, operations: tuple[Operation, ...]) -> list[Edit] | None:
    """The edits of all operations on one text; None where one of them meets what another one makes.

    Reading the text again after each would cost a thousand fixes a thousand readings.
    """
    found: list[Edit] = []
    made: dict[KeyPath, Operation] = {}
    for step in (step for operation in operations for step in _steps(operation)):
        if isinstance(step, Set) and made.get(step.path) == step:
            continue  # a key that stands there many times is one, the last of them
        if isinstance(step, Replace) or any(
            step.path[:length] in made for length in range(len(step.path) + 1)
        ):
            return None
        if not isinstance(step, Remove):
            made[_goal(step)] = step
        found += _edits(document, step)
    found.sort(key=lambda edit: edit[:2])
    return None if any(one.end >= other.start for one, other in pairwise(found)) else found


def _goal(step: Set | Rename | Move) -> KeyPath:
    """Where something stands after the step."""
    if isinstance(step, Rename):
        return (*step.path[:-1], step.name)
    return step.to if isinstance(step, Move) else step.path


def _steps(operation: Operation) -> tuple[Operation, ...]:
    """Moving a key is adding it there and removing it here; in one section it is renaming it."""
    if not isinstance(operation, Move):
        return (operation,)
    path, to = operation.path, operation.to
    if path[:-1] == to[:-1]:
        return (Rename(path, str(to[-1])),)
    return (operation, Remove(path))


def _edits(document: Document, operation: Operation) -> list[Edit]:
    at = editor(document)
    match operation:
        case Set():
            return at.set(operation.path, operation.value)
        case Remove():
            return at.remove(operation.path)
        case Rename():
            return at.rename(operation.path, operation.name)
        case Move():
            return at.copy(operation.path, operation.to)
        case Replace():
            raise EditError("places in the text and paths cannot be mixed in one fix")


def edited(document: Document, operations: Iterable[Operation]) -> Document:
    """The document after the operations.

    Raises:
        EditError: the text gives no place for them.
    """
    return again(document, apply(document.text, edits(document, Fix("", tuple(operations)))))


def again(document: Document, text: str) -> Document:
    """The document with another text."""
    new = read_text(text, document.name, document.format)
    return new.passed_as_json() if document.is_passed_as_json else new


def carried_out(value: Json, operations: Iterable[Operation]) -> Json:
    """The config's value after the operations. Both paths of a move are those of the config before it.

    Raises:
        KeyError, IndexError, TypeError: an operation is impossible.
    """
    value = copied(value)
    for operation in (step for whole in operations for step in _steps(whole)):
        match operation:
            case Set():
                _put(value, operation.path, copied(operation.value))
            case Remove():
                _take(value, operation.path)
            case Rename():
                _put(value, (*operation.path[:-1], operation.name), _take(value, operation.path))
            case Move():
                _put(value, operation.to, copied(_get(value, operation.path)))
            case Replace():
                pass
    return value


def _put(value: Json, path: KeyPath, item: Json) -> None:
    for part in path[:-1]:
        value = value.setdefault(part, {}) if isinstance(value, dict) else value[part]
    value[path[-1]] = item


def _get(value: Json, path: KeyPath) -> Json:
    for part in path:
        value = value[part]
    return value


def _take(value: Json, path: KeyPath) -> Json:
    for part in path[:-1]:
        value = value[part]
    return value.pop(path[-1])


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same to every reader: true is not 1, but 4.0 is 4."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(map(same, one.values(), [other[key] for key in one]))
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


# From operations on paths to edits of the text. What an edit does not mean stays byte for byte.


class Editor(Protocol):
    """Edits of one text. Each method gives the edits of one operation, or raises `EditError`."""

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Give the key this value; sections on the way to it are made where they are missing."""

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, and with its lines where it has them to itself."""

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`; the first half of moving it."""


@lru_cache(maxsize=1)  # what stands around each entry is found once for all edits of a text
def editor(document: Document) -> Editor:
    """What edits this document.

    Raises:
        EditError: there is no text, or nothing could be read from it.
    """
    if document.is_data or document.root is None:
        raise EditError("there is no text to edit")
    if document.format == "yaml":
        from dsconfig.document.yaml_editor import YamlEditor

        return YamlEditor(document)
    from dsconfig.document.json_editor import JsonEditor

    return JsonEditor(document)
