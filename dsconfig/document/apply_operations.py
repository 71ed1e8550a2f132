"""Apply the operations of a fix to a config's value, or to the text of its document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from dsconfig.core.diagnostic import Fix, MoveKey, Operation, RemoveKey, RenameKey, ReplaceText, SetValue
from dsconfig.core.json_types import copy_json
from dsconfig.document.document import Document
from dsconfig.document.read_document import read_text
from dsconfig.document.text_edit import EditError, TextEdit, apply_edits, smallest_edit

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Protocol

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.located_tree import TreeNode


def edits_for_fix(document: Document, fix: Fix) -> list[TextEdit]:
    """Return the text edits that apply a fix to a document.

    Raises:
        EditError: the fix cannot be applied to the text.
    """
    try:
        match fix.operations:
            case (SetValue() | RemoveKey() | RenameKey() as only,):
                return _edits_for_operation(document, only)
            case operations:
                replaced = [
                    TextEdit(o.start, o.end, o.text) for o in operations if isinstance(o, ReplaceText)
                ]
                if len(replaced) == len(operations):
                    return replaced
    except ValueError as error:
        raise EditError(str(error)) from None
    return _sequential_edits(document, operations)


def _sequential_edits(document: Document, operations: tuple[Operation, ...]) -> list[TextEdit]:
    """Return edits that apply the operations one after the other."""
    current, text = document, document.text
    try:
        combined = _combined_edits(document, operations)
        if combined is not None:
            return combined
        for operation in operations:
            for step in _split_operation(operation):
                if text != current.text:
                    current = reparse_document(current, text)
                text = apply_edits(text, _edits_for_operation(current, step))
    except ValueError as error:
        raise EditError(str(error)) from None
    return _independent_edits(document, operations, text) or [smallest_edit(document.text, text)]


def _independent_edits(document: Document, operations: tuple[Operation, ...], text: str) -> list[TextEdit]:
    """Return edits of the original text, one set per operation, or nothing if they do not produce `text`."""
    try:
        changes = [
            edit
            for operation in operations
            for step in _split_operation(operation)
            for edit in _edits_for_operation(document, step)
        ]
        return changes if apply_edits(document.text, changes) == text else []
    except ValueError:
        return []


def _combined_edits(document: Document, operations: tuple[Operation, ...]) -> list[TextEdit] | None:
    """Return the edits of all operations on one text, or None if one operation depends on another.

    Parsing the text again after each operation would cost a thousand parses for a thousand fixes.
    """
    changes: list[TextEdit] = []
    created: dict[KeyPath, Operation] = {}
    for step in (step for operation in operations for step in _split_operation(operation)):
        if isinstance(step, SetValue) and created.get(step.path) == step:
            continue  # a fix may set a duplicated key several times; only the last one counts
        if isinstance(step, ReplaceText) or any(
            step.path[:length] in created for length in range(len(step.path) + 1)
        ):
            return None
        if not isinstance(step, RemoveKey):
            created[_path_after_operation(step)] = step
        changes += _edits_for_operation(document, step)
    changes.sort(key=lambda edit: edit[:2])
    return None if any(first.end >= second.start for first, second in pairwise(changes)) else changes


def _path_after_operation(step: SetValue | RenameKey | MoveKey) -> KeyPath:
    """Return the path that the changed, renamed or moved key has after the operation."""
    if isinstance(step, RenameKey):
        return (*step.path[:-1], step.name)
    return step.to if isinstance(step, MoveKey) else step.path


def _split_operation(operation: Operation) -> tuple[Operation, ...]:
    """Split a move into removing and adding a key; a move within a section becomes a rename."""
    if not isinstance(operation, MoveKey):
        return (operation,)
    path, to = operation.path, operation.to
    if path[:-1] == to[:-1]:
        return (RenameKey(path, str(to[-1])),)
    return (operation, RemoveKey(path))


def _edits_for_operation(document: Document, operation: Operation) -> list[TextEdit]:
    text_editor = editor_for_document(document)
    match operation:
        case SetValue():
            return text_editor.set_value(operation.path, operation.value)
        case RemoveKey():
            return text_editor.remove_entry(operation.path)
        case RenameKey():
            return text_editor.rename_key(operation.path, operation.name)
        case MoveKey():
            return text_editor.copy_value(operation.path, operation.to)
        case ReplaceText():
            raise EditError("a fix cannot mix text replacements and operations on paths")


def apply_operations(document: Document, operations: Iterable[Operation]) -> Document:
    """Apply operations to a document, and return the result as a new document.

    Raises:
        EditError: an operation cannot be applied to the text.
    """
    return reparse_document(
        document, apply_edits(document.text, edits_for_fix(document, Fix("", tuple(operations))))
    )


def reparse_document(document: Document, text: str) -> Document:
    """Parse `text` as a new version of the document.

    Raises:
        EditError: the document is part of a program whose text cannot be edited, or that no longer contains the same
            configs.
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


