"""An estimate of memory for people and for spreadsheets: a line a term, a column a phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.estimate import Estimate, Side
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.fit_search import Fit
    from dsconfig.resolve.max_search import Largest

GIB = 1 << 30
WIDE, NARROW = 10, 9
"""Of a column; where a line has no place for the key, that stands on the next."""
COLUMNS = ("at_rest", "load", "forward", "backward", "step")


class Limits(NamedTuple):
    """What is there: of a GPU, less a margin, and of a host; None where nobody said."""

    gpu: int | None
    host: int | None
    margin: int

    def hold(self, found: Estimate) -> bool:
        """Whether the upper bounds fit; a limit that is not given holds anything."""
        return self.fits_gpu(found) is not False and self.fits_host(found) is not False

    def fits_gpu(self, found: Estimate) -> bool | None:
        """Whether a rank fits; None where nobody asked."""
        return None if self.gpu is None else found.rank.most_bound + self.margin <= self.gpu

    def fits_host(self, found: Estimate) -> bool | None:
        """Whether the ranks of a host fit; None where nobody asked."""
        return None if self.host is None else found.host.most_bound <= self.host

    def to_dict(self, found: Estimate) -> JsonObject:
        """As JSON has it."""
        return {
            "limits": {
                "gpu": self.gpu,
                "host": self.host,
                "margin": self.margin,
                "gpu_fits": self.fits_gpu(found),
                "host_fits": self.fits_host(found),
            }
        }


def text_lines(found: Estimate, limits: Limits, style: Style) -> Iterator[str]:
    """The table, with what it rests on."""
    millions = f"{found.parameters / 1e6:,.1f}"
    head = f"{millions} million parameters, {found.world_size} ranks, DeepSpeed {found.release}"
    yield style.paint(head, "bold") + "\n\n"
    yield from _table(f"rank {found.number}, GiB", found.rank, style)
    if found.host.most:
        yield "\n"
        yield from _table("host, GiB", found.host, style)
    yield "\n"
    sent = sum(call.sent for call in found.collectives)
    yield f"communication: {sent / GIB:.2f} GiB sent by a rank in a step\n"
    for remark in found.findings:
        yield f"{style.paint('note', 'place')}: `{remark.key}`: {remark.text}\n"
    for line in found.assumptions:
        yield f"{style.paint('assumed', 'dim')}: {line}\n"
    yield from _verdicts(found, limits, style)


def columns_of(side: Side) -> list[str]:
    """At rest, the phases of every run, and those of this one."""
    return [*COLUMNS, *(phase for phase in side.peak if phase not in COLUMNS)]


def _table(title: str, side: Side, style: Style) -> Iterator[str]:
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
    rows = (
        ("GPU", limits.gpu, found.rank.most_bound, limits.fits_gpu(found), limits.margin),
        ("host", limits.host, found.host.most_bound, limits.fits_host(found), 0),
    )
    for name, there, needed, fits, margin in rows:
        if there is not None:
            tone, word = ("good", "fits") if fits else ("error", "does not fit")
            kept = f" + {margin / GIB:.2f} kept free" if margin else ""
            yield f"{name}: {style.paint(word, tone)}: {needed / GIB:.2f} GiB{kept} of {there / GIB:.2f}\n"
    others = max(found.rank.at_rest, *(count for phase, count in found.rank.bound.items() if phase != "load"))
    if limits.fits_gpu(found) is False and others + limits.margin <= (limits.gpu or 0):
        yield "only loading does not fit: at stage 3 a model built in shards does (see --zero-init)\n"


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
    size = _size(limits.gpu or 0)
    kept = f", {_size(limits.margin)} kept free" if limits.margin else ""
    for change, bound, host in found.changes:
        more = f", the host {host / GIB:.2f}" if limits.host is not None else ""
        yield f"{change.told}: at most {bound / GIB:.2f} GiB{more}\n"
    for key in out:
        yield f"take `{key}` out, which nothing reads then\n"
    if consumer:
        yield f"its values no longer show that {consumer} reads it: say so by --consumer {consumer}\n"
    if found.fits:
        how = "with that" if found.changes else "as it is"
        yield f"{style.paint('fits', 'good')} {size} {how}{kept}\n"
    else:
        how = " with all of that" if found.changes else ""
        more = f"{found.ranks} ranks would do" if found.ranks else "more ranks do not help"
        yield f"{style.paint('does not fit', 'error')} {size}{how}{kept}; {more}\n{found.why}\n"


def _size(count: int) -> str:
    """Bytes as people write them; what is small not as 0.00 GiB."""
    if count >= GIB // 100:
        return f"{count / GIB:.2f} GiB"
    return f"{count / (1 << 20):.2f} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def max_lines(found: Largest, room: int, style: Style) -> Iterator[str]:
    """The largest that fits, and what one more would take."""
    size, kind = _size(room), found.kind.replace("-", " ")
    if not found.value or found.bound is None:
        yield f"{style.paint('does not fit', 'error')} {size}, not even with a {kind} of 1\n"
        return
    what = f"a {kind} of {found.value:,}"
    if found.kind == "model":
        what = f"a model of {found.parameters / 1e9:,.2f} billion parameters, {found.value:,} layers"
    yield f"{style.paint(what, 'bold')} fits {size}: at most {found.bound / GIB:.2f} GiB\n"
    if found.next_bound is not None:
        yield f"one more takes up to {found.next_bound / GIB:.2f} GiB\n"
