"""Markdown of generated pages: front matter, fenced blocks, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence


def page(title: str, description: str, *parts: str, more: str = "") -> str:
    """A page with front matter, heading and parts.

    Args:
        title: the heading, which may end in an anchor.
        description: the summary that search engines and link previews show.
        parts: Markdown of the page; empty parts are omitted.
        more: additional front matter.
    """
    summary = json.dumps(plain(description), ensure_ascii=False)
    front = f"---\ntitle: {json.dumps(plain(title), ensure_ascii=False)}\ndescription: {summary}\n{more}---\n"
    heading = title.replace("][", "]\\[")  # `[…][…]` of an error message would be a reference link
    return (
        f"{front}\n# {heading}\n\n" + "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
    )


def plain(text: str) -> str:
    """The text on one line, without backticks, anchor and double quotes."""
    return " ".join(re.sub(r" \{ #.*\}$", "", text).replace("`", "").replace('"', "'").split())


def fence(text: str, language: str = "text", title: str = "") -> str:
    """A fenced block; its fence is longer than any fence in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * max(3, longest + 1)
    title_attribute = f' title="{title}"' if title else ""
    return f"{ticks}{language}{title_attribute}\n{text.rstrip()}\n{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; an empty string if there are no rows."""
    lines = [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines])


def cell(text: str) -> str:
    """The text escaped for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def bullets(lines: Iterable[str]) -> str:
    """A bullet list."""
    return "\n".join(f"- {line}" for line in lines)
