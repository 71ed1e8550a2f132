"""Render the Markdown of rule pages on a terminal: headings, labels, fenced and inline code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.render.terminal_style import TerminalStyle, wrap_line

_CODE = re.compile(r"`[^`\n]+`")
_LABEL = re.compile(r"[A-Z][a-z]+:")
_FENCE = ("```", "~~~")
_ENTRY = re.compile(r"\s*(?:[-*]|\d+\.)\s+|\s+")
_ALONE = re.compile(r"\s*(?:[-*]|\d+\.)\s|#|\||[A-Z][a-z]+:$")


def render_markdown(text: str, style: TerminalStyle) -> str:
    """Render Markdown for a terminal, or as plain text if the style has no colors."""
    lines = dedent_docstring(text)
    return "\n".join(_render_lines(_join_paragraph_lines(lines) if style.wraps else lines, style)) + "\n"


def _join_paragraph_lines(lines: list[str]) -> list[str]:
    """Join the lines of each paragraph and list item, so that they can be rewrapped."""
    joined: list[str] = []
    code = False
    for line in lines:
        fence = line.lstrip().startswith(_FENCE)
        alone = code or fence or not line or not joined or not joined[-1] or _ALONE.match(line)
        if alone or _LABEL.fullmatch(joined[-1]) or joined[-1].lstrip().startswith(_FENCE):
            joined.append(line)
        else:
            joined[-1] += " " + line.strip()
        code ^= fence
    return joined


def dedent_docstring(text: str) -> list[str]:
    """Return the lines of a docstring without the code's indentation."""
    from textwrap import dedent

    first, _, rest = text.strip().partition("\n")
    return [first, *dedent(rest).splitlines()] if rest else [first]


def _render_lines(lines: list[str], style: TerminalStyle) -> Iterator[str]:
    code = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            code = not code
        elif code:
            yield f"    {line}".rstrip()
        elif line.startswith("#") or _LABEL.fullmatch(line):
            yield style.paint(line.lstrip("# "), "bold")
        else:
            text = _CODE.sub(lambda match: style.paint(match[0], "info"), line.replace("**", ""))
            entry = _ENTRY.match(line)
            yield wrap_line(text, style, entry.end() if entry else 0)
