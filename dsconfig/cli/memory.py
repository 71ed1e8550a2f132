"""`dsconfig memory`: estimate the memory of training, and find changes with which it fits a GPU."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_job_number_option,
    add_launch_option,
    add_settings_options,
    parse_byte_size,
    parse_consumer,
    parse_factor,
    parse_gpu_memory,
    parse_parameter_count,
    parse_positive_count,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import (
    forbid_overwriting_sources,
    is_stdout_target,
    os_error_reason,
    read_config_document,
    read_mapping_file,
    require_known_values,
    write_output_file,
)
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail_with_usage_error, print_note
from dsconfig.cli.output_files import NEEDS_MATPLOTLIB, check_output_format, plot_suffix, write_text
from dsconfig.cli.resolve_helpers import (
    fail_without_world_size,
    parse_assignment,
    print_resolve_error,
    print_wrapped_lines,
    use_option_names,
)
from dsconfig.render.machine_readable import dump_json
from dsconfig.render.terminal_style import escape_unprintable

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.memory import Estimate, Verdict
    from dsconfig.resolve.errors import ResolveError
    from dsconfig.resolve.memory_options import MemoryOptions
    from dsconfig.resolve.model_source import ModelSource


ATTENTION, KINDS = ("sdpa", "flash", "eager"), ("micro-batch", "sequence", "model")
FORMATS = ("text", "json", "csv")
BATCH_RULES = "DSC2"
"""Code prefix of the rules about batch keys."""
GC_THRESHOLD = 100_000
"""Number of allocations between two garbage collections: a symbolic model has many objects, none of them garbage."""
VERDICTS = (
    "`fits`: the upper bound of the tensors fits, with fragmentation, CUDA context and NCCL buffers. `does not fit`:"
    " not even the tensors fit. `tight`: in between, or the result depends on a missing input, such as"
    " --sequence-length; the output names it."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig memory` to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="config file, or `-` for stdin; without one, a table of all stages",
    )
    _add_model_options(parser)
    _add_run_options(parser)
    _add_result_options(parser)
    add_color_option(parser)
    add_settings_options(parser)
    exceeded = "exceeds --gpu or --host, or DeepSpeed rejects the config"
    undecided = "usage error, internal error, or tight: the result depends on unknown inputs"
    from dsconfig.core.gpu_memory import CARDS

    cards = f"GPU names for --gpu and --fit: {', '.join(CARDS)}."
    set_exit_codes(
        parser,
        {CLEAN: "estimate shown", PROBLEMS: exceeded, FAILED: undecided},
        "\n\n".join((VERDICTS, cards)),
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("job").add_argument
    add("--world-size", type=parse_world_size, metavar="N", help="number of ranks (default: $WORLD_SIZE)")
    add("--nodes", type=parse_world_size, metavar="A", help="number of nodes, with --gpus-per-node")
    gpus = "GPUs per node (default: from the settings, else 8, or the world size if that is less)"
    add("--gpus-per-node", type=parse_world_size, metavar="B", help=gpus)
    degree = "sequence-parallel size (Ulysses; default: `sequence_parallel_size`, else 1)"
    add("--sp", type=parse_world_size, metavar="N", help=degree)
    imbalance = "with AutoEP: tokens on the busiest expert-parallel rank, relative to the mean (default: 1)"
    add("--imbalance", type=parse_factor, metavar="F", help=imbalance)
    length = "sequence length in tokens (default: from the launch file, else that of an encoder, or 2048)"
    add("--sequence-length", type=parse_positive_count, metavar="S", help=length)
    images = "image tokens in a sequence of a vision-language model (default: one image)"
    add("--image-tokens", type=int, metavar="N", help=images)
    vision = "train the image and audio encoders (default: from the launch file, else yes)"
    add("--train-vision", action=argparse.BooleanOptionalAction, default=None, help=vision)
    packs = "all sequences have this length; with --no-packing, lengths vary below it"
    packs += " (default: from the launch file, else --packing)"
    packing = add("--packing", action=argparse.BooleanOptionalAction, help=packs)
    segments = (
        "`PYTORCH_CUDA_ALLOC_CONF` has `expandable_segments:True` (default: from the launch file, else no)"
    )
    expandable = add("--expandable-segments", action=argparse.BooleanOptionalAction, help=segments)
    add(
        "--micro-batch",
        type=parse_positive_count,
        metavar="M",
        help="samples per micro batch (default: from the config)",
    )
    add(
        "--attention",
        choices=ATTENTION,
        help="attention implementation (default: from the launch file, else sdpa)",
    )
    recompute = "activation checkpointing of each layer (default: from the launch file, else off)"
    checkpointing = add("--checkpointing", action=argparse.BooleanOptionalAction, help=recompute)
    method = "training method: dpo, grpo, ppo, ... (default: from the launch file, else sft)"
    add("--trainer", metavar="NAME", help=method)
    frozen = "a reward or teacher model that stays loaded; may be repeated"
    add("--frozen-model", metavar="MODEL", action="append", help=frozen)
    vllm = "fraction of the GPU that vLLM reserves next to training (0 if it runs elsewhere)"
    add("--vllm", type=float, metavar="F", help=vllm)
    loss = "cross entropy over all logits, in recomputed chunks, or fused with the head, as in Liger (default: full)"
    add("--loss", choices=("full", "chunked", "fused"), help=loss)
    optimizer = "optimizer that the script passes to DeepSpeed (default: adamw)"
    add("--optimizer", metavar="NAME", help=optimizer)
    init = (
        "build the model under `deepspeed.zero.Init` at stage 3 (default: as the Trainer and Accelerate do)"
    )
    zero_init = add("--zero-init", action=argparse.BooleanOptionalAction, help=init)
    zero_init.default = checkpointing.default = packing.default = expandable.default = None
    override = "override a key, value as JSON"
    add("--set", type=parse_assignment, action="append", metavar="KEY=VALUE", help=override)
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    library = f"library that loads the file: {', '.join(_consumer_names())} (default: auto-detected)"
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help=library)
    add_launch_option(add)
    add_job_number_option(add)
    arguments = "training arguments of the consumer, a JSON or YAML file"
    add("--training-args", metavar="FILE", help=arguments)


def _add_result_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("result").add_argument
    card = (
        "GPU memory such as 80GiB, or a GPU such as h100, a100-40, 4090, or 48GB for cards sold as that size;"
    )
    add("--gpu", type=parse_gpu_memory, metavar="GPU", help=f"{card} exit with 1 if the estimate exceeds it")
    host = "memory of a node; exit with 1 if the estimate exceeds it (default: from the settings)"
    add("--host", type=parse_byte_size, metavar="SIZE", help=host)
    margin = "headroom on the GPU, instead of the estimate of fragmentation, CUDA context and NCCL buffers"
    add("--margin", type=parse_byte_size, metavar="SIZE", help=margin)
    add(
        "--fit",
        type=parse_gpu_memory,
        metavar="GPU",
        help="find the smallest changes that fit this GPU or GPU memory",
    )
    output = "with --fit: write the config with the changes and overrides to this file (`-`: stdout)"
    add("-o", "--output", metavar="OUT", help=output)
    largest = "find the largest micro-batch, sequence or model (number of layers) that fits --gpu"
    add("--max", choices=KINDS, metavar="WHAT", help=largest)
    add("--plot", metavar="FILE", help="also write a plot to this .svg or .png file (needs matplotlib)")
    add("--output-format", choices=FORMATS, default="text", help="output format (default: text)")


def _consumer_names() -> tuple[str, ...]:
    from dsconfig.job.consumers import CONSUMERS

    return CONSUMERS


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("model").add_argument
    model = "path of its config.json or directory, or a name such as llama-3-8b or Qwen/Qwen3-30B-A3B"
    model += " (default: from `$dsconfig`, the settings or the launch file)"
    add("--model", metavar="MODEL", help=model)
    params = (
        "number of parameters, such as 7B: alone for model states, with --hidden and --layers for a decoder"
    )
    add("--params", type=parse_parameter_count, metavar="N", help=params)
    add("--hidden", type=parse_positive_count, metavar="N", help="hidden size")
    add("--layers", type=parse_positive_count, metavar="N", help="number of layers")
    add(
        "--heads", type=parse_positive_count, metavar="N", help="attention heads (default: hidden size / 128)"
    )
    add("--vocabulary", type=parse_positive_count, metavar="N", help="vocabulary size (default: 32000)")
    lora = (
        "train LoRA adapters, for example r=16,target=q_proj,v_proj (module names, or all), and whole "
        "modules next to them: save=embed_tokens+lm_head"
    )
    add("--lora", metavar="WHAT", help=lora)
    quantize = (
        "storage of the frozen layers next to adapters: nf4, nf4-single, fp4, int8, gptq-4, gptq-8 or awq-4; "
        "followed by +experts if experts are packed too"
    )
    add("--quantize", metavar="KIND", help=quantize)


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig memory`, and return the exit code."""
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError

    gc.set_threshold(GC_THRESHOLD)
    suffix = plot_suffix(args.plot)
    try:
        if args.file is None:
            return print_stage_table(args)
        document, options = _config_and_memory_options(args)
        if args.fit is not None:
            return find_changes_that_fit(args, document, options)
        if args.max is not None:
            return find_largest_value(args, document, options)
        from dsconfig.resolve.memory import estimate_request

        estimate = estimate_request(document, options).answer()
    except UnknownWorldSizeError as error:
        fail_without_world_size(error, "--world-size, or --nodes and --gpus-per-node")
    except ResolveError as error:
        print_resolve_error(error, sys.stderr, _batch_error_advice(args, error))
        return PROBLEMS
    except OSError as error:
        if error.filename is None:  # from stdout: disk full, or a closed pipe
            raise
        fail_with_usage_error(f"{error.filename}: {os_error_reason(error)}")
    except ValueError as error:
        fail_with_usage_error(escape_unprintable(use_option_names(str(error))))
    if args.plot:
        _write_plot(estimate, args, suffix)
    return _write_estimate(args, estimate)


