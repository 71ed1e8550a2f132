"""Read the code cells of Jupyter notebooks, and edit one cell without changing the rest of the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from dsconfig.document.text_edit import TextEdit, apply_edits, smallest_edit

# nbformat 4: https://nbformat.readthedocs.io/en/latest/format_description.html
#
# A cell's `source` is a string, or a list of strings that are joined. A cell is edited inside of these strings, so
# that outputs, metadata, indentation and escapes elsewhere stay byte for byte.

_DECODER = json.JSONDecoder()
_PLAIN = re.compile(r'[^"{}\[\]]*')
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^,\]}\s]*")
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
"""One character of a JSON string in a notebook; a surrogate pair is one character."""


class SourceString(NamedTuple):
    """A JSON string in a cell's source, with the span of its content and its decoded value."""

    start: int
    end: int
    text: str


class NotebookCode(NamedTuple):
    """A code cell of a notebook."""

    notebook: Notebook
    number: int
    """Position among all cells of the notebook, counted from 1."""
    pieces: tuple[SourceString, ...]
    is_list: bool
    """Whether the source of the cell is a list of strings rather than a single string."""

    @property
    def text(self) -> str:
        """The cell's source."""
        return "".join(piece.text for piece in self.pieces)

    def notebook_text_with(self, text: str) -> str:
        """Return the text of the notebook file with this cell's source replaced by `text`."""
        raw, offsets = self.notebook.text, self._character_offsets()
        edits = [
            TextEdit(offsets[each.start], offsets[each.end], self._encode_inserted_text(each.text))
            for each in _line_change_edits(self.text, text)
        ]
        return apply_edits(raw, edits)

    def line_in_file(self, line: int) -> int:
        """Convert a line of the cell to a line of the notebook file; both count from 1."""
        starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        offsets = self._character_offsets()
        at = offsets[min(starts[min(line, len(starts)) - 1], len(offsets) - 1)]
        return self.notebook.text.count("\n", 0, at) + 1

    def _character_offsets(self) -> list[int]:
        """Return the offset in the notebook file of each character of the cell and of its end."""
        offsets: list[int] = []
        for piece in self.pieces:
            raw = self.notebook.text[piece.start : piece.end]
            if len(raw) == len(piece.text):
                offsets += range(piece.start, piece.end)
            else:
                offsets += (piece.start + match.start() for match in _CHARACTER.finditer(raw))
        return [*offsets, self.pieces[-1].end]

    def _encode_inserted_text(self, text: str) -> str:
        """Encode inserted text as JSON; in a list of strings, each line becomes one string."""
        is_ascii = all(self.notebook.text[piece.start : piece.end].isascii() for piece in self.pieces)
        lines = [json.dumps(line, ensure_ascii=is_ascii)[1:-1] for line in text.split("\n")]
        return (f'\\n"{self._string_separator()}"' if self.is_list else "\\n").join(lines)

    def _string_separator(self) -> str:
        """Return the separator of strings in the source list, a comma with an optional line break."""
        for first, second in pairwise(self.pieces):
            return self.notebook.text[first.end + 1 : second.start - 1]
        raw = self.notebook.text[: self.pieces[0].start - 1]
        gap = re.search(r"\s*$", raw)
        return f",{gap[0]}" if gap and gap[0] else ", "


class Notebook:
    """A notebook file and its code cells.

    Raises:
        ValueError: the text is not a notebook.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            data = json.loads(text)
        except RecursionError:
            raise ValueError("it is nested too deep") from None
        if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
            raise ValueError("it has no cells")
        self.cells = tuple(self._parse_code_cells())

    def _parse_code_cells(self) -> Iterator[NotebookCode]:
        root = dict(_object_members(self.text, _SPACE.match(self.text).end()))  # type: ignore[union-attr]
        for index, start in enumerate(_array_items(self.text, root["cells"])):
            members = dict(_object_members(self.text, start)) if self.text[start] == "{" else {}
            kind, source = members.get("cell_type"), members.get("source")
            if kind is None or source is None or not self.text.startswith('"code"', kind):
                continue
            is_list = self.text[source] == "["
            starts = list(_array_items(self.text, source)) if is_list else [source]
            pieces = tuple(self._parse_source_string(at) for at in starts if self.text[at] == '"')
            if pieces and len(pieces) == len(starts):
                yield NotebookCode(self, index + 1, pieces, is_list)

    def _parse_source_string(self, start: int) -> SourceString:
        value, end = _parse_json_string(self.text, start)
        return SourceString(start + 1, end - 1, value)


def _line_change_edits(old: str, new: str) -> Iterator[TextEdit]:
    """Yield edits that turn `old` into `new`, each as small as possible, one per group of changed lines."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    for tag, first, last, new_first, new_last in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            edit = smallest_edit("".join(before[first:last]), "".join(after[new_first:new_last]))
            yield TextEdit(edit.start + starts[first], edit.end + starts[first], edit.text)


# A scanner that finds where values start. `json.loads` has accepted the text before.


