"""Render a memory estimate as text, CSV or a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.memory import WORST_FIRST, RequestedLimits
from dsconfig.render.matplotlib_output import render_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dsconfig.core.gpu_memory import GpuMemory
    from dsconfig.memory import Estimate, FittingChanges, MemoryUsage, UnmodeledSetting, Verdict
    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.memory_fit import LargestFit, StageTableCell, StageTableRow


# Text and CSV: one line per term, one column per phase.

GIB = 1 << 30
WIDE, NARROW = 10, 9
"""Column widths; the narrow one applies if the key goes on its own line."""
TONES: Mapping[str, str] = {"fits": "good", "tight": "warning", "does not fit": "error", "unknown": "warning"}
VERDICTS: Mapping[str, str] = {
    "fits": "Fits",
    "tight": "Tight",
    "does not fit": "Does NOT fit",
    "unknown": "Unknown",
}
ASSUMED = "fits, assumed"
"""Word in the table of stages for a cell that is tight only because an input is not given."""
CHECKPOINTING = ("no checkpointing", "checkpointing")
"""Columns of the table of stages."""
COLUMNS = ("at_rest", "load", "forward", "backward", "step")


UNLIMITED = RequestedLimits()


def estimate_lines(
    estimate: Estimate, style: TerminalStyle, limits: RequestedLimits = UNLIMITED
) -> Iterator[str]:
    """Yield the lines of an estimate: table, assumptions and verdicts."""
    yield from _verdict_lines(estimate, limits, style)
    millions = f"{estimate.parameters / 1e6:,.1f}"
    yield f"{millions} million parameters, {estimate.world_size} ranks, DeepSpeed {estimate.release}\n\n"
    yield from _table_lines(f"rank {estimate.number}, GiB", estimate.rank, style)
    if estimate.host.highest_peak:
        yield "\n"
        yield from _table_lines("host, GiB", estimate.host, style)
    yield "\n"
    yield from _expected_usage_lines(estimate, limits)
    sent_bytes = sum(call.sent for call in estimate.collectives)
    yield f"communication: {sent_bytes / GIB:.2f} GiB sent per rank and step\n"
    for remark in estimate.findings:
        yield f"{style.paint('note', 'place')}: `{remark.key}`: {remark.text}\n"
    yield from _unmodeled_setting_lines(estimate.unmodelled, style)
    for line in estimate.assumptions:
        yield f"{style.paint('assumed', 'dim')}: {line}\n"


def _expected_usage_lines(estimate: Estimate, limits: RequestedLimits) -> Iterator[str]:
    """Yield the usage that `nvidia-smi` is expected to show, and its components."""
    usage = estimate.device
    if usage is None:
        return
    allocated, bound = usage.allocated / GIB, usage.bound / GIB
    cached = max(0, usage.unlimited.reserved - usage.bound) / GIB
    terms = [f"{allocated:.2f} to {bound:.2f} allocated"]
    if cached:
        less = max(0, usage.expandable.reserved - usage.bound) / GIB
        hint = "" if usage.is_expandable else f" ({less:.2f} with `expandable_segments`)"
        least = min(cached, usage.cached_at_least / GIB)
        terms.append(f"{least:.2f} to {cached:.2f} cached blocks and fragmentation{hint}")
    terms += [f"{term.low / GIB:.2f} to {term.high / GIB:.2f} {term.name}" for term in usage.overheads]
    yield f"expected in nvidia-smi: {_format_expected_usage(estimate, limits)}: {', '.join(terms)}\n"


def _format_expected_usage(estimate: Estimate, limits: RequestedLimits) -> str:
    """Describe the usage that `nvidia-smi` is expected to show."""
    usage = estimate.device
    assert usage is not None
    capacity = limits.gpu.most if limits.gpu else None
    low, high = usage.low(capacity), usage.high(capacity)
    return f"{low / GIB:.1f} to {high / GIB:.1f} GiB"


# Table of stages and offloads, for a model without a config.


def stage_table_lines(
    rows: Sequence[StageTableRow], limits: RequestedLimits, style: TerminalStyle
) -> Iterator[str]:
    """Yield the verdict, then one line per stage and offload with the expected usage in GiB."""
    first = next(cell.estimate for row in rows for cell in row.cells if cell.estimate)
    gpu, count = limits.gpu, sum(cell.verdict(limits) == "fits" for row in rows for cell in row.cells)
    if gpu is not None:
        size = f"{gpu.least / GIB:.2f} GiB" + (f" ({gpu.name})" if gpu.name else "")
        word = best_stage_verdict(rows, limits) or "unknown"
        text = f"{count} of {sum(len(row.cells) for row in rows)} variants fit {size}"
        estimates = [cell.estimate for row in rows for cell in row.cells if cell.estimate]
        if more := sum(map(limits.fits_as_assumed, estimates)):
            text += f", {more} more with what is assumed below"
        yield f"{style.paint(VERDICTS[word], TONES[word])}: {text}\n"
    run = f"{first.world_size} GPUs, DeepSpeed {first.release}, bf16"
    yield f"{first.parameters / 1e6:,.1f} million parameters, {run}\n\n"
    columns = max(len(row.cells) for row in rows)
    names = CHECKPOINTING if columns > 1 else ("GPU",)
    cells = "".join(f"  {name:<29}" for name in names)
    header = f"{'stage':<7}{'offload to CPU':<24}{cells}{'host':>8}"
    if columns > 1 and style.wraps and len(header) > style.width:
        yield from _narrow_stage_table(rows, limits, style)
    else:
        yield style.paint(header, "dim") + "\n"
        for row in rows:
            shown = "".join(f"  {_format_stage_cell(cell, limits, style)}" for cell in row.cells)
            padding = " " * 31 * (columns - len(row.cells))
            yield f"{row.stage:<7}{row.offload or '-':<24}{shown}{padding}{_host_gib(row.cells):>8.1f}\n"
    yield "\nGiB of a GPU as expected in nvidia-smi, and of a host with its ranks\n"
    yield from _unmodeled_setting_lines(first.unmodelled, style)
    yield from (f"{each.key} is not known: {each.text}\n" for each in first.assumed if "rank" in each.raises)
    for line in first.assumptions:
        # The rows differ in these.
        if not line.startswith(("activations are", "the model is built", "the script passes")):
            yield f"{style.paint('assumed', 'dim')}: {line}\n"


def _narrow_stage_table(
    rows: Sequence[StageTableRow], limits: RequestedLimits, style: TerminalStyle
) -> Iterator[str]:
    """Yield the table for 80 columns, with separate lines for a stage and offload with and without checkpointing."""
    header = f"{'ZeRO':<6}{'offload to CPU':<23}{'checkpointing':<15}{'GPU':<29}"
    yield style.paint(f"{header}{'host':>7}", "dim") + "\n"
    for row in rows:
        for cell, checkpointing in zip(row.cells, ("no", "yes"), strict=False):
            variant = f"{row.stage:<6}{row.offload or '-':<23}{checkpointing:<15}"
            yield f"{variant}{_format_stage_cell(cell, limits, style)}{_host_gib([cell]):>7.1f}\n"


def _host_gib(cells: Sequence[StageTableCell]) -> float:
    """Return the largest host memory among some cells, in GiB."""
    return max((cell.estimate.host.upper_bound for cell in cells if cell.estimate), default=0) / GIB


def best_stage_verdict(rows: Sequence[StageTableRow], limits: RequestedLimits) -> Verdict | None:
    """Return the best verdict of all rows, or None without limits."""
    verdicts = {cell.verdict(limits) for row in rows for cell in row.cells}
    return next((word for word in reversed(WORST_FIRST) if word in verdicts), None)


def _format_stage_cell(cell: StageTableCell, limits: RequestedLimits, style: TerminalStyle) -> str:
    """Format the memory range and verdict of a cell in 29 columns."""
    if cell.estimate is None:
        return f"{'no estimate':<29}"
    verdict = cell.verdict(limits)
    usage = cell.estimate.device
    text = f"{usage.low() / GIB:.1f} to {usage.high() / GIB:.1f}" if usage else ""
    is_assumed = limits.fits_as_assumed(cell.estimate)
    word = f"{ASSUMED if is_assumed else verdict or '':<13}"
    return f"{text:<16}" + (style.paint(word, TONES[verdict]) if verdict else word)


def table_columns(side: MemoryUsage) -> list[str]:
    """Return the columns of a table: `at rest`, then one per phase."""
    return [*COLUMNS, *(phase for phase in side.peak if phase not in COLUMNS)]


def _table_lines(title: str, side: MemoryUsage, style: TerminalStyle) -> Iterator[str]:
    width = max(len(title), *(len(term.name) for term in side.terms), len("upper bound"))
    columns = table_columns(side)
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


def _verdict_lines(estimate: Estimate, limits: RequestedLimits, style: TerminalStyle) -> Iterator[str]:
    """Yield the verdicts for GPU and host with the deciding assumption, or the expected usage without a GPU."""
    rank, host = limits.verdicts(estimate)
    gpu, margin = limits.gpu, limits.margin
    if rank is not None and gpu is not None:
        word, name = style.paint(VERDICTS[rank], TONES[rank]), f" ({gpu.name})" if gpu.name else ""
        size, needed = f"{gpu.least / GIB:.2f} GiB{name}", estimate.rank.upper_bound
        if margin is None:
            yield f"{word}: {_format_expected_usage(estimate, limits)} expected in nvidia-smi; the GPU has {size}\n"
        else:
            total = (
                f" + {margin / GIB:.2f} GiB headroom = {(needed + margin) / GIB:.2f} GiB" if margin else ""
            )
            yield f"{word}: needs {needed / GIB:.2f} GiB{total}; the GPU has {size}\n"
        yield from _deciding_assumption(estimate, limits)
    elif estimate.device is not None:
        yield (
            style.paint(f"{_format_expected_usage(estimate, limits)} expected in nvidia-smi", "bold")
            + "; --gpu says whether it fits\n"
        )
        yield from (
            f"{each.key} is not known: {each.text}\n" for each in estimate.assumed if "rank" in each.raises
        )
    if host is not None:
        word, size = style.paint(VERDICTS[host], TONES[host]), f"{(limits.host or 0) / GIB:.2f} GiB"
        yield f"{word}: needs {estimate.host.upper_bound / GIB:.2f} GiB; the host has {size}\n"
        if host == "unknown" and estimate.host.upper_bound > (limits.host or 0):
            yield from (f"{each.key}: {each.text}\n" for each in estimate.assumed if "host" in each.lowers)


def _deciding_assumption(estimate: Estimate, limits: RequestedLimits) -> Iterator[str]:
    """Yield the assumption that decides the verdict for the GPU, if any."""
    verdict, gpu = limits.gpu_verdict(estimate), limits.gpu
    assert gpu is not None
    needed = estimate.rank.upper_bound + (
        estimate.device.overhead[1] if limits.margin is None and estimate.device else limits.margin or 0
    )
    if verdict.word == "unknown" and gpu.least < needed <= gpu.most:
        large_enough = [card for card, size in gpu.cards if size >= needed]
        too_small = [card for card, size in gpu.cards if size < needed]
        large, small = " and ".join(large_enough), " and ".join(too_small)
        yield f"{large} would be large enough, {small} would not: name the card\n"
    elif verdict.reason:
        yield (
            "it fits with what is assumed below, but " if verdict.is_assumed else ""
        ) + f"{verdict.reason}\n"
    elif verdict.word == "unknown" and estimate.unmodelled:
        yield "settings that are not estimated decide whether it fits\n"
    bounds = (count for phase, count in estimate.rank.bound.items() if phase != "load")
    other_phases = max(estimate.rank.at_rest, *bounds)
    if (
        verdict.word in ("does not fit", "tight")
        and needed > gpu.least >= other_phases + needed - estimate.rank.upper_bound
    ):
        yield "only loading does not fit; at stage 3 a model built with zero.Init does (see --zero-init)\n"


def csv_lines(estimate: Estimate) -> Iterator[str]:
    """Yield one CSV line for each memory, term and phase."""
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
    fit: FittingChanges,
    limits: RequestedLimits,
    style: TerminalStyle,
    removed_keys: Sequence[str] = (),
    consumer: str | None = None,
) -> Iterator[str]:
    """Yield the changes one by one, each with the memory that a rank may need after it.

    `removed_keys` are the keys that have no effect after the changes. `consumer` is the consumer to set explicitly.
    """
    size = _describe_gpu(limits.gpu)
    for change, bound, host in fit.changes:
        host_part = f", host up to {host / GIB:.2f} GiB" if limits.host is not None else ""
        yield f"{change.description}: up to {bound / GIB:.2f} GiB{host_part}\n"
    for key in removed_keys:
        yield f"remove `{key}`, which nothing reads any more\n"
    if consumer:
        yield f"{consumer} is no longer auto-detected as the consumer: pass --consumer {consumer}\n"
    yield from _unmodeled_setting_lines(fit.unmodelled, style)
    expected, reason = f", with {_format_bytes(limits.margin)} headroom" if limits.margin else "", ""
    if fit.estimate is not None and limits.gpu is not None:
        reason = limits.gpu_verdict(fit.estimate).reason
        if limits.margin is None and fit.estimate.device is not None:
            expected = f"; {_format_expected_usage(fit.estimate, limits)} expected in nvidia-smi"
    if fit.verdict == "unknown":
        word = "fits" if fit.fits else "does not fit"
        unknown = style.paint("unknown", "warning")
        yield f"{unknown}: without the settings that are not estimated, it {word} {size}{expected}\n"
    elif fit.fits:
        how = "with these changes" if fit.changes else "without changes"
        how += "" if fit.verdict == "fits" else ", as assumed"
        yield f"{style.paint('fits', TONES[fit.verdict])} {size} {how}{expected}\n"
        if reason:
            yield f"{reason}\n"
    if not fit.fits:
        how = " with all these changes" if fit.changes else ""
        ranks = f"{fit.ranks} ranks would fit" if fit.ranks else "more ranks do not help"
        yield f"{_failure(fit.verdict, style)} {size}{how}{expected}; {ranks}\n"
        yield from (f"{line}\n" for line in (reason, fit.reason) if line)


def _failure(verdict: Verdict, style: TerminalStyle) -> str:
    """Return the phrase for a verdict of not fitting, or of possibly not fitting."""
    if verdict == "tight":
        return style.paint("tight", TONES["tight"]) + ": does not surely fit"
    return style.paint("does not fit", "error")


def _unmodeled_setting_lines(settings: Sequence[UnmodeledSetting], style: TerminalStyle) -> Iterator[str]:
    """Yield the list of settings that are not estimated."""
    for each in settings:
        yield f"{style.paint('not estimated', 'warning')}: `{each.key}`: {each.text}\n"


def _describe_gpu(gpu: GpuMemory | None) -> str:
    """Return the name and memory of a GPU as a phrase."""
    return _format_bytes(gpu.least if gpu else 0) + (f" ({gpu.name})" if gpu and gpu.name else "")


def _format_bytes(count: int) -> str:
    """Format a number of bytes, in a unit that is small enough to not show 0.00."""
    if count >= GIB // 100:
        return f"{count / GIB:.2f} GiB"
    return f"{count / (1 << 20):.2f} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def largest_fit_lines(largest: LargestFit, gpu: GpuMemory, style: TerminalStyle) -> Iterator[str]:
    """Yield the largest value that fits, and the memory that the next larger value may need."""
    size, noun = _describe_gpu(gpu), largest.kind.replace("-", " ")
    yield from _unmodeled_setting_lines(largest.unmodelled, style)
    if largest.verdict == "unknown":
        yield f"{style.paint('unknown', 'warning')}: settings that are not estimated decide, and are left out here\n"
    if not largest.value or largest.bound is None:
        yield f"{_failure(largest.verdict, style)} {size}, not even with a {noun} of 1\n"
        if largest.reason:
            yield f"{largest.reason}\n"
        return
    what = f"a {noun} of {largest.value:,}"
    if largest.kind == "model":
        what = f"a model of {largest.parameters / 1e9:,.2f} billion parameters, {largest.value:,} layers"
    yield f"{style.paint(what, 'bold')} fits {size}: up to {largest.bound / GIB:.2f} GiB\n"
    if largest.next_bound is not None:
        yield f"the next larger one needs up to {largest.next_bound / GIB:.2f} GiB\n"
    if largest.verdict == "tight":
        yield f"that is assumed: {largest.reason}\n"


# Chart: one bar per phase, one color per term.

COLORS = (
    *("#1f4e79", "#2e75b6", "#9dc3e6", "#7f6000", "#bf9000", "#ffd966", "#375623", "#70ad47", "#a9d18e"),
    *("#843c0c", "#c55a11", "#f4b183", "#7030a0", "#b889db", "#7f7f7f", "#bfbfbf", "#c0392b", "#e6b8af"),
)


def draw_chart(estimate: Estimate, gpu: int | None, suffix: str) -> bytes:
    """Draw the estimate as SVG or PNG, with a line for the GPU's memory.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        sides = [("rank", estimate.rank, gpu)] + (
            [("host", estimate.host, None)] if estimate.host.highest_peak else []
        )
        rows = figure.subplots(len(sides), 1, squeeze=False)
        for axes, (name, side, limit) in zip(rows[:, 0], sides, strict=True):
            _draw_bars(axes, f"{name} {estimate.number}" if name == "rank" else "host", side, limit)

    return render_figure(draw, suffix)


def _draw_bars(axes: Axes, title: str, side: MemoryUsage, limit: int | None) -> None:
    """Draw stacked bars; terms below 1 % of the highest peak have no label."""
    columns = table_columns(side)
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
