"""Render plots as deterministic SVG or PNG."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def render_figure(draw: Callable[[Figure], None], suffix: str) -> bytes:
    """Return an image of the figure that `draw` fills, rendered with matplotlib.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    metadata: dict[str, str | None] = {"Date": None} if suffix == ".svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "dsconfig", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 6), layout="constrained")
        draw(figure)
        text = io.BytesIO()
        figure.savefig(text, format=suffix.lstrip("."), dpi=144, metadata=metadata)
    return text.getvalue()
