"""`dsconfig memory`: what a rank and a host hold in training, and which key each part is governed by."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from dsconfig.cli.arguments import add_color, add_file, add_settings, world_size
from dsconfig.cli.errors import CLEAN, FINDINGS, refuse
from dsconfig.cli.files import mapping, read
from dsconfig.cli.parser import tell_exit_codes
from dsconfig.cli.resolved import assignment, explain
from dsconfig.cli.sizes import amount, count

if TYPE_CHECKING:
    from dsconfig.resolving.memory import ModelSource
    from dsconfig.sizing.estimate import Estimate

FORMATS = ("text", "json", "csv")
MARGIN = "2GiB"
NOT_COUNTED = (
    "Not counted, since an engine on a CPU does not show it: the CUDA context, NCCL's buffers, fragmentation"
    " of the allocator, workspaces of kernels. `--margin` stands for them."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    _add_model(parser)
    add = parser.add_argument_group("the run").add_argument
    add("--world-size", type=world_size, metavar="N", help="the number of ranks (default: $WORLD_SIZE)")
    add("--nodes", type=world_size, metavar="A", help="the number of hosts, with --gpus-per-node")
    add(
        "--gpus-per-node",
        type=world_size,
        metavar="B",
        help="ranks that share a host (default: 8, or all of fewer)",
    )
    add("--sequence-length", type=count, metavar="S", help="tokens of a sequence (default: 2048)")
    add(
        "--micro-batch",
        type=count,
        metavar="M",
        help="samples of a micro batch (default: as the config says)",
    )
    add("--attention", choices=("sdpa", "flash", "eager"), default="sdpa", help="default: sdpa")
    add("--checkpointing", action="store_true", help="activations are computed again, layer by layer")
    add("--optimizer", metavar="NAME", help="what the script hands to DeepSpeed (default: adamw)")
    built = add("--zero-init", action=argparse.BooleanOptionalAction, help="build in shards at stage 3")
    built.default = None
    add("--set", type=assignment, action="append", metavar="KEY=VALUE", help="write a value first, as JSON")
    add("--target", metavar="RELEASE", help="the release that runs it (default: the installed DeepSpeed)")
    readers = _consumers()
    told = f"who reads the file: {', '.join(readers)} (default: found out)"
    add("--consumer", choices=readers, metavar="READER", help=told)
    add("--training-args", metavar="FILE", help="training arguments, JSON or YAML")
    add = parser.add_argument_group("result").add_argument
    add("--gpu", type=amount, metavar="SIZE", help="the memory of a GPU: exit code 1 where it is not enough")
    add("--fit", type=amount, metavar="SIZE", help="the smallest changes that fit a GPU of this memory")
    add(
        "--host", type=amount, metavar="SIZE", help="the memory of a host: exit code 1 where it is not enough"
    )
    add(
        "--margin",
        type=amount,
        default=MARGIN,
        metavar="SIZE",
        help=f"kept free on a GPU (default: {MARGIN})",
    )
    add("--output-format", choices=FORMATS, default="text", help="default: text")
    add_color(parser)
    add_settings(parser)
    told = "more than --gpu or --host has, or the release refuses the config"
    tell_exit_codes(parser, {CLEAN: "shown", FINDINGS: told}, NOT_COUNTED)


def _consumers() -> tuple[str, ...]:
    from dsconfig.consumers import CONSUMERS

    return CONSUMERS


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the model").add_argument
    add("--model", metavar="MODEL", help="its config.json, its folder, or a name such as llama-3-8b")
    add("--params", type=count, metavar="N", help="instead: parameters, as 7e9, with --hidden and --layers")
    add("--hidden", type=count, metavar="N", help="the hidden size")
    add("--layers", type=count, metavar="N", help="the number of layers")
    add("--heads", type=count, metavar="N", help="attention heads (default: one for each 128 elements)")
    add("--vocabulary", type=count, metavar="N", help="default: 32000")


def run(args: argparse.Namespace) -> int:
    """Compute, and write what came out."""
    from dsconfig.resolving.errors import ResolveError

    try:
        given = _options(args)
        if args.fit is not None:
            return _fit(args, given)
        from dsconfig.resolving.memory import memory

        return _write(args, memory(**given))
    except ResolveError as error:
        explain(error, sys.stderr)
        return FINDINGS
    except ValueError as error:
        refuse(str(error))


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `memory`."""
    from dsconfig.cli.options import in_force

    document = read(args.file)
    target, configured, reader = in_force(args, document)
    size = args.world_size
    if args.nodes is not None:
        if size is not None:
            refuse("--nodes and --world-size exclude each other")
        if args.gpus_per_node is None:
            refuse("--nodes goes with --gpus-per-node")
        size = args.nodes * args.gpus_per_node
    given = {
        "source": document,
        "model": _model(args),
        "world_size": size if size is not None else configured,
        "target": target,
        "consumer": reader.said,
        "set": dict(args.set or ()),
        "training_args": mapping(args.training_args),
    }
    names = ("micro_batch", "attention", "checkpointing", "optimizer", "zero_init", "gpus_per_node")
    given |= {name: getattr(args, name) for name in names}
    return given | ({"sequence_length": args.sequence_length} if args.sequence_length else {})


def _fit(args: argparse.Namespace, given: dict[str, Any]) -> int:
    from dsconfig.render import memory as render
    from dsconfig.render.style import style_of
    from dsconfig.resolving.memory import fitted

    if args.output_format == "csv":
        refuse("--fit gives text or json")
    found = fitted(args.fit - args.margin, **given)
    if args.output_format == "json":
        sys.stdout.write(json.dumps({"fit": found.to_dict()}, indent=2) + "\n")
    else:
        sys.stdout.writelines(render.fit_lines(found, args.fit, style_of(sys.stdout, args.color)))
    return CLEAN if found.fits else FINDINGS


def _model(args: argparse.Namespace) -> ModelSource:
    own = (args.params, args.hidden, args.layers)
    if args.model is not None:
        if any(own):
            refuse("--model and --params exclude each other")
        model: ModelSource = args.model
        return model
    if not all(own):
        refuse("no model: give --model, or --params with --hidden and --layers")
    from dsconfig.sizing.models.named import like

    return like(*own, heads=args.heads or 0, vocabulary=args.vocabulary or 0)


def _write(args: argparse.Namespace, found: Estimate) -> int:
    from dsconfig.render import memory as render
    from dsconfig.render.style import style_of

    limits = render.Limits(args.gpu, args.host, args.margin)
    if args.output_format == "json":
        sys.stdout.write(json.dumps(found.to_dict() | limits.to_dict(found), indent=2) + "\n")
    elif args.output_format == "csv":
        sys.stdout.writelines(render.csv_lines(found))
    else:
        sys.stdout.writelines(render.text_lines(found, limits, style_of(sys.stdout, args.color)))
    return CLEAN if limits.hold(found) else FINDINGS
