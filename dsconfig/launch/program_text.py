"""Read Python programs as text: source files, and notebooks whose code cells form one module."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from dsconfig.document.config_file_names import is_notebook_name
from dsconfig.document.notebook import Notebook, NotebookCode, python_of_cell

MAX_SIZE = 512 * 1024
"""Programs with more characters than this are not searched for configs."""
_WRITEFILE = re.compile(r"\s*%%writefile[ \t]+(?:-a[ \t]+)?(?P<path>\S+)[ \t]*\n")


_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh)\b")
_HERE_DOCUMENT = re.compile(
    r"^[ \t]*cat[ \t]*(?:>[ \t]*(?P<before>\S+)[ \t]*)?<<[ \t]*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[ \t]*"
    r"(?:>[ \t]*(?P<behind>\S+)[ \t]*)?\n(?P<body>(?:(?!(?P=word)$).*\n)*)(?P=word)$",
    re.MULTILINE,
)


class UnreadableProgramError(ValueError):
    """Raised if a program cannot be read; the message is a clause with the reason."""


class NotebookWrittenFile(NamedTuple):
    """A file that a notebook writes, with `%%writefile` or a here-document in a shell cell."""

    path: str
    cell: NotebookCode
    start: int
    """Offset in the cell at which the text of the written file starts."""
    end: int


class ProgramText(NamedTuple):
    """The Python source of a program, with the notebook cells from which it was joined."""

    text: str
    cells: tuple[tuple[int, NotebookCode], ...] = ()
    """The cells of a notebook with their offsets in the text; empty for a source file."""
    written: tuple[NotebookWrittenFile, ...] = ()

    def cell_at(self, offset: int) -> tuple[int, NotebookCode | None]:
        """Return the start offset and content of the cell at an offset, or (0, None) for a source file."""
        return next((each for each in reversed(self.cells) if each[0] <= offset), (0, None))


def decode_python_source(data: bytes) -> tuple[str, bool]:
    """Decode a source file as Python does, and return whether it can be written back as UTF-8.

    Raises:
        UnreadableProgramError: the encoding is unknown or does not fit the bytes.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode("utf-8" if encoding == "utf-8-sig" else encoding)
    except (SyntaxError, LookupError, UnicodeDecodeError) as error:
        raise UnreadableProgramError(f"its encoding cannot be read ({error})") from None
    return text, encoding.startswith("utf-8") or text.isascii()


def read_program_text(text: str, name: str) -> ProgramText:
    """Return the Python text of a source file or notebook.

    Raises:
        UnreadableProgramError: the program is too large or is not a valid notebook.
    """
    if not is_notebook_name(name):
        program = ProgramText(text)
    else:
        try:
            program = _join_code_cells(Notebook(text))
        except ValueError as error:
            raise UnreadableProgramError(f"it is not a valid notebook ({error})") from None
    if len(program.text) > MAX_SIZE:
        raise UnreadableProgramError(f"it is larger than {MAX_SIZE // 1024} KiB")
    return program


def _join_code_cells(notebook: Notebook) -> ProgramText:
    """Join the code cells of a notebook as if they ran from top to bottom."""
    parts: list[str] = []
    cells: list[tuple[int, NotebookCode]] = []
    written: list[NotebookWrittenFile] = []
    at = 0
    for cell in notebook.cells:
        text = cell.text
        if match := _WRITEFILE.match(text):
            written.append(NotebookWrittenFile(match["path"].strip("'\""), cell, match.end(), len(text)))
        if _SHELL_CELL.match(text):
            written += _here_documents(cell, text)
        cells.append((at, cell))
        parts.append(_blank_non_python_cell(text))
        at += len(text) + 1
    return ProgramText("\n".join(parts), tuple(cells), tuple(written))


def _here_documents(cell: NotebookCode, text: str) -> Iterator[NotebookWrittenFile]:
    """Yield the files that a shell cell of a notebook writes as here-documents without variables."""
    for match in _HERE_DOCUMENT.finditer(text):
        if "$" not in match["body"] and "`" not in match["body"]:
            yield NotebookWrittenFile(
                (match["before"] or match["behind"] or "").strip("'\""), cell, *match.span("body")
            )


def _blank_non_python_cell(text: str) -> str:
    """Return the code of a cell, or blanks of the same length if it is not valid Python."""
    for code in (text, python_of_cell(text)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return code
    return re.sub(r"[^\r\n]", " ", text)
