"""Find the configs in open Python sources and notebook cells."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from dsconfig.document.config_file_names import PYTHON
from dsconfig.launch.python.config_dicts import find_python_configs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsconfig.document import Document
    from dsconfig.lsp.open_documents import OpenDocument

_CELL_SCHEME = "vscode-notebook-cell"
"""URI scheme of the cells of an open notebook, which editors send as separate documents."""


_MENTIONS = re.compile(
    r"(?i)deepspeed|zero_optimization|train_(?:micro_)?batch|gradient_acc|\bds_?\w*(?:config|cfg)"
)
"""Words of which every Python source with a config contains one, to skip the many others that an editor opens."""


def is_python_document(text: OpenDocument) -> bool:
    """Return whether a document is a Python source or a Python cell of a notebook."""
    return text.language == "python" or text.name.lower().endswith(PYTHON)


def configs_in_document(
    text: OpenDocument, texts: Iterable[OpenDocument], source: str | None = None
) -> list[Document]:
    """Return the configs in a program, which for a notebook cell consists of all open cells.

    `source`: text to use instead of the one in the editor.
    """
    source = text.text if source is None else source
    if not _MENTIONS.search(source):
        return []
    notebook = _notebook_of_cell(text)
    if notebook is None:
        return [each.document for each in find_python_configs(source, text.name)]
    cells = [each for each in texts if _notebook_of_cell(each) == notebook and is_python_document(each)]
    data = [{"cell_type": "code", "source": source if each.uri == text.uri else each.text} for each in cells]
    number = next(index for index, each in enumerate(cells, 1) if each.uri == text.uri)
    configs = find_python_configs(json.dumps({"cells": data}), notebook)
    return [each.document for each in configs if each.document.cell and each.document.cell.number == number]


def _notebook_of_cell(text: OpenDocument) -> str | None:
    """Return the path of the notebook to which a cell belongs, or None for other documents."""
    parts = urlsplit(text.uri)
    return unquote(parts.path) if parts.scheme == _CELL_SCHEME else None
