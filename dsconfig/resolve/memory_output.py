"""Output of a memory estimate: text for people and spreadsheets, and a chart."""

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


# An estimate of memory for people and for spreadsheets: a line a term, a column a phase.

GIB = 1 << 30
WIDE, NARROW = 10, 9
"""Of a column; where a line has no place for the key, that stands on the next."""
TONES: Mapping[str, str] = {"fits": "good", "does not fit": "error", "unknown": "warning"}
COLUMNS = ("at_rest", "load", "forward", "backward", "step")


class Limits(NamedTuple):
    """What is there: of a GPU, less a margin, and of a host; None where nobody said."""

    gpu: Gpu | None
    host: int | None
    margin: int

    def verdicts(self, found: Estimate) -> tuple[Verdict | None, Verdict | None]:
        """Whether a rank and the ranks of a host fit, by their upper bounds; None where nobody asked."""
        gpu, host = self.gpu, self.host
        return (
            None if gpu is None else found.verdict("rank", gpu.least, gpu.most, self.margin),
            None if host is None else found.verdict("host", host),
        )

    def to_dict(self, found: Estimate) -> JsonObject:
        """As JSON has it; `gpu_fits` and `host_fits` are null, too, where that is not known."""
        rank, host = self.verdicts(found)
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


def text_lines(found: Estimate, limits: Limits, style: Style) -> Iterator[str]:
    """The table, with what it rests on."""
    millions = f"{found.parameters / 1e6:,.1f}"
    head = f"{millions} million parameters, {found.world_size} ranks, DeepSpeed {found.release}"
    yield style.paint(head, "bold") + "\n\n"
    yield from _table(f"rank {found.number}, GiB", found.rank, style)
    if found.host.highest_peak:
        yield "\n"
        yield from _table("host, GiB", found.host, style)
    yield "\n"
    sent = sum(call.sent for call in found.collectives)
    yield f"communication: {sent / GIB:.2f} GiB sent by a rank in a step\n"
    for remark in found.findings:
        yield f"{style.paint('note', 'place')}: `{remark.key}`: {remark.text}\n"
    yield from _unmodelled(found.unmodelled, style)
    for line in found.assumptions:
        yield f"{style.paint('assumed', 'dim')}: {line}\n"
    yield from _verdicts(found, limits, style)


def columns_of(side: MemoryUsage) -> list[str]:
    """At rest, the phases of every run, and those of this one."""
    return [*COLUMNS, *(phase for phase in side.peak if phase not in COLUMNS)]


def _table(title: str, side: MemoryUsage, style: Style) -> Iterator[str]:
    width = max(len(title), *(len(term.name) for term in side.terms), len("at most"))
    columns = columns_of(side)
    longest = max((len(term.key) for term in side.terms), default=0)
    narrow = style.wraps and width + WIDE * len(columns) + 2 + longest > style.width
    wide, gap = (NARROW, "\n  ") if narrow else (WIDE, "  ")

    def row(name: str, counts: Mapping[str, int]) -> str:
        cells = (f"{counts[column] / GIB:.2f}" if counts.get(column) else "-" for column in columns)
        return f"{name:<{width}}" + "".join(f"{cell:>{wide}}" for cell in cells)

    names = "".join(f"{column.replace('_', ' '):>{wide}}" for column in columns)
    yield style.paint(f"{title:<{width}}{names}{gap}governed by", "dim") + "\n"
    for term in side.terms:
        yield f"{row(term.name, term.phases)}{gap}{style.paint(term.key, 'place')}\n"
    yield style.paint(row("together", {"at_rest": side.at_rest, **side.peak}), "bold") + "\n"
    yield row("at most", side.bound) + "\n"


def _verdicts(found: Estimate, limits: Limits, style: Style) -> Iterator[str]:
    rank, host = limits.verdicts(found)
    least = limits.gpu.least if limits.gpu else 0
    name = f" ({limits.gpu.name})" if limits.gpu and limits.gpu.name else ""
    rows = (
        ("GPU", rank, found.rank.upper_bound, limits.margin, f"{least / GIB:.2f}{name}"),
        ("host", host, found.host.upper_bound, 0, f"{(limits.host or 0) / GIB:.2f}"),
    )
    for side, fits, needed, margin, there in rows:
        if fits is not None:
            kept = f" + {margin / GIB:.2f} kept free" if margin else ""
            yield f"{side}: {style.paint(fits, TONES[fits])}: {needed / GIB:.2f} GiB{kept} of {there}\n"
    yield from _why_unknown(found, limits)
    others = max(found.rank.at_rest, *(count for phase, count in found.rank.bound.items() if phase != "load"))
    if rank == "does not fit" and others + limits.margin <= least:
        yield "only loading does not fit: at stage 3 a model built in shards does (see --zero-init)\n"


def _why_unknown(found: Estimate, limits: Limits) -> Iterator[str]:
    """What decides, where nobody can say whether it fits."""
    rank, host = limits.verdicts(found)
    needed, gpu = found.rank.upper_bound + limits.margin, limits.gpu
    if rank == "unknown" and gpu is not None and gpu.least < needed <= gpu.most:
        holding = [card for card, size in gpu.cards if size >= needed]
        others = [card for card, size in gpu.cards if size < needed]
        yield f"{' and '.join(holding)} would hold it, {' and '.join(others)} would not: name the card\n"
    if "unknown" in (rank, host) and found.unmodelled:
        yield "what is not supported yet decides whether it fits\n"
    if host == "unknown" and found.host.upper_bound > (limits.host or 0):
        yield from (f"{each.key}: {each.text}\n" for each in found.assumed)


