"""Apply the operations of a fix: to a config's value, and as edits of its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from dsconfig.core.diagnostic import Fix, Move, Operation, Remove, Rename, Replace, Set
from dsconfig.core.json_types import copy_json
from dsconfig.document.document import Document
from dsconfig.document.reader import read_text
from dsconfig.document.text_edit import Edit, EditError, apply, minimal_edit

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Protocol

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.tree import Node


def edits(document: Document, fix: Fix) -> list[Edit]:
    """Return the edits of the text that carry out the fix.

    Raises:
        EditError: the text has no place for it.
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
    return _sequential_edits(document, operations)


def _sequential_edits(document: Document, operations: tuple[Operation, ...]) -> list[Edit]:
    """Apply each operation to the result of the one before."""
    current = document
    try:
        combined = _combined_edits(document, operations)
        if combined is not None:
            return combined
        for operation in operations:
            for step in _steps(operation):
                current = reparse(current, apply(current.text, _edits(current, step)))
    except ValueError as error:
        raise EditError(str(error)) from None
    return _independent_edits(document, operations, current.text) or [
        minimal_edit(document.text, current.text)
    ]


def _independent_edits(document: Document, operations: tuple[Operation, ...], text: str) -> list[Edit]:
    """Return the edits of each operation on the original text, if they give exactly the new text."""
    try:
        changes = [
            edit for operation in operations for step in _steps(operation) for edit in _edits(document, step)
        ]
        return changes if apply(document.text, changes) == text else []
    except ValueError:
        return []


def _combined_edits(document: Document, operations: tuple[Operation, ...]) -> list[Edit] | None:
    """Return the edits of all operations on one text; None if an operation depends on another one.

    Parsing the text again after each operation would cost a thousand parses for a thousand fixes.
    """
    changes: list[Edit] = []
    created: dict[KeyPath, Operation] = {}
    for step in (step for operation in operations for step in _steps(operation)):
        if isinstance(step, Set) and created.get(step.path) == step:
            continue  # a fix may set a duplicated key several times; only the last one counts
        if isinstance(step, Replace) or any(
            step.path[:length] in created for length in range(len(step.path) + 1)
        ):
            return None
        if not isinstance(step, Remove):
            created[_path_after(step)] = step
        changes += _edits(document, step)
    changes.sort(key=lambda edit: edit[:2])
    return None if any(first.end >= second.start for first, second in pairwise(changes)) else changes


def _path_after(step: Set | Rename | Move) -> KeyPath:
    """Return the path of the moved or changed key after the step."""
    if isinstance(step, Rename):
        return (*step.path[:-1], step.name)
    return step.to if isinstance(step, Move) else step.path


def _steps(operation: Operation) -> tuple[Operation, ...]:
    """Split a move into adding and removing a key; within one section it is a rename."""
    if not isinstance(operation, Move):
        return (operation,)
    path, to = operation.path, operation.to
    if path[:-1] == to[:-1]:
        return (Rename(path, str(to[-1])),)
    return (operation, Remove(path))


def _edits(document: Document, operation: Operation) -> list[Edit]:
    text_editor = editor(document)
    match operation:
        case Set():
            return text_editor.set(operation.path, operation.value)
        case Remove():
            return text_editor.remove(operation.path)
        case Rename():
            return text_editor.rename(operation.path, operation.name)
        case Move():
            return text_editor.copy(operation.path, operation.to)
        case Replace():
            raise EditError("a fix cannot mix text replacements and operations on paths")


def apply_operations(document: Document, operations: Iterable[Operation]) -> Document:
    """Return the document after the operations.

    Raises:
        EditError: the text has no place for them.
    """
    return reparse(document, apply(document.text, edits(document, Fix("", tuple(operations)))))


def reparse(document: Document, text: str) -> Document:
    """Parse another text of the same document.

    Raises:
        EditError: it is a program that does not hold the same configs afterwards, or whose text cannot be edited.
    """
    if document.format == "python" or document.reread is not None:
        if document.reread is None:
            raise EditError("the text of this program cannot be edited")
        try:
            return document.reread(text)
        except ValueError as error:
            raise EditError(str(error)) from None
    new = read_text(text, document.name, document.format)
    return new.passed_as_json() if document.is_passed_as_json else new


def apply_to_value(value: Json, operations: Iterable[Operation]) -> Json:
    """Return the config's value after the operations. Both paths of a move refer to the config before it.

    Raises:
        KeyError, IndexError, TypeError: an operation is impossible.
    """
    value = copy_json(value)
    for operation in (step for whole in operations for step in _steps(whole)):
        match operation:
            case Set():
                _set_at(value, operation.path, copy_json(operation.value))
            case Remove():
                _pop_at(value, operation.path)
            case Rename():
                _set_at(value, (*operation.path[:-1], operation.name), _pop_at(value, operation.path))
            case Move():
                _set_at(value, operation.to, copy_json(_get_at(value, operation.path)))
            case Replace():
                pass
    return value


def _set_at(value: Json, path: KeyPath, item: Json) -> None:
    for part in path[:-1]:
        value = value.setdefault(part, {}) if isinstance(value, dict) else value[part]
    value[path[-1]] = item


def _get_at(value: Json, path: KeyPath) -> Json:
    for part in path:
        value = value[part]
    return value


def _pop_at(value: Json, path: KeyPath) -> Json:
    for part in path[:-1]:
        value = value[part]
    return value.pop(path[-1])


def is_equal(left: Json, right: Json) -> bool:
    """Whether two values are equal for every parser: true is not 1, but 4.0 is 4."""
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(
                map(is_equal, left.values(), [right[key] for key in left])
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(left) == len(right) and all(map(is_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


# Editors turn operations on paths into edits of the text. Everything else stays byte for byte.


if TYPE_CHECKING:

    class Editor(Protocol):
        """Edits of one text. Each method returns the edits of one operation, or raises `EditError`."""

        def set(self, path: KeyPath, value: Json) -> list[Edit]:
            """Set the key to a value; create missing sections."""

        def remove(self, path: KeyPath) -> list[Edit]:
            """Remove the entry with its comma, and with its lines if nothing else is on them."""

        def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
            """Remove some of the entries, but not all of the last ones."""

        def rename(self, path: KeyPath, name: str) -> list[Edit]:
            """Rename the key, and keep its style of quotes."""

        def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
            """Add the text of the value at `path` at `to`: the first half of a move."""


@lru_cache(maxsize=1)  # the layout around each entry is computed once for all edits of a text
def editor(document: Document) -> Editor:
    """Return the editor of a document.

    Raises:
        EditError: there is no text, or none of it could be parsed.
    """
    if document.is_data or document.root is None:
        raise EditError("there is no text to edit")
    if document.format == "yaml":
        from dsconfig.document.yaml_editor import YamlEditor

        return YamlEditor(document)
    if document.format == "python":
        from dsconfig.document.python_editor import PythonEditor

        return PythonEditor(document)
    from dsconfig.document.json_editor import JsonEditor

    return JsonEditor(document)
