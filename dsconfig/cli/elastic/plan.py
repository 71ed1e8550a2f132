"""`dsconfig elastic plan`: show the world sizes that an `elasticity` block admits, as a table or a plot."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color_option, add_config_argument, parse_world_size, set_exit_codes
from dsconfig.cli.command_inputs import read_config_document, write_output_file
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error, print_error
from dsconfig.cli.output_files import NEEDS_MATPLOTLIB, plot_suffix
from dsconfig.render.machine_readable import dump_json
from dsconfig.render.matplotlib_output import render_figure
from elastic import constants as c
from elastic.planning.plan import Plan, plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.render.terminal_style import TerminalStyle
    from elastic.deepspeed.release_behavior import ElasticitySemantics
    from elastic.planning.plan import PlanRow


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig elastic plan` to its parser."""
    parser.set_defaults(run=run)
    add_config_argument(parser)
    which = parser.add_argument_group("sizes", "SIZES: for example 8,16 or 8:64 or 8:64:8")
    add = which.add_mutually_exclusive_group().add_argument
    add("--nodes", type=parse_world_sizes, metavar="SIZES", help="show these numbers of nodes")
    add("--world-sizes", type=parse_world_sizes, metavar="SIZES", help="show these data-parallel sizes")
    add = which.add_argument
    add(
        "--gpus-per-node",
        type=parse_world_size,
        metavar="N",
        help="override `elasticity.num_gpus_per_node`",
    )
    add = parser.add_argument
    add(
        "--target", metavar="RELEASE", help="plan as this release (default: 0.19.7, the last with elasticity)"
    )
    add("--exact", action="store_true", help="also search for the batch size with the most world sizes")
    add("--output-format", choices=FORMATS, default="table", help="output format (default: table)")
    add("--plot", metavar="FILE", help="also write a plot to this .svg or .png file (needs matplotlib)")
    add_color_option(parser)
    set_exit_codes(
        parser, {CLEAN: "plan shown", PROBLEMS: "no `elasticity` block, or it admits no world size"}
    )