def print_stage_table(args: argparse.Namespace) -> int:
    """Print the memory of each ZeRO stage and offload, for a model without a config."""
    from dsconfig.memory import RequestedLimits
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve import memory_output as render
    from dsconfig.resolve.memory import NODE
    from dsconfig.resolve.memory_fit import build_stage_table

    if args.model is None and args.params is None:
        fail_with_usage_error(
            "FILE is missing, for example `dsconfig memory ds_config.json --model config.json --world-size 8`;"
            " with --model or --params alone, all stages are listed"
        )
    for name in ("fit", "max", "plot", "output"):
        if getattr(args, name) is not None:
            fail_with_usage_error(f"--{name} requires FILE")
    if args.output_format == "csv":
        fail_with_usage_error("without FILE, the output formats are text and json")
    size = args.world_size
    if args.nodes is not None:
        if size is not None:
            fail_with_usage_error("--nodes and --world-size exclude each other")
        size = args.nodes * (args.gpus_per_node or NODE)
    rows = build_stage_table(_memory_options(args)._replace(world_size=size or args.gpus_per_node or NODE))
    limits = RequestedLimits(args.gpu, args.host, args.margin)
    if args.output_format == "json":
        answer = {
            "stages": [row.to_dict(limits) for row in rows],
            "verdict": render.best_stage_verdict(rows, limits),
        }
        sys.stdout.write(dump_json(answer, indent=2) + "\n")
    else:
        style = style_of(sys.stdout, args.color)
        lines = render.stage_table_lines(rows, limits, style)
        if size is None:
            count = args.gpus_per_node or NODE
            word = style.paint("assumed", "dim")
            lines = chain(lines, [f"{word}: {count} GPUs, those of one node; pass `--world-size`\n"])
        print_wrapped_lines(lines, style, sys.stdout)
    return exit_code_of_verdicts([render.best_stage_verdict(rows, limits)])


