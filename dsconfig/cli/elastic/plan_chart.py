"""A plan as a picture: how each world size makes up the batch, and what the other sizes lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.render.matplotlib_output import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dsconfig.cli.handoff.plan_table import Table
    from elastic.planning.plan import Plan

_DARK, _LIGHT, _LOST = "#1f4e79", "#9dc3e6", "#c0392b"
_MOST = 20_000
"""Sizes drawn one by one."""


def chart(table: Table, suffix: str) -> bytes:
    """The picture as SVG or PNG, the same bytes for the same table. Imports matplotlib.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        _rows(above, table)
        _lost(below, table)

    return picture(draw, suffix)


def _rows(axes: Axes, table: Table) -> None:
    """Samples of one rank a step: micro batch, times accumulation."""
    rows = [size.row for size in table.sizes if size.row]
    sizes = [row.world_size for row in rows]
    axes.vlines(sizes, 0.5, [row.micro_batch_size for row in rows], color=_DARK, lw=2, label="micro batch")
    axes.vlines(
        sizes,
        [row.micro_batch_size for row in rows],
        [row.micro_batch_size * row.accumulation_steps for row in rows],
        color=_LIGHT,
        lw=2,
        label="× accumulation steps",
    )
    axes.set_yscale("log")
    axes.set_ylabel("samples a rank and step")
    axes.set_title(f"{table.plan.batch_size} samples a step on {len(table.admitted)} world sizes", loc="left")
    axes.legend(loc="upper right", frameon=False)


def _lost(axes: Axes, table: Table) -> None:
    """What share of the ranks is idle at each size, admissible or not."""
    plans = [(table.plan, _LOST, "-", "heuristic" if table.exact else "idle ranks")]
    if table.exact is not None:
        plans.append((table.exact, _DARK, "--", "exact"))
    shown = [size.world_size for size in table.sizes]
    first, last = (min(shown), max(shown)) if shown else (1, 1)
    sizes = range(first, last + 1, max(1, (last - first) // _MOST))
    for plan, color, line, label in plans:
        lost = [100 * _idle(plan, size) for size in sizes]
        axes.plot(sizes, lost, line, color=color, lw=1, label=label, drawstyle="steps-mid")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("throughput lost (%)")
    axes.set_xlabel("data-parallel ranks")
    axes.legend(loc="upper right", frameon=False)


def _idle(plan: Plan, size: int) -> float:
    runs_at = size if plan.admits(size) else plan.next_down(size) or 0
    return 1 - runs_at / size
