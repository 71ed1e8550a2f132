"""`dsconfig elastic plan`: the admissible world sizes of an `elasticity` block."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color, add_file, world_size
from dsconfig.cli.elastic.plan_text import FORMATS
from dsconfig.cli.errors import CLEAN, FINDINGS, complain, refuse
from dsconfig.cli.files import read, write
from dsconfig.cli.parser import tell_exit_codes
from dsconfig.cli.plot_output import NEEDS_MATPLOTLIB, plotted

if TYPE_CHECKING:
    from dsconfig.cli.handoff.plan_table import Table
    from dsconfig.core.json_types import JsonObject
    from elastic.deepspeed.semantics import Semantics


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    which = parser.add_argument_group("which sizes", "SIZES: such as 8,16 or 8:64 or 8:64:8")
    add = which.add_mutually_exclusive_group().add_argument
    add("--nodes", type=sizes, metavar="SIZES", help="show these numbers of whole nodes")
    add("--world-sizes", type=sizes, metavar="SIZES", help="show these data-parallel sizes")
    add = which.add_argument
    add("--gpus-per-node", type=world_size, metavar="N", help="replace the block's num_gpus_per_node")
    add = parser.add_argument
    add("--target", metavar="RELEASE", help="plan as this release did (default: 0.19.7, the last that did)")
    add("--exact", action="store_true", help="search the batch with most of the sizes, beside the heuristic")
    add("--output-format", choices=FORMATS, default="table", help="how the plan is shown (default: table)")
    add("--plot", metavar="FILE", help="draw it as well, to a .svg or .png file (needs matplotlib)")
    add_color(parser)
    tell_exit_codes(
        parser, {CLEAN: "shown", FINDINGS: "there is no plan: no block, or none that admits a size"}
    )


def sizes(text: str) -> list[int]:
    """Numbers and ranges of them."""
    from dsconfig.cli.handoff.world_size_arguments import numbers

    try:
        return numbers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Show the plan; exit code 1 where there is none."""
    from dsconfig.cli.elastic.plan_text import render
    from dsconfig.cli.handoff.elastic_job import to_do_without
    from dsconfig.render.terminal import style_of
    from dsconfig.render.wrap import flowed
    from elastic import ElasticityError

    suffix, config = plotted(args.plot), _config(args.file)
    try:
        table = _table(args, config)
    except ElasticityError as error:
        complain(f"{args.file}: {error}{to_do_without(config)}")
        return FINDINGS
    except ValueError as error:
        refuse(str(error))
    style = style_of(sys.stdout, args.color)
    text = "".join(render(table, args.output_format, style))
    sys.stdout.write(flowed(text, style) if args.output_format == "table" else text)
    if args.plot:
        _plot(table, args.plot, suffix)
    return CLEAN


def _table(args: argparse.Namespace, config: JsonObject) -> Table:
    from dsconfig.cli.handoff.plan_table import tabulate
    from dsconfig.cli.handoff.world_size_arguments import sizes_of_nodes, with_gpus_per_node

    if args.gpus_per_node:
        config = with_gpus_per_node(config, args.gpus_per_node)
    wanted = sizes_of_nodes(config, args.nodes) if args.nodes else args.world_sizes
    return tabulate(config, wanted, exact=args.exact, semantics=_semantics(args.target))


def _config(name: str) -> JsonObject:
    document = read(name)
    value = document.value()
    if not document.readable() or not isinstance(value, dict):
        refuse(f"{document.name} holds no config: `dsconfig check {name}` says why")
    return value


def _semantics(target: str | None) -> Semantics:
    from dsconfig.core.releases import UnknownReleaseError, resolve
    from elastic.deepspeed.semantics import LATEST, semantics_for

    if target is None:
        return LATEST
    try:
        return semantics_for(resolve(target).releases[-1])
    except UnknownReleaseError as error:
        refuse(str(error))


def _plot(table: Table, name: str, suffix: str) -> None:
    from dsconfig.cli.elastic.plan_chart import chart

    try:
        drawn = chart(table, suffix)
    except ImportError:
        refuse(NEEDS_MATPLOTLIB)
    write(name, drawn)
