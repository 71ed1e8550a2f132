"""Render diagnostics in each output format; `FORMATS` lists the formats, one module each."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle

Renderer: TypeAlias = "Callable[[Iterable[FileReport], CheckedReleases, TerminalStyle], Iterator[str]]"

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown")
"""Names of the output formats; each is a module of this package with a function `render`."""
TEXT = FORMATS[:2]
"""Formats for human readers, after which a summary may be printed."""
UTF8 = ("github", "markdown")
"""Formats that GitHub reads as UTF-8, also on Windows; the other formats for programs escape what is not ASCII."""


def renderer(name: str) -> Renderer:
    """Return the renderer for a format: a function that consumes reports one by one and yields text."""
    render: Renderer = import_module(f"dsconfig.render.{name}").render
    return render