def _batch_error_advice(args: argparse.Namespace, error: ResolveError) -> tuple[str, ...]:
    """Return the hint for a config in which only the batch is invalid."""
    diagnostics = error.diagnostics
    only_batch = diagnostics and all(one.code.startswith(BATCH_RULES) for one in diagnostics)
    return (
        ("or pass `--micro-batch 1`: the other batch keys are derived from it",)
        if only_batch and not args.micro_batch
        else ()
    )


def _config_and_memory_options(args: argparse.Namespace) -> tuple[Document, MemoryOptions]:
    """Return the config and the options for its memory estimate."""
    from dsconfig.check.build_job import why_not_config
    from dsconfig.cli.command_inputs import job_from_arguments
    from dsconfig.job.job import JobFact
    from dsconfig.launch.classify_config_file import describes_job_without_config

    document = read_config_document(args.file, args.job)
    if describes_job_without_config(document):
        fail_with_usage_error(
            f"{document.name}: {why_not_config(document)}; without DeepSpeed, memory is not estimated "
            "(`--model` without a file estimates all ZeRO stages)"
        )
    require_known_values(document)
    job = job_from_arguments(args, document)
    size, facts = args.world_size, job.run_facts
    args.host = facts.host_memory if args.host is None else args.host
    args.gpus_per_node = args.gpus_per_node or facts.gpus_per_node
    if args.nodes is not None:
        if size is not None:
            fail_with_usage_error("--nodes and --world-size exclude each other")
        if args.gpus_per_node is None:
            fail_with_usage_error("--nodes requires --gpus-per-node")
        size = args.nodes * args.gpus_per_node
    if args.output is not None and args.fit is None:
        fail_with_usage_error("--output requires --fit")
    options = _memory_options(args)
    return document, options._replace(
        model=options.model or (facts.model and not facts.model.is_outside and facts.model.named) or None,
        target=None,
        consumer=None,
        launch=None,
        job=job if size is None else job._replace(world_size=JobFact(size, "argument", "--world-size")),
    )