def apply_operations_to_value(value: Json, operations: Iterable[Operation]) -> Json:
    """Apply operations to a config's value; both paths of a move refer to the original config.

    Raises:
        KeyError, IndexError, TypeError: an operation cannot be applied to the value.
    """
    value = copy_json(value)
    for operation in (step for whole in operations for step in _split_operation(whole)):
        match operation:
            case SetValue():
                _set_value_at_path(value, operation.path, copy_json(operation.value))
            case RemoveKey():
                _pop_value_at_path(value, operation.path)
            case RenameKey():
                _set_value_at_path(
                    value, (*operation.path[:-1], operation.name), _pop_value_at_path(value, operation.path)
                )
            case MoveKey():
                _set_value_at_path(value, operation.to, copy_json(_get_value_at_path(value, operation.path)))
            case ReplaceText():
                pass
    return value


def _set_value_at_path(value: Json, path: KeyPath, item: Json) -> None:
    for part in path[:-1]:
        value = value.setdefault(part, {}) if isinstance(value, dict) else value[part]
    value[path[-1]] = item


def _get_value_at_path(value: Json, path: KeyPath) -> Json:
    for part in path:
        value = value[part]
    return value


def _pop_value_at_path(value: Json, path: KeyPath) -> Json:
    for part in path[:-1]:
        value = value[part]
    return value.pop(path[-1])


def are_equal_for_parsers(left: Json, right: Json) -> bool:
    """Return whether every parser considers two values equal: 4.0 equals 4, but true does not equal 1."""
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(
                map(are_equal_for_parsers, left.values(), [right[key] for key in left])
            )
        case ((list() | tuple()), (list() | tuple())):
            return len(left) == len(right) and all(map(are_equal_for_parsers, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


# Editors turn operations on paths into edits of the text. Everything else stays byte for byte.


if TYPE_CHECKING:

    class TextEditor(Protocol):
        """Editor of a text; each method returns the edits for an operation, or raises `EditError`."""

        def set_value(self, path: KeyPath, value: Json) -> list[TextEdit]:
            """Set the key at a path to a value, creating missing sections."""

        def remove_entry(self, path: KeyPath) -> list[TextEdit]:
            """Remove the entry at a path with its comma, and its lines if nothing else is on them."""

        def remove_entries(self, parent: TreeNode, indexes: Sequence[int]) -> list[TextEdit]:
            """Remove several entries by index; at least one of the last entries must be kept."""

        def rename_key(self, path: KeyPath, name: str) -> list[TextEdit]:
            """Rename the key at a path, keeping its quotation marks."""

        def copy_value(self, path: KeyPath, to: KeyPath) -> list[TextEdit]:
            """Copy the value at `path`, as spelled in the text, to the path `to`."""


@lru_cache(maxsize=1)  # the layout around each entry is computed once for all edits of a text
def editor_for_document(document: Document) -> TextEditor:
    """Return the text editor for a document's format.

    Raises:
        EditError: the document has no text, or none of its text could be parsed.
    """
    if document.is_data or document.root is None:
        raise EditError("there is no text to edit")
    if document.format == "yaml":
        from dsconfig.document.yaml_editor import YamlEditor

        return YamlEditor(document)
    if document.format == "python":
        from dsconfig.document.python_source import PythonEditor

        return PythonEditor(document)
    from dsconfig.document.json_editor import JsonEditor

    return JsonEditor(document)
