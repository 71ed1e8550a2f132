"""Renderers of diagnostics; `FORMATS` lists the output formats, each a module of this package."""

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


def renderer(name: str) -> Renderer:
    """Return the renderer of a format, which consumes reports as they come and yields text to be written at once."""
    render: Renderer = import_module(f"dsconfig.render.{name}").render
    return render