def _parse_json_string(text: str, start: int) -> tuple[str, int]:
    """Return the JSON string at an offset, and the offset of its end."""
    value, end = _DECODER.raw_decode(text, start)
    return str(value), end


def _object_members(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the keys of the JSON object at an offset, each with the offset of its value."""
    at = _skip_json_space(text, start + 1)
    while text[at] != "}":
        key, at = _parse_json_string(text, at)
        at = _skip_json_space(text, _skip_json_space(text, at) + 1)
        yield key, at
        at = _skip_json_separator(text, _skip_json_value(text, at))


def _array_items(text: str, start: int) -> Iterator[int]:
    """Yield the offset of each item of the JSON array at an offset."""
    at = _skip_json_space(text, start + 1)
    while text[at] != "]":
        yield at
        at = _skip_json_separator(text, _skip_json_value(text, at))


def _skip_json_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _skip_json_separator(text: str, at: int) -> int:
    at = _skip_json_space(text, at)
    return _skip_json_space(text, at + 1) if text[at] == "," else at


def _skip_json_value(text: str, at: int) -> int:
    """Return the end of the JSON value at an offset."""
    if text[at] == '"':
        return _parse_json_string(text, at)[1]
    if text[at] not in "{[":
        match = _SCALAR.match(text, at)
        return match.end() if match else at
    depth = 0
    while True:
        match = _PLAIN.match(text, at)
        at = match.end() if match else at
        if text[at] == '"':
            at = _parse_json_string(text, at)[1]
            continue
        depth += 1 if text[at] in "{[" else -1
        at += 1
        if not depth:
            return at


# Cells as Python: lines that IPython handles are replaced by text of the same length.

_PYTHON_CELL_MAGICS = frozenset(
    ("time", "timeit", "capture", "prun", "memit", "mprun", "debug", "python", "python3")
)
"""Names of the cell magics whose body is Python code."""
_ASSIGNED_MAGIC = re.compile(r"(\s*[\w., ]+=\s*)([!%].*)", re.DOTALL)


def python_of_cell(text: str) -> str:
    """Convert a cell to Python code of the same length, replacing shell commands and magics with expressions.

    Source: IPython core/inputtransformer2.py.
    """
    stripped = text.lstrip()
    if stripped.startswith("%%"):
        name = re.match(r"%%(\w*)", stripped)
        if name is None or name[1] not in _PYTHON_CELL_MAGICS:
            return _blank_out(text)
        end = len(text) - len(stripped) + len(stripped.partition("\n")[0])
        text = _blank_out(text[:end]) + text[end:]
    lines, is_continued = [], False
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        if is_continued:
            is_continued = body.endswith("\\")
            lines.append(_blank_out(line))
            continue
        is_magic = body.lstrip().startswith(("!", "%", "?")) or body.rstrip().endswith("?")
        is_continued = is_magic and body.endswith("\\")
        assigned = _ASSIGNED_MAGIC.fullmatch(body)
        if is_magic and not body.lstrip().startswith("#"):
            indent = body[: len(body) - len(body.lstrip())]
            word = "pass" if len(body) - len(indent) >= len("pass") else "0"
            body = (indent + word).ljust(len(body))
        elif assigned:
            body = (
                (assigned[1] + "...").ljust(len(body)) if len(assigned[2]) > len("..") else _blank_out(body)
            )
        lines.append(body + line[len(line.rstrip("\r\n")) :])
    return "".join(lines)


def _blank_out(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


# Cells as a shell script: `!command`, `%cd`, `%env`, and cells that a shell runs.

_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script\s+(?:ba)?sh)\b[^\n]*\n?")
_SHELL_LINE = re.compile(r"\s*(?:!|%%?sx\s|%(?=cd\s))(?P<command>.*)", re.DOTALL)
_ENVIRONMENT = re.compile(r"\s*%(?:set_)?env\s+(?P<name>\w+)[= ](?P<value>.*)", re.DOTALL)
_EXPRESSION = re.compile(r"(?<![$\\])\{([^{}\n]*)\}")
"""A Python expression in a command, whose value is known at run time only."""


def shell_of_notebook(text: str) -> str:
    """Return the shell commands of a notebook's cells in order; empty if the text is not a notebook."""
    try:
        cells = Notebook(text).cells
    except ValueError:
        return ""
    return "".join(_shell_of_cell(cell.text) for cell in cells)


def _shell_of_cell(text: str) -> str:
    if match := _SHELL_CELL.match(text):
        return text[match.end() :] + "\n"
    commands, is_continued = "", False
    for line in text.splitlines():
        match, environment = _SHELL_LINE.fullmatch(line), _ENVIRONMENT.fullmatch(line)
        command = line if is_continued else ""
        if not is_continued and match:
            command = match["command"].removeprefix("!")
        elif not is_continued and environment:
            command = f"export {environment['name']}={environment['value']}"
        is_continued = bool(command) and command.endswith("\\")
        if command:
            commands += _EXPRESSION.sub("${NOTEBOOK_VALUE}", command) + "\n"
    return commands
