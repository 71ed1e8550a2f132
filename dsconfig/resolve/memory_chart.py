"""An estimate of memory as a picture: a bar for each phase, a colour for each term."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.render.matplotlib_output import picture
from dsconfig.resolve.memory_text import GIB, columns_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dsconfig.memory.estimate import Estimate, Side

COLORS = (
    *("#1f4e79", "#2e75b6", "#9dc3e6", "#7f6000", "#bf9000", "#ffd966", "#375623", "#70ad47", "#a9d18e"),
    *("#843c0c", "#c55a11", "#f4b183", "#7030a0", "#b889db", "#7f7f7f", "#bfbfbf", "#c0392b", "#e6b8af"),
)


def stacks(found: Estimate, gpu: int | None, suffix: str) -> bytes:
    """The picture as SVG or PNG; a line at the memory of a GPU, where that is known.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        sides = [("rank", found.rank, gpu)] + ([("host", found.host, None)] if found.host.most else [])
        rows = figure.subplots(len(sides), 1, squeeze=False)
        for axes, (name, side, limit) in zip(rows[:, 0], sides, strict=True):
            _bars(axes, f"{name} {found.number}" if name == "rank" else "host", side, limit)

    return picture(draw, suffix)


def _bars(axes: Axes, title: str, side: Side, limit: int | None) -> None:
    """Bars from left to right; what is a hundredth of the highest at most has no name."""
    columns = columns_of(side)
    names = [column.replace("_", " ") for column in columns]
    left = [0.0] * len(columns)
    for index, term in enumerate(side.terms):
        widths = [term.phases.get(column, 0) / GIB for column in columns]
        label = term.name if term.bytes * 100 >= side.most else None
        axes.barh(names, widths, left=left, color=COLORS[index % len(COLORS)], label=label)
        left = [at + width for at, width in zip(left, widths, strict=True)]
    bounds = [
        max(side.at_rest if column == "at_rest" else side.bound.get(column, 0), 0) for column in columns
    ]
    axes.plot([count / GIB for count in bounds], names, "k|", markersize=14, label="at most")
    if limit is not None:
        axes.axvline(limit / GIB, color="#c0392b", lw=1, ls="--", label="the GPU")
    axes.invert_yaxis()
    axes.set_xlabel("GiB")
    axes.set_title(title, loc="left")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