def csv_lines(found: Estimate) -> Iterator[str]:
    """A line for each memory, term and phase."""
    yield "memory,term,phase,bytes,key,formula\n"
    for name, side in (("rank", found.rank), ("host", found.host)):
        for term in side.terms:
            for phase, count in term.phases.items():
                yield f'{name},"{term.name}",{phase},{count},{term.key},"{term.formula}"\n'
        for phase, count in {"at_rest": side.at_rest, **side.peak}.items():
            yield f"{name},together,{phase},{count},,\n"
        for phase, count in side.bound.items():
            yield f"{name},at most,{phase},{count},,\n"


def fit_lines(
    found: Fit, limits: Limits, style: Style, out: Sequence[str] = (), consumer: str | None = None
) -> Iterator[str]:
    """The changes one after the other, with what a rank holds at most after each, and its host.

    Of the config with them: `out` are keys that nothing reads then, `consumer` is who is to be named as its
    reader.
    """
    size = _gpu(limits.gpu)
    kept = f", {_size(limits.margin)} kept free" if limits.margin else ""
    for change, bound, host in found.changes:
        more = f", the host {host / GIB:.2f}" if limits.host is not None else ""
        yield f"{change.description}: at most {bound / GIB:.2f} GiB{more}\n"
    for key in out:
        yield f"take `{key}` out, which nothing reads then\n"
    if consumer:
        yield f"its values no longer show that {consumer} reads it: say so by --consumer {consumer}\n"
    yield from _unmodelled(found.unmodelled, style)
    if found.verdict == "unknown":
        word = "fits" if found.fits else "does not fit"
        yield f"{style.paint('unknown', 'warning')}: by what is modelled, it {word} {size}{kept}\n"
    elif found.fits:
        how = "with that" if found.changes else "as it is"
        yield f"{style.paint('fits', 'good')} {size} {how}{kept}\n"
    if not found.fits:
        how = " with all of that" if found.changes else ""
        more = f"{found.ranks} ranks would do" if found.ranks else "more ranks do not help"
        yield f"{style.paint('does not fit', 'error')} {size}{how}{kept}; {more}\n{found.reason}\n"


def _unmodelled(settings: Sequence[UnmodeledSetting], style: Style) -> Iterator[str]:
    """What of the job is not in the numbers."""
    for each in settings:
        yield f"{style.paint('not modelled', 'warning')}: `{each.key}`: {each.text}\n"


def _gpu(gpu: Gpu | None) -> str:
    """The memory of a GPU, and the name by which it was asked for."""
    return _size(gpu.least if gpu else 0) + (f" ({gpu.name})" if gpu and gpu.name else "")


def _size(count: int) -> str:
    """Bytes as people write them; what is small not as 0.00 GiB."""
    if count >= GIB // 100:
        return f"{count / GIB:.2f} GiB"
    return f"{count / (1 << 20):.2f} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def max_lines(found: Largest, gpu: Gpu, style: Style) -> Iterator[str]:
    """The largest that fits, and what one more would take."""
    size, kind = _gpu(gpu), found.kind.replace("-", " ")
    yield from _unmodelled(found.unmodelled, style)
    if found.verdict == "unknown":
        yield f"{style.paint('unknown', 'warning')}: what is not supported yet decides, and this leaves it out\n"
    if not found.value or found.bound is None:
        yield f"{style.paint('does not fit', 'error')} {size}, not even with a {kind} of 1\n"
        return
    what = f"a {kind} of {found.value:,}"
    if found.kind == "model":
        what = f"a model of {found.parameters / 1e9:,.2f} billion parameters, {found.value:,} layers"
    yield f"{style.paint(what, 'bold')} fits {size}: at most {found.bound / GIB:.2f} GiB\n"
    if found.next_bound is not None:
        yield f"one more takes up to {found.next_bound / GIB:.2f} GiB\n"


# An estimate of memory as a picture: a bar for each phase, a colour for each term.

COLORS = (
    *("#1f4e79", "#2e75b6", "#9dc3e6", "#7f6000", "#bf9000", "#ffd966", "#375623", "#70ad47", "#a9d18e"),
    *("#843c0c", "#c55a11", "#f4b183", "#7030a0", "#b889db", "#7f7f7f", "#bfbfbf", "#c0392b", "#e6b8af"),
)


def draw_chart(found: Estimate, gpu: int | None, suffix: str) -> bytes:
    """The picture as SVG or PNG; a line at the memory of a GPU, where that is known.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        sides = [("rank", found.rank, gpu)] + (
            [("host", found.host, None)] if found.host.highest_peak else []
        )
        rows = figure.subplots(len(sides), 1, squeeze=False)
        for axes, (name, side, limit) in zip(rows[:, 0], sides, strict=True):
            _bars(axes, f"{name} {found.number}" if name == "rank" else "host", side, limit)

    return picture(draw, suffix)


def _bars(axes: Axes, title: str, side: MemoryUsage, limit: int | None) -> None:
    """Bars from left to right; what is a hundredth of the highest at most has no name."""
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
    axes.plot([count / GIB for count in bounds], names, "k|", markersize=14, label="at most")
    if limit is not None:
        axes.axvline(limit / GIB, color="#c0392b", lw=1, ls="--", label="the GPU")
    axes.invert_yaxis()
    axes.set_xlabel("GiB")
    axes.set_title(title, loc="left")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
