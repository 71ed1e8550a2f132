"""The Markdown of generated pages: front matter, fences, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence


def page(title: str, description: str, *parts: str, more: str = "") -> str:
    """A page: what search engines and cards show of it, its heading, its parts. `more` is front matter."""
    told = json.dumps(plain(description), ensure_ascii=False)
    front = f"---\ntitle: {json.dumps(plain(title), ensure_ascii=False)}\ndescription: {told}\n{more}---\n"
    return f"{front}\n# {title}\n\n" + "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def plain(text: str) -> str:
    """The text without backticks, on one line, and without anchor, and quoted as an attribute may be."""
    return " ".join(re.sub(r" \{ #.*\}$", "", text).replace("`", "").replace('"', "'").split())


def fence(text: str, language: str = "text", title: str = "") -> str:
    """A fenced block, whose fence is longer than any in the text."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * max(3, longest + 1)
    shown = f' title="{title}"' if title else ""
    return f"{ticks}{language}{shown}\n{text.rstrip()}\n{ticks}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty where there are no rows."""
    lines = [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines])


def cell(text: str) -> str:
    """A text as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)
