"""MkDocs hook that lets sentences of terminal output wrap, while source lines with marks and tables keep columns."""

from __future__ import annotations

import re

_BLOCK = re.compile(r'(<div class="language-(?:console|text) highlight">.*?<code>)(.*?)(</code>)', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_COLUMNS = re.compile(r"^ *(?:\d+ )?\||\S {2,}\S")
"""The gutter of a source line and its mark, or a row of columns."""


def on_page_content(html: str, **_: object) -> str:
    """Mark the lines of each block of output."""
    return _BLOCK.sub(lambda match: match[1] + _mark_lines(match[2]) + match[3], html)


def _mark_lines(code: str) -> str:
    """Put each line into an element; a line with columns gets the class that keeps it on one line."""
    lines = code.splitlines(keepends=True)
    if any(line.count("<span") != line.count("</span>") for line in lines):
        return code
    return "".join(
        f'<span class="{"columns" if _COLUMNS.search(_TAG.sub("", line)) else "sentence"}">{line}</span>'
        for line in lines
    )