def _memory_options(args: argparse.Namespace) -> MemoryOptions:
    """Return the options of `dsconfig memory`, other than those that select the config and its job."""
    from dsconfig.resolve.memory_options import MemoryOptions

    names = (
        *("sequence_length", "micro_batch", "attention", "checkpointing", "lora", "optimizer", "zero_init"),
        *("gpus_per_node", "sp", "imbalance", "launch", "loss", "quantize", "trainer", "vllm", "packing"),
        *("image_tokens", "train_vision", "expandable_segments"),
    )
    return MemoryOptions(
        _model_source(args),
        args.world_size,
        args.target,
        args.consumer,
        **{name: getattr(args, name) for name in names},
        set=dict(args.set or ()),
        training_args=read_mapping_file(args.training_args),
        gpu_limit=args.gpu.usable_bytes(args.margin) if args.gpu is not None else None,
        parameters=args.params,
        frozen_models=tuple(args.frozen_model or ()),
        gpu_bytes=args.gpu.least if args.gpu is not None else args.fit and args.fit.least,
    )


def _write_plot(estimate: Estimate, args: argparse.Namespace, suffix: str) -> None:
    from dsconfig.resolve.memory_output import draw_chart

    try:
        image = draw_chart(estimate, args.gpu and args.gpu.least, suffix)
    except ImportError:
        fail_with_usage_error(NEEDS_MATPLOTLIB)
    write_output_file(args.plot, image)


def _model_source(args: argparse.Namespace) -> ModelSource | None:
    sizes = (args.params, args.hidden, args.layers)
    optional = (args.heads, args.vocabulary)
    has_layers = any((*sizes[1:], *optional))
    if args.model is not None or not has_layers:
        if has_layers:
            fail_with_usage_error(
                "--model and --hidden, --layers, --heads or --vocabulary exclude each other"
            )
        model: ModelSource | None = args.model
        return model
    if not all(sizes):
        fail_with_usage_error("--hidden and --layers require each other and --params")
    from dsconfig.resolve.model_source import architecture_of_sizes

    return architecture_of_sizes(*sizes, heads=args.heads or 0, vocabulary=args.vocabulary or 0)


def _write_estimate(args: argparse.Namespace, estimate: Estimate) -> int:
    from dsconfig.memory import RequestedLimits
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve import memory_output as render

    limits = RequestedLimits(args.gpu, args.host, args.margin)
    if args.output_format == "json":
        sys.stdout.write(dump_json(estimate.to_dict() | limits.to_dict(estimate), indent=2) + "\n")
    elif args.output_format == "csv":
        sys.stdout.writelines(render.csv_lines(estimate))
    else:
        style = style_of(sys.stdout, args.color)
        print_wrapped_lines(render.estimate_lines(estimate, style, limits), style, sys.stdout)
    return exit_code_of_verdicts(limits.verdicts(estimate))


