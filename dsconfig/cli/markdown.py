"""The little Markdown of rule pages, for a terminal: headings and labels, code fenced or inline."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.render.style import Style

_CODE = re.compile(r"`[^`\n]+`")
_LABEL = re.compile(r"[A-Z][a-z]+:")
_FENCE = ("```", "~~~")


def page(text: str, style: Style) -> str:
    """The text as shown; plain where the style has no colour."""
    return "\n".join(_lines(_dedented(text), style)) + "\n"


def _dedented(text: str) -> list[str]:
    """The lines of a docstring, without the indentation of the code around it."""
    from textwrap import dedent

    first, _, rest = text.strip().partition("\n")
    return [first, *dedent(rest).splitlines()] if rest else [first]


def _lines(lines: list[str], style: Style) -> Iterator[str]:
    code = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            code = not code
        elif code:
            yield f"    {line}".rstrip()
        elif line.startswith("#") or _LABEL.fullmatch(line):
            yield style.paint(line.lstrip("# "), "bold")
        else:
            yield _CODE.sub(lambda found: style.paint(found[0], "info"), line.replace("**", ""))
