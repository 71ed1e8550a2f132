"""`dsconfig memory`: memory of a rank and a host in training, and the changes that fit a GPU."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color,
    add_file,
    add_launch,
    add_settings,
    amount,
    consumer,
    count,
    gpu,
    tell_exit_codes,
    times,
    world_size,
)
from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, note, refuse
from dsconfig.cli.inputs import is_stdout, mapping, read, reason, refuse_inputs, refuse_unknown, write
from dsconfig.cli.output import NEEDS_MATPLOTLIB, plotted, put, refuse_unlike
from dsconfig.cli.resolve_helpers import assignment, explain, in_flags, refuse_open, tell
from dsconfig.render.fingerprint import as_json
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.core.gpu_memory import Gpu
    from dsconfig.document import Document
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.memory import Estimate, Options, Verdict
    from dsconfig.resolve.model_source import ModelSource


# `dsconfig memory`: what a rank and a host hold in training, and which key each part is governed by.

ATTENTION, KINDS = ("sdpa", "flash", "eager"), ("micro-batch", "sequence", "model")
FORMATS = ("text", "json", "csv")
OF_BATCH = "DSC2"
"""How the codes of the rules about batch keys begin."""
SELDOM = 100_000
"""New objects between two collections of garbage: a model on paper has very many, and none are garbage."""
NOT_COUNTED = (
    "Not counted, since an engine on a CPU does not show it: the CUDA context, NCCL's buffers, fragmentation"
    " of the allocator, workspaces of kernels. `--margin` stands for them: published failures on cards of 32"
    " and 80 GiB show 2.8 to 5.4 GiB between what tensors hold and what the card has."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    add_file(parser)
    _add_model(parser)
    _add_run(parser)
    _add_result(parser)
    add_color(parser)
    add_settings(parser)
    told = "more than --gpu or --host has, or the release refuses the config"
    wrong = "wrong use, an internal error, or what is not modelled decides whether it fits"
    from dsconfig.core.gpu_memory import CARDS

    cards = f"Cards that --gpu and --fit know by name: {', '.join(CARDS)}."
    tell_exit_codes(
        parser, {CLEAN: "shown", FINDINGS: told, FAILED: wrong}, "\n\n".join((NOT_COUNTED, cards))
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the run").add_argument
    add("--world-size", type=world_size, metavar="N", help="the number of ranks (default: $WORLD_SIZE)")
    add("--nodes", type=world_size, metavar="A", help="the number of hosts, with --gpus-per-node")
    told = "ranks that share a host (default: as settings say, else 8, or all of fewer)"
    add("--gpus-per-node", type=world_size, metavar="B", help=told)
    told = "ranks that share one sequence (Ulysses; default: `sequence_parallel_size`, else 1)"
    add("--sp", type=world_size, metavar="N", help=told)
    told = "with AutoEP: tokens that reach the busiest rank's experts, in times of the mean (default: 1)"
    add("--imbalance", type=times, metavar="F", help=told)
    told = "tokens of a sequence (default: as a launch file says, else 2048)"
    add("--sequence-length", type=count, metavar="S", help=told)
    told = "samples of a micro batch (default: as the config says)"
    add("--micro-batch", type=count, metavar="M", help=told)
    add("--attention", choices=ATTENTION, help="default: as a launch file says, else sdpa")
    told = "activations are computed again, layer by layer (default: as a launch file says, else not)"
    checks = add("--checkpointing", action=argparse.BooleanOptionalAction, help=told)
    add("--optimizer", metavar="NAME", help="what the script hands to DeepSpeed (default: adamw)")
    told = "build in shards at stage 3 (default: as the Trainer and Accelerate do)"
    built = add("--zero-init", action=argparse.BooleanOptionalAction, help=told)
    built.default = checks.default = None
    add("--set", type=assignment, action="append", metavar="KEY=VALUE", help="write a value first, as JSON")
    add("--target", metavar="RELEASE", help="the release that runs it (default: the installed DeepSpeed)")
    readers = _consumers()
    told = f"who reads the file: {', '.join(readers)} (default: found out)"
    add("--consumer", type=consumer, metavar="READER", help=told)
    add_launch(add)
    add("--training-args", metavar="FILE", help="training arguments, JSON or YAML")


def _add_result(parser: argparse.ArgumentParser) -> None:
    from dsconfig.core.gpu_memory import PART

    add = parser.add_argument_group("result").add_argument
    told = (
        "the memory of a GPU, as 80GiB, or the card, as h100, a100-40, 4090, 48GB (cards sold by that size):"
    )
    add("--gpu", type=gpu, metavar="GPU", help=f"{told} exit code 1 where it is not enough")
    told = "the memory of a host: exit code 1 where it is not enough (default: as settings say)"
    add("--host", type=amount, metavar="SIZE", help=told)
    told = f"kept free on a GPU (default: 2GiB and 1/{PART} of its memory)"
    add("--margin", type=amount, metavar="SIZE", help=told)
    add(
        "--fit",
        type=gpu,
        metavar="GPU",
        help="the smallest changes that fit a GPU of this memory, or this card",
    )
    told = "with --fit: write the config with these changes, and --set's, to this file (`-`: stdout)"
    add("-o", "--output", metavar="OUT", help=told)
    told = "the largest micro batch, sequence or model (by its layers) that --gpu holds"
    add("--max", choices=KINDS, metavar="WHAT", help=told)
    add("--plot", metavar="FILE", help="draw it as well, to a .svg or .png file (needs matplotlib)")
    add("--output-format", choices=FORMATS, default="text", help="default: text")


def _consumers() -> tuple[str, ...]:
    from dsconfig.consumers import CONSUMERS

    return CONSUMERS


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the model").add_argument
    told = "its config.json, its folder, or a name such as llama-3-8b or Qwen/Qwen3-30B-A3B"
    told += " (default: as the config's own block, settings or a launch file say)"
    add("--model", metavar="MODEL", help=told)
    add("--params", type=count, metavar="N", help="instead: parameters, as 7e9, with --hidden and --layers")
    add("--hidden", type=count, metavar="N", help="the hidden size")
    add("--layers", type=count, metavar="N", help="the number of layers")
    add("--heads", type=count, metavar="N", help="attention heads (default: one for each 128 elements)")
    add("--vocabulary", type=count, metavar="N", help="default: 32000")
    told = "train adapters: r=16,target=q_proj,v_proj (names of layers, or all)"
    add("--lora", metavar="WHAT", help=told)


def run(args: argparse.Namespace) -> int:
    """Compute, and write what came out."""
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError

    gc.set_threshold(SELDOM)
    suffix = plotted(args.plot)
    try:
        document, options = _options(args)
        if args.fit is not None:
            return fit(args, document, options)
        if args.max is not None:
            return largest(args, document, options)
        from dsconfig.resolve.memory import estimate_request

        found = estimate_request(document, options).answer()
    except UnknownWorldSizeError as error:
        refuse_open(error, "--world-size, or --nodes and --gpus-per-node")
    except ResolveError as error:
        explain(error, sys.stderr, _advice(args, error))
        return FINDINGS
    except OSError as error:
        if error.filename is None:  # stdout's: a full disk, a pipe that is closed
            raise
        refuse(f"{error.filename}: {reason(error)}")
    except ValueError as error:
        refuse(printable(in_flags(str(error))))
    if args.plot:
        _plot(found, args, suffix)
    return _write(args, found)


def _advice(args: argparse.Namespace, error: ResolveError) -> tuple[str, ...]:
    """What helps here, whatever is wrong with the batch of the config."""
    found = error.diagnostics
    batch = found and all(one.code.startswith(OF_BATCH) for one in found)
    return (
        ("or give `--micro-batch 1`: the other batch keys follow",) if batch and not args.micro_batch else ()
    )


def _options(args: argparse.Namespace) -> tuple[Document, Options]:
    """The config, and the arguments of `memory`."""
    from dsconfig.cli.inputs import in_force
    from dsconfig.job.job import Fact
    from dsconfig.resolve.memory import Options

    document = read(args.file)
    refuse_unknown(document)
    job = in_force(args, document)
    size, known = args.world_size, job.facts
    args.host = known.host_memory if args.host is None else args.host
    args.gpus_per_node = args.gpus_per_node or known.gpus_per_node
    if args.nodes is not None:
        if size is not None:
            refuse("--nodes and --world-size exclude each other")
        if args.gpus_per_node is None:
            refuse("--nodes goes with --gpus-per-node")
        size = args.nodes * args.gpus_per_node
    if args.output is not None and args.fit is None:
        refuse("--output goes with --fit")
    names = ("sequence_length", "micro_batch", "attention", "checkpointing", "lora", "optimizer", "zero_init")
    return document, Options(
        _model(args) or (known.model and not known.model.is_outside and known.model.named) or None,
        None,
        None,
        None,
        **{name: getattr(args, name) for name in (*names, "gpus_per_node", "sp", "imbalance")},
        set=dict(args.set or ()),
        training_args=mapping(args.training_args),
        job=job if size is None else job._replace(world_size=Fact(size, "argument", "--world-size")),
        gpu_limit=args.gpu.usable(args.margin) if args.gpu is not None else None,
    )


def _plot(found: Estimate, args: argparse.Namespace, suffix: str) -> None:
    from dsconfig.resolve.memory_output import draw_chart

    try:
        drawn = draw_chart(found, args.gpu and args.gpu.least, suffix)
    except ImportError:
        refuse(NEEDS_MATPLOTLIB)
    write(args.plot, drawn)


def _model(args: argparse.Namespace) -> ModelSource | None:
    own = (args.params, args.hidden, args.layers)
    others = (args.heads, args.vocabulary)
    if args.model is not None or not any((*own, *others)):
        if any((*own, *others)):
            refuse("--model and --params exclude each other")
        model: ModelSource | None = args.model
        return model
    if not all(own):
        refuse("--params, --hidden and --layers go together")
    from dsconfig.resolve.model_source import of_sizes

    return of_sizes(*own, heads=args.heads or 0, vocabulary=args.vocabulary or 0)


def _write(args: argparse.Namespace, found: Estimate) -> int:
    from dsconfig.render.terminal import style_of
    from dsconfig.resolve import memory_output as render

    limits = render.Limits(args.gpu, args.host, margin(args, args.gpu))
    if args.output_format == "json":
        sys.stdout.write(as_json(found.to_dict() | limits.to_dict(found), indent=2) + "\n")
    elif args.output_format == "csv":
        sys.stdout.writelines(render.csv_lines(found))
    else:
        style = style_of(sys.stdout, args.color)
        tell(render.text_lines(found, limits, style), style, sys.stdout)
    return exit_code(limits.verdicts(found))


# `dsconfig memory --fit` and `--max`: the smallest changes that fit a GPU, and the largest that does.


def margin(args: argparse.Namespace, gpu: Gpu | None) -> int:
    """What is kept free of a GPU."""
    from dsconfig.core.gpu_memory import Gpu

    return (gpu or Gpu(0, 0)).margin(args.margin)


def exit_code(verdicts: Iterable[Verdict | None]) -> int:
    """The code of the worst verdict: what does not fit, then what nobody can say."""
    there = set(verdicts)
    return FINDINGS if "does not fit" in there else FAILED if "unknown" in there else CLEAN


def fit(args: argparse.Namespace, document: Document, options: Options) -> int:
    """Find the changes, tell them, and write the config with them where that is asked for."""
    from dsconfig.render.terminal import style_of
    from dsconfig.resolve import memory_output as render
    from dsconfig.resolve.fit_search import find_fit, fitted_config

    _refuse(args, document)
    free = margin(args, args.fit)
    found = find_fit(document, options, args.fit.usable(args.margin), args.host)
    done, failed = None, ""
    if args.output and found.fits:
        try:
            done = fitted_config(document, options, found, document.name if args.output == "-" else args.output)
        except ValueError as error:  # the changes are told even so
            failed = str(error)
    out, said = (done.removed_keys, done.consumer) if done else ((), None)
    stream = sys.stderr if args.output == "-" and done else sys.stdout
    if args.output_format == "json":
        answer = found.to_dict() | {"removed": list(out), "consumer": said}
        stream.write(as_json({"fit": answer}, indent=2) + "\n")
    else:
        style, limits = style_of(stream, args.color), render.Limits(args.fit, args.host, free)
        tell(render.fit_lines(found, limits, style, out, said), style, stream)
    if done and args.output == "-":
        put(done.text)
    elif done:
        write(args.output, done.text.encode())
    elif failed:
        refuse(failed)
    elif args.output:
        note(f"{args.output} is not written")
    return exit_code([found.verdict])


def _refuse(args: argparse.Namespace, document: Document) -> None:
    """Refuse what does not go together, before anything is computed."""
    from dsconfig.job.model_files import find_config_json
    from dsconfig.resolve.fit_search import reject_launch_file

    if args.output_format == "csv":
        refuse("--fit gives text or json")
    for name in ("plot", "max", "gpu"):
        if getattr(args, name) is not None:
            refuse(f"--fit and --{name} exclude each other")
    if args.output is None:
        return
    args.output = "-" if is_stdout(args.output) else args.output
    if not args.output or os.path.isdir(args.output):
        refuse(f"--output {args.output}: expected the name of a file, or `-` for stdout")
    reject_launch_file(document)
    refuse_unlike(document, args.output)
    read = (args.training_args, getattr(args, "config", None), args.model and find_config_json(args.model))
    refuse_inputs(args.output, document, args.file, *read)


def largest(args: argparse.Namespace, document: Document, options: Options) -> int:
    """Find the largest of a kind that fits, and tell it."""
    from dsconfig.render.terminal import style_of
    from dsconfig.resolve import memory_output as render
    from dsconfig.resolve.max_search import largest

    if args.gpu is None:
        refuse("--max goes with --gpu")
    if args.output_format == "csv" or args.plot:
        refuse("--max gives text or json")
    found = largest(document, options, args.max, args.gpu.usable(args.margin))
    if args.output_format == "json":
        sys.stdout.write(as_json({"max": found.to_dict()}, indent=2) + "\n")
    else:
        style = style_of(sys.stdout, args.color)
        tell(render.max_lines(found, args.gpu, style), style, sys.stdout)
    return exit_code([found.verdict])