# `dsconfig memory --fit` and `--max`.


def exit_code_of_verdicts(verdicts: Iterable[Verdict | None]) -> int:
    """Return the exit code for the worst verdict."""
    kinds = set(verdicts)
    return PROBLEMS if "does not fit" in kinds else FAILED if kinds & {"unknown", "tight"} else CLEAN


def find_changes_that_fit(args: argparse.Namespace, document: Document, options: MemoryOptions) -> int:
    """Find and print the smallest changes that fit, and write the changed config if requested."""
    from dsconfig.memory import RequestedLimits
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve import memory_output as render
    from dsconfig.resolve.memory_fit import find_fit, write_fitted_config

    _reject_conflicting_options(args, document)
    limits = RequestedLimits(args.fit, args.host, args.margin)
    result = find_fit(document, options, limits)
    rewritten, failure = None, ""
    if args.output and result.fits:
        try:
            rewritten = write_fitted_config(
                document, options, result, document.name if args.output == "-" else args.output
            )
        except ValueError as error:  # the changes are printed anyway
            failure = str(error)
    removed, consumer_name = (rewritten.removed_keys, rewritten.consumer) if rewritten else ((), None)
    stream = sys.stderr if args.output == "-" and rewritten else sys.stdout
    if args.output_format == "json":
        answer = result.to_dict() | {"removed": list(removed), "consumer": consumer_name}
        stream.write(dump_json({"fit": answer}, indent=2) + "\n")
    else:
        style = style_of(stream, args.color)
        print_wrapped_lines(render.fit_lines(result, limits, style, removed, consumer_name), style, stream)
    if rewritten and args.output == "-":
        write_text(rewritten.text)
    elif rewritten:
        write_output_file(args.output, rewritten.text.encode())
    elif failure:
        fail_with_usage_error(failure)
    elif args.output:
        print_note(f"did not write {args.output}")
    return exit_code_of_verdicts([result.verdict])


def _reject_conflicting_options(args: argparse.Namespace, document: Document) -> None:
    """Reject mutually exclusive options before anything is computed."""
    from dsconfig.job.model_config_json import find_config_json
    from dsconfig.resolve.memory_fit import reject_launch_file

    if args.output_format == "csv":
        fail_with_usage_error("--fit supports the output formats text and json")
    for name in ("plot", "max", "gpu"):
        if getattr(args, name) is not None:
            fail_with_usage_error(f"--fit and --{name} exclude each other")
    if args.output is None:
        return
    args.output = "-" if is_stdout_target(args.output) else args.output
    if not args.output or os.path.isdir(args.output):
        fail_with_usage_error(f"--output {args.output}: expected a file name, or `-` for stdout")
    reject_launch_file(document)
    check_output_format(document, args.output)
    read = (args.training_args, getattr(args, "config", None), args.model and find_config_json(args.model))
    forbid_overwriting_sources(args.output, document, args.file, *read)


def find_largest_value(args: argparse.Namespace, document: Document, options: MemoryOptions) -> int:
    """Find and print the largest micro batch, sequence or model that fits."""
    from dsconfig.memory import RequestedLimits
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve import memory_output as render
    from dsconfig.resolve.memory_fit import find_largest_fit

    if args.gpu is None:
        fail_with_usage_error("--max requires --gpu")
    if args.output_format == "csv" or args.plot:
        fail_with_usage_error("--max supports the output formats text and json")
    result = find_largest_fit(document, options, args.max, RequestedLimits(args.gpu, None, args.margin))
    if args.output_format == "json":
        sys.stdout.write(dump_json({"max": result.to_dict()}, indent=2) + "\n")
    else:
        style = style_of(sys.stdout, args.color)
        print_wrapped_lines(render.largest_fit_lines(result, args.gpu, style), style, sys.stdout)
    return exit_code_of_verdicts([result.verdict])
