"""A plan's table, for people and for machines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from dsconfig.cli.handoff.plan_table import PlannedSize, Table
    from dsconfig.render.terminal import Style

FORMATS = ("table", "json", "csv")
VERSION = 1


def render(table: Table, name: str, style: Style) -> Iterator[str]:
    """The table in the format of this name."""
    yield from {"table": _table, "json": _json, "csv": _csv}[name](table, style)


def _table(table: Table, style: Style) -> Iterator[str]:
    plan, exact = table.plan, table.exact
    block = plan.block
    sizes = _count(len(plan.rows), "admissible world size")
    kind = "heuristic: " if exact else ""
    yield style.paint(f"{kind}{plan.batch_size} samples a step, {sizes}", "bold")
    micro_batches = ", ".join(map(str, block.micro_batch_sizes))
    yield f" (cap {block.max_train_batch_size}, micro batches {micro_batches})\n"
    if exact is not None:
        both = len(table.exact_admitted), len(table.admitted)
        yield style.paint(f"exact: {exact.batch_size} samples a step", "bold")
        yield f" admits {both[0]} of the {_count(len(table.sizes), 'size')} below, the heuristic {both[1]}\n"
    for note in plan.notes:
        yield f"note: {note}\n"
    rows = [_cells(table, size) for size in table.sizes]
    heads = _heads(table)
    widths = [max(len(text) for text in column) for column in zip(heads, *rows, strict=True)]
    yield "\n" + style.paint(_aligned(heads, widths), "bold") + "\n"
    for size, cells in zip(table.sizes, rows, strict=True):
        text = _aligned(cells, widths)
        yield f"{text if size.row else style.paint(text, 'dim')}"
        yield "\n" if size.row else f"  {size.reason}\n"


def _heads(table: Table) -> list[str]:
    heads = ["world size", "GPUs", "nodes", "micro batch", "steps"]
    return [*heads, *(["exact micro", "steps"] if table.exact else []), "idle"]


def _cells(table: Table, size: PlannedSize) -> list[str]:
    cells: list[object] = [size.world_size, size.gpus, size.nodes]
    for row in (size.row, size.exact) if table.exact else (size.row,):
        cells += (row.micro_batch_size, row.accumulation_steps) if row else ("-", "-")
    return [*map(str, cells), "" if size.row else f"{size.lost:.0%}"]


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _json(table: Table, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    document = {
        "version": VERSION,
        "batch_size": table.plan.batch_size,
        "world_sizes": table.plan.world_sizes,
        "semantics": table.plan.semantics.name,
        "block": table.plan.block.as_dict(),
        "exact_batch_size": table.exact.batch_size if table.exact else None,
        "rows": [_record(size) for size in table.sizes],
    }
    yield as_json(document, indent=2) + "\n"


def _record(size: PlannedSize) -> dict[str, object]:
    return {
        "world_size": size.world_size,
        "gpus": size.gpus,
        "nodes": size.nodes,
        "admissible": size.row is not None,
        "micro_batch_size": size.row.micro_batch_size if size.row else None,
        "accumulation_steps": size.row.accumulation_steps if size.row else None,
        "batch_size": size.row.batch_size if size.row else None,
        "exact_micro_batch_size": size.exact.micro_batch_size if size.exact else None,
        "exact_accumulation_steps": size.exact.accumulation_steps if size.exact else None,
        "reason": size.reason,
        "runs_at": size.runs_at,
        "lost": round(size.lost, 6),
    }


def _csv(table: Table, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    text = io.StringIO()
    records = [_record(size) for size in table.sizes]
    writer = csv.DictWriter(text, records[0] if records else ["world_size"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    yield text.getvalue()