def parse_world_sizes(text: str) -> list[int]:
    """Parse world sizes given as numbers and ranges."""

    try:
        return parse_number_ranges(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig elastic plan`, and return the exit code, which is 1 without a plan."""
    from dsconfig.cli.handoff.elastic_job import missing_block_hint
    from dsconfig.render.terminal_style import style_of, wrap_lines
    from elastic import ElasticityError

    suffix, config = plot_suffix(args.plot), _read_config(args.file)
    try:
        table = _make_plan_table(args, config)
    except ElasticityError as error:
        print_error(f"{args.file}: {error}{missing_block_hint(config)}")
        return PROBLEMS
    except ValueError as error:
        fail_with_usage_error(str(error))
    style = style_of(sys.stdout, args.color)
    text = "".join(render_table(table, args.output_format, style))
    sys.stdout.write(wrap_lines(text, style) if args.output_format == "table" else text)
    if args.plot:
        _write_plot(table, args.plot, suffix)
    return CLEAN


def _make_plan_table(args: argparse.Namespace, config: JsonObject) -> PlanForWorldSizes:

    if args.gpus_per_node:
        config = set_gpus_per_node(config, args.gpus_per_node)
    wanted = world_sizes_of_nodes(config, args.nodes) if args.nodes else args.world_sizes
    return tabulate_plan(config, wanted, exact=args.exact, semantics=_semantics_of_target(args.target))


def _read_config(name: str) -> JsonObject:
    document = read_config_document(name)
    value = document.value()
    if not document.is_readable() or not isinstance(value, dict):
        fail_with_usage_error(
            f"{document.name} is not a valid config: run `dsconfig check {name}` for the reason"
        )
    return value


def _semantics_of_target(target: str | None) -> ElasticitySemantics:
    from dsconfig.core.releases import UnknownReleaseError, resolve_target
    from elastic.deepspeed.release_behavior import LATEST, semantics_for

    if target is None:
        return LATEST
    try:
        return semantics_for(resolve_target(target).releases[-1])
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))


def _write_plot(table: PlanForWorldSizes, name: str, suffix: str) -> None:
    try:
        image = render_plot(table, suffix)
    except ImportError:
        fail_with_usage_error(NEEDS_MATPLOTLIB)
    write_output_file(name, image)


# Output formats.

FORMATS = ("table", "json", "csv")
VERSION = 1


def render_table(table: PlanForWorldSizes, name: str, style: TerminalStyle) -> Iterator[str]:
    """Yield the lines of a plan's table in the named format."""
    yield from {"table": _render_text_table, "json": _render_json, "csv": _render_csv}[name](table, style)


def _render_text_table(table: PlanForWorldSizes, style: TerminalStyle) -> Iterator[str]:
    plan, exact = table.plan, table.exact
    block = plan.block
    sizes = _format_count(len(plan.rows), "admissible world size")
    kind = "heuristic: " if exact else ""
    yield style.paint(f"{kind}{plan.batch_size} samples per step, {sizes}", "bold")
    micro_batches = ", ".join(map(str, block.micro_batch_sizes))
    yield f" (cap {block.max_train_batch_size}, micro batches {micro_batches})\n"
    if exact is not None:
        admitted = len(table.exactly_admitted_world_sizes), len(table.admitted_world_sizes)
        yield style.paint(f"exact: {exact.batch_size} samples per step", "bold")
        yield (
            f" admits {admitted[0]} of the {_format_count(len(table.sizes), 'size')} below, the "
            f"heuristic {admitted[1]}\n"
        )
    for note in plan.notes:
        yield f"note: {note}\n"
    rows = [_row_cells(table, size) for size in table.sizes]
    heads = _column_headings(table)
    widths = [max(len(text) for text in column) for column in zip(heads, *rows, strict=True)]
    yield "\n" + style.paint(_align_cells(heads, widths), "bold") + "\n"
    for size, cells in zip(table.sizes, rows, strict=True):
        text = _align_cells(cells, widths)
        yield f"{text if size.row else style.paint(text, 'dim')}"
        yield "\n" if size.row else f"  {size.reason}\n"


def _column_headings(table: PlanForWorldSizes) -> list[str]:
    heads = ["world size", "GPUs", "nodes", "micro batch", "steps"]
    return [*heads, *(["exact micro", "steps"] if table.exact else []), "idle"]


def _row_cells(table: PlanForWorldSizes, size: PlannedWorldSize) -> list[str]:
    cells: list[object] = [size.world_size, size.gpus, size.nodes]
    for row in (size.row, size.exact) if table.exact else (size.row,):
        cells += (row.micro_batch_size, row.accumulation_steps) if row else ("-", "-")
    return [*map(str, cells), "" if size.row else f"{size.idle_share:.0%}"]


def _align_cells(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _render_json(table: PlanForWorldSizes, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    document = {
        "version": VERSION,
        "batch_size": table.plan.batch_size,
        "world_sizes": table.plan.world_sizes,
        "semantics": table.plan.semantics.name,
        "block": table.plan.block.as_dict(),
        "exact_batch_size": table.exact.batch_size if table.exact else None,
        "rows": [_size_as_json(size) for size in table.sizes],
    }
    yield dump_json(document, indent=2) + "\n"


def _size_as_json(size: PlannedWorldSize) -> dict[str, object]:
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
        "lost": round(size.idle_share, 6),
    }


def _render_csv(table: PlanForWorldSizes, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    text = io.StringIO()
    records = [_size_as_json(size) for size in table.sizes]
    writer = csv.DictWriter(text, records[0] if records else ["world_size"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    yield text.getvalue()


# Plot: micro batch and accumulation steps of each world size, and the idle ranks of the other sizes.

_DARK, _LIGHT, _LOST = "#1f4e79", "#9dc3e6", "#c0392b"
_MAX_POINTS = 20_000
"""Maximal number of world sizes that a plot draws one by one."""


def render_plot(table: PlanForWorldSizes, suffix: str) -> bytes:
    """Draw the table as SVG or PNG; equal tables give equal bytes.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def draw_figure(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True)
        _plot_samples_per_rank(above, table)
        _plot_idle_share(below, table)

    return render_figure(draw_figure, suffix)


def _plot_samples_per_rank(axes: Axes, table: PlanForWorldSizes) -> None:
    """Plot the samples per rank and step, which is the micro batch times the accumulation steps."""
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
    axes.set_ylabel("samples per rank and step")
    axes.set_title(
        f"{table.plan.batch_size} samples per step on {len(table.admitted_world_sizes)} world sizes",
        loc="left",
    )
    axes.legend(loc="upper right", frameon=False)


def _plot_idle_share(axes: Axes, table: PlanForWorldSizes) -> None:
    """Plot the share of idle ranks at each world size, admissible or not."""
    plans = [(table.plan, _LOST, "-", "heuristic" if table.exact else "idle ranks")]
    if table.exact is not None:
        plans.append((table.exact, _DARK, "--", "exact"))
    shown = [size.world_size for size in table.sizes]
    first, last = (min(shown), max(shown)) if shown else (1, 1)
    sizes = range(first, last + 1, max(1, (last - first) // _MAX_POINTS))
    for drawn, color, line, label in plans:
        lost = [100 * _idle_share(drawn, size) for size in sizes]
        axes.plot(sizes, lost, line, color=color, lw=1, label=label, drawstyle="steps-mid")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("throughput lost (%)")
    axes.set_xlabel("data-parallel ranks")
    axes.legend(loc="upper right", frameon=False)


def _idle_share(plan: Plan, size: int) -> float:
    runs_at = size if plan.admits(size) else plan.next_down(size) or 0
    return 1 - runs_at / size


# Parsing of world sizes: numbers, ranges, and nodes.

MOST_SIZES = 100_000


def set_gpus_per_node(config: Mapping[str, Json], gpus: int) -> JsonObject:
    """Return the config with this number of GPUs per node in the `elasticity` block."""
    block = config.get(c.ELASTICITY)
    changed = {**block, c.NUM_GPUS_PER_NODE: gpus} if isinstance(block, Mapping) else block
    return {**config, c.ELASTICITY: changed}


def world_sizes_of_nodes(config: Mapping[str, Json], nodes: Iterable[int]) -> list[int]:
    """Return the data-parallel world sizes for these node counts.

    Raises:
        ElasticityError: the `elasticity` block is not strictly valid.
        ValueError: the GPUs of a node are not a multiple of the model-parallel size.
    """
    from elastic.planning.plan import read_block

    block = read_block(config)
    ranks, left = divmod(block.num_gpus_per_node, block.model_parallel_size)
    if left:
        raise ValueError(
            f"{block.num_gpus_per_node} GPUs per node are not a multiple of the model-parallel size "
            f"{block.model_parallel_size}"
        )
    return [node * ranks for node in nodes]


def parse_number_ranges(text: str) -> list[int]:
    """Parse positive whole numbers and inclusive ranges, such as `8,16`, `8:64` or `8:64:8`, in ascending order.

    Raises:
        ValueError: the text has none of these forms.
    """
    values: set[int] = set()
    for piece in text.split(","):
        parts = piece.strip().split(":")
        if len(parts) > 3 or not all(part.isdecimal() and len(part) < 9 and int(part) for part in parts):
            raise ValueError(f"expected whole numbers above 0 such as 8,16 or 8:64:8, got `{text}`")
        first, last, step = (*map(int, parts), *(int(parts[0]), 1)[len(parts) - 1 :])
        if last < first or (last - first) // step > MOST_SIZES:
            raise ValueError(f"expected an ascending range of at most {MOST_SIZES} numbers, got `{piece}`")
        values.update(range(first, last + 1, step))
    return sorted(values)


@dataclass(frozen=True, slots=True)
class PlannedWorldSize:
    """A world size in a plan's table. If the plan has no row for it, the job runs at the smaller size `runs_at`."""

    world_size: int
    """Number of data-parallel ranks."""
    gpus: int
    nodes: int
    row: PlanRow | None
    exact: PlanRow | None
    reason: str | None
    runs_at: int | None

    @property
    def idle_share(self) -> float:
        """Share of ranks that stay idle because the world size is not admissible."""
        return 0.0 if self.row else 1 - (self.runs_at or 0) / self.world_size


@dataclass(frozen=True, slots=True)
class PlanForWorldSizes:
    """A plan applied to the requested world sizes, with the exact optimum for them if requested."""

    plan: Plan
    exact: Plan | None
    sizes: tuple[PlannedWorldSize, ...]

    @property
    def admitted_world_sizes(self) -> tuple[int, ...]:
        """The requested world sizes that the plan admits."""
        return tuple(size.world_size for size in self.sizes if size.row)

    @property
    def exactly_admitted_world_sizes(self) -> tuple[int, ...]:
        """The requested world sizes that the exact optimum admits."""
        return tuple(size.world_size for size in self.sizes if size.exact)


def tabulate_plan(
    config: Mapping[str, Json],
    world_sizes: Sequence[int] | None = None,
    *,
    exact: bool = False,
    semantics: ElasticitySemantics,
) -> PlanForWorldSizes:
    """Tabulate the plan of a config's `elasticity` block for `world_sizes`, or for all admissible sizes.

    Raises:
        ElasticityError: there is no plan; the message names the key.
    """
    heuristic = plan(config, semantics=semantics)
    optimum = None
    if exact:
        from elastic.planning.exact_search import search

        optimum = search(config, world_sizes, semantics=semantics).exact
    if world_sizes is None:
        world_sizes = sorted({*heuristic.world_sizes, *(optimum.world_sizes if optimum else ())})
    sizes = tuple(_plan_world_size(heuristic, optimum, size) for size in world_sizes)
    return PlanForWorldSizes(heuristic, optimum, sizes)


def _plan_world_size(heuristic: Plan, optimum: Plan | None, size: int) -> PlannedWorldSize:
    block = heuristic.block
    gpus = size * block.model_parallel_size
    return PlannedWorldSize(
        world_size=size,
        gpus=gpus,
        nodes=-(-gpus // block.num_gpus_per_node),
        row=heuristic.row(size) if heuristic.admits(size) else None,
        exact=optimum.row(size) if optimum is not None and optimum.admits(size) else None,
        reason=heuristic.why_not(size),
        runs_at=None if heuristic.admits(size) else heuristic.next_down(size),
    )
