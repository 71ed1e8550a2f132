"""Output of a memory estimate: text, CSV, and a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.render.matplotlib_output import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dsconfig.core.gpu_memory import Gpu
    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.estimate import Estimate, MemoryUsage
    from dsconfig.memory.verdict import UnmodeledSetting, Verdict
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.fit_search import Fit
    from dsconfig.resolve.max_search import Largest


# Text and CSV: one line per term, one column per phase.

GIB = 1 << 30
WIDE, NARROW = 10, 9
"""Column widths; the narrow one applies if the key goes on its own line."""
TONES: Mapping[str, str] = {"fits": "good", "does not fit": "error", "unknown": "warning"}
VERDICTS: Mapping[str, str] = {"fits": "Fits", "does not fit": "Does NOT fit", "unknown": "Unknown"}
COLUMNS = ("at_rest", "load", "forward", "backward", "step")


class Limits(NamedTuple):
    """Memory of a GPU minus a margin, and of a host; None if not given."""

    gpu: Gpu | None
    host: int | None
    margin: int

    def verdicts(self, estimate: Estimate) -> tuple[Verdict | None, Verdict | None]:
        """Verdicts on a rank and a host, by upper bounds; None if no limit is given."""
        gpu, host = self.gpu, self.host
        return (
            None if gpu is None else estimate.verdict("rank", gpu.least, gpu.most, self.margin),
            None if host is None else estimate.verdict("host", host),
        )

    def to_dict(self, estimate: Estimate) -> JsonObject:
        """The limits as JSON; `gpu_fits` and `host_fits` are null if the verdict is unknown."""
        rank, host = self.verdicts(estimate)
        fits: dict[str | None, bool] = {"fits": True, "does not fit": False}
        return {
            "limits": {
                "gpu": self.gpu and self.gpu.least,
                "gpu_name": (self.gpu and self.gpu.name) or None,
                "host": self.host,
                "margin": self.margin,
                "gpu_fits": fits.get(rank),
                "host_fits": fits.get(host),
                "gpu_verdict": rank,
                "host_verdict": host,
            }
        }


def text_lines(estimate: Estimate, limits: Limits, style: Style) -> Iterator[str]:
    """The table, assumptions, and verdicts."""
    millions = f"{estimate.parameters / 1e6:,.1f}"
    summary = f"{millions} million parameters, {estimate.world_size} ranks, DeepSpeed {estimate.release}"
    yield style.paint(summary, "bold") + "\n\n"
    yield from _table(f"rank {estimate.number}, GiB", estimate.rank, style)
    if estimate.host.highest_peak:
        yield "\n"
        yield from _table("host, GiB", estimate.host, style)
    yield "\n"
    sent_bytes = sum(call.sent for call in estimate.collectives)
    yield f"communication: {sent_bytes / GIB:.2f} GiB sent per rank and step\n"
    for remark in estimate.findings:
        yield f"{style.paint('note', 'place')}: `{remark.key}`: {remark.text}\n"
    yield from _unmodelled(estimate.unmodelled, style)
    for line in estimate.assumptions:
        yield f"{style.paint('assumed', 'dim')}: {line}\n"
    yield from _verdicts(estimate, limits, style)


def columns_of(side: MemoryUsage) -> list[str]:
    """Columns of a table: at rest, then the phases."""
    return [*COLUMNS, *(phase for phase in side.peak if phase not in COLUMNS)]


def _table(title: str, side: MemoryUsage, style: Style) -> Iterator[str]:
    width = max(len(title), *(len(term.name) for term in side.terms), len("upper bound"))
    columns = columns_of(side)
    longest = max((len(term.key) for term in side.terms), default=0)
    wraps = style.wraps and width + WIDE * len(columns) + 2 + longest > style.width
    wide, gap = (NARROW, "\n  ") if wraps else (WIDE, "  ")

    def row(name: str, counts: Mapping[str, int]) -> str:
        cells = (f"{counts[column] / GIB:.2f}" if counts.get(column) else "-" for column in columns)
        return f"{name:<{width}}" + "".join(f"{cell:>{wide}}" for cell in cells)

    names = "".join(f"{column.replace('_', ' '):>{wide}}" for column in columns)
    yield style.paint(f"{title:<{width}}{names}{gap}config key", "dim") + "\n"
    for term in side.terms:
        yield f"{row(term.name, term.phases)}{gap}{style.paint(term.key, 'place')}\n"
    yield style.paint(row("total", {"at_rest": side.at_rest, **side.peak}), "bold") + "\n"
    yield row("upper bound", side.bound) + "\n"


def _verdicts(estimate: Estimate, limits: Limits, style: Style) -> Iterator[str]:
    rank, host = limits.verdicts(estimate)
    least = limits.gpu.least if limits.gpu else 0
    name = f" ({limits.gpu.name})" if limits.gpu and limits.gpu.name else ""
    rows = (
        ("GPU", rank, estimate.rank.upper_bound, limits.margin, f"{least / GIB:.2f} GiB{name}"),
        ("host", host, estimate.host.upper_bound, 0, f"{(limits.host or 0) / GIB:.2f} GiB"),
    )
    for side, verdict, needed, margin, available in rows:
        if verdict is not None:
            total = (
                f" + {margin / GIB:.2f} GiB headroom = {(needed + margin) / GIB:.2f} GiB" if margin else ""
            )
            word = style.paint(VERDICTS[verdict], TONES[verdict])
            yield f"{word}: needs {needed / GIB:.2f} GiB{total}; the {side} has {available}\n"
    yield from _why_unknown(estimate, limits)
    bounds = (count for phase, count in estimate.rank.bound.items() if phase != "load")
    other_phases = max(estimate.rank.at_rest, *bounds)
    if rank == "does not fit" and other_phases + limits.margin <= least:
        yield "only loading does not fit; at stage 3 a model built with zero.Init does (see --zero-init)\n"


def _why_unknown(estimate: Estimate, limits: Limits) -> Iterator[str]:
    """Explain an unknown verdict."""
    rank, host = limits.verdicts(estimate)
    needed, gpu = estimate.rank.upper_bound + limits.margin, limits.gpu
    if rank == "unknown" and gpu is not None and gpu.least < needed <= gpu.most:
        large_enough = [card for card, size in gpu.cards if size >= needed]
        too_small = [card for card, size in gpu.cards if size < needed]
        large, small = " and ".join(large_enough), " and ".join(too_small)
        yield f"{large} would be large enough, {small} would not: name the card\n"
    if "unknown" in (rank, host) and estimate.unmodelled:
        yield "settings that are not estimated decide whether it fits\n"
    if host == "unknown" and estimate.host.upper_bound > (limits.host or 0):
        yield from (f"{each.key}: {each.text}\n" for each in estimate.assumed)


def csv_lines(estimate: Estimate) -> Iterator[str]:
    """One line per memory, term and phase."""
    yield "memory,term,phase,bytes,key,formula\n"
    for name, side in (("rank", estimate.rank), ("host", estimate.host)):
        for term in side.terms:
            for phase, count in term.phases.items():
                yield f'{name},"{term.name}",{phase},{count},{term.key},"{term.formula}"\n'
        for phase, count in {"at_rest": side.at_rest, **side.peak}.items():
            yield f"{name},total,{phase},{count},,\n"
        for phase, count in side.bound.items():
            yield f"{name},upper bound,{phase},{count},,\n"


def fit_lines(
    fit: Fit, limits: Limits, style: Style, removed_keys: Sequence[str] = (), consumer: str | None = None
) -> Iterator[str]:
    """The changes one by one, with the upper bounds after each.

    `removed_keys`: keys that nothing reads any more. `consumer`: the consumer to set explicitly.
    """
    size = _gpu(limits.gpu)
    headroom = f", with {_size(limits.margin)} headroom" if limits.margin else ""
    for change, bound, host in fit.changes:
        host_part = f", host up to {host / GIB:.2f} GiB" if limits.host is not None else ""
        yield f"{change.description}: up to {bound / GIB:.2f} GiB{host_part}\n"
    for key in removed_keys:
        yield f"remove `{key}`, which nothing reads any more\n"
    if consumer:
        yield f"{consumer} is no longer auto-detected as the consumer: pass --consumer {consumer}\n"
    yield from _unmodelled(fit.unmodelled, style)
    if fit.verdict == "unknown":
        word = "fits" if fit.fits else "does not fit"
        unknown = style.paint("unknown", "warning")
        yield f"{unknown}: without the settings that are not estimated, it {word} {size}{headroom}\n"
    elif fit.fits:
        how = "with these changes" if fit.changes else "without changes"
        yield f"{style.paint('fits', 'good')} {size} {how}{headroom}\n"
    if not fit.fits:
        how = " with all these changes" if fit.changes else ""
        host_part = f"{fit.ranks} ranks would fit" if fit.ranks else "more ranks do not help"
        yield f"{style.paint('does not fit', 'error')} {size}{how}{headroom}; {host_part}\n{fit.reason}\n"


def _unmodelled(settings: Sequence[UnmodeledSetting], style: Style) -> Iterator[str]:
    """List the settings that are not estimated."""
    for each in settings:
        yield f"{style.paint('not estimated', 'warning')}: `{each.key}`: {each.text}\n"


def _gpu(gpu: Gpu | None) -> str:
    """Memory and name of a GPU."""
    return _size(gpu.least if gpu else 0) + (f" ({gpu.name})" if gpu and gpu.name else "")


def _size(count: int) -> str:
    """Format bytes for people; small sizes are not shown as 0.00 GiB."""
    if count >= GIB // 100:
        return f"{count / GIB:.2f} GiB"
    return f"{count / (1 << 20):.2f} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def max_lines(largest: Largest, gpu: Gpu, style: Style) -> Iterator[str]:
    """The largest value that fits, and the usage of the next larger one."""
    size, noun = _gpu(gpu), largest.kind.replace("-", " ")
    yield from _unmodelled(largest.unmodelled, style)
    if largest.verdict == "unknown":
        yield f"{style.paint('unknown', 'warning')}: settings that are not estimated decide, and are left out here\n"
    if not largest.value or largest.bound is None:
        yield f"{style.paint('does not fit', 'error')} {size}, not even with a {noun} of 1\n"
        return
    what = f"a {noun} of {largest.value:,}"
    if largest.kind == "model":
        what = f"a model of {largest.parameters / 1e9:,.2f} billion parameters, {largest.value:,} layers"
    yield f"{style.paint(what, 'bold')} fits {size}: up to {largest.bound / GIB:.2f} GiB\n"
    if largest.next_bound is not None:
        yield f"the next larger one needs up to {largest.next_bound / GIB:.2f} GiB\n"


# Chart: one bar per phase, one color per term.

COLORS = (
    *("#1f4e79", "#2e75b6", "#9dc3e6", "#7f6000", "#bf9000", "#ffd966", "#375623", "#70ad47", "#a9d18e"),
    *("#843c0c", "#c55a11", "#f4b183", "#7030a0", "#b889db", "#7f7f7f", "#bfbfbf", "#c0392b", "#e6b8af"),
)


def draw_chart(estimate: Estimate, gpu: int | None, suffix: str) -> bytes:
    """Draw the estimate as SVG or PNG, with a line at the memory of the GPU.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        sides = [("rank", estimate.rank, gpu)] + (
            [("host", estimate.host, None)] if estimate.host.highest_peak else []
        )
        rows = figure.subplots(len(sides), 1, squeeze=False)
        for axes, (name, side, limit) in zip(rows[:, 0], sides, strict=True):
            _bars(axes, f"{name} {estimate.number}" if name == "rank" else "host", side, limit)

    return picture(draw, suffix)


def _bars(axes: Axes, title: str, side: MemoryUsage, limit: int | None) -> None:
    """Draw stacked bars; terms below 1 % of the highest peak have no label."""
    columns = columns_of(side)
    names = [column.replace("_", " ") for column in columns]
    left = [0.0] * len(columns)
    for index, term in enumerate(side.terms):
        widths = [term.phases.get(column, 0) / GIB for column in columns]
        label = term.name if term.bytes * 100 >= side.highest_peak else None
        axes.barh(names, widths, left=left, color=COLORS[index % len(COLORS)], label=label)
        left = [at + width for at, width in zip(left, widths, strict=True)]
    bounds = [
        max(side.at_rest if column == "at_rest" else side.bound.get(column, 0), 0) for column in columns
    ]
    axes.plot([count / GIB for count in bounds], names, "k|", markersize=14, label="upper bound")
    if limit is not None:
        axes.axvline(limit / GIB, color="#c0392b", lw=1, ls="--", label="the GPU")
    axes.invert_yaxis()
    axes.set_xlabel("GiB")
    axes.set_title(title, loc="left")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
