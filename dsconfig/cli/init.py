"""`dsconfig init`: create a config from a preset, or one that fits a model and GPUs, with its launch command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dsconfig.cli.arguments import (
    add_schema_options,
    add_settings_options,
    parse_byte_size,
    parse_gpu_memory,
    parse_positive_count,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.errors import CLEAN, FAILED, PROBLEMS, fail_with_usage_error
from dsconfig.job.consumers import ELASTIC, HUGGING_FACE
from dsconfig.render.terminal_style import use_utf8

if TYPE_CHECKING:
    from dsconfig.cli.find_fitting_config import JobRequest
    from dsconfig.job.settings_file import SettingsFile

DEFAULT, FILE = "zero2", "ds_config.json"
OFFLOAD = ("auto", "none", "cpu", "nvme")
CONSUMERS = ("deepspeed", "transformers", "accelerate", "lightning")
"""Consumers for which a fitting config can be found; `elastic` has only a preset, because its world size varies."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig init` to its parser."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default=FILE,
        metavar="FILE",
        help=f"output file, or `-` for stdout; the suffix decides the format (default: {FILE})",
    )
    add(
        "--preset",
        metavar="NAME",
        help=f"name of a preset, see --list (default: {DEFAULT}, or the consumer's)",
    )
    add_schema_options(parser)
    add("--force", action="store_true", help="overwrite existing files")
    add("--list", action="store_true", help="list the presets, and exit")
    add("-y", "--yes", action="store_true", help="do not ask: use the options, and defaults for the rest")
    _add_job_options(parser)
    add_settings_options(parser)
    codes = {
        CLEAN: "config written, or presets listed",
        PROBLEMS: "no config fits the GPUs; nothing is written",
    }
    set_exit_codes(
        parser,
        codes,
        "With --model, or on a terminal, `init` writes a config that `dsconfig memory` says fits.",
    )


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("a config that fits").add_argument
    add("--model", metavar="MODEL", help="name such as llama-3-8b, or path of its config.json or directory")
    add(
        "--world-size",
        type=parse_world_size,
        metavar="N",
        help="number of GPUs (default: the GPUs of this machine)",
    )
    add(
        "--gpu",
        type=parse_gpu_memory,
        metavar="GPU",
        help="GPU such as h100, or its memory such as 80GiB (default: the GPU of this machine)",
    )
    add("--gpus-per-node", type=parse_world_size, metavar="N", help="GPUs per node (default: at most 8)")
    offload = (
        "what may be offloaded: auto (only what would not fit otherwise), none, cpu or nvme (default: auto)"
    )
    add("--offload", choices=OFFLOAD, metavar="WHERE", help=offload)
    add(
        "--host",
        type=parse_byte_size,
        metavar="SIZE",
        help="memory of a node, such as 1TiB (default: not checked)",
    )
    add(
        "--sequence-length",
        type=parse_positive_count,
        metavar="S",
        help="tokens per sequence (default: 2048)",
    )
    add("--lora", metavar="WHAT", help="train LoRA adapters, for example r=16,target=all")
    add(
        "--margin",
        type=parse_byte_size,
        metavar="SIZE",
        help="headroom on the GPU, instead of the estimate of fragmentation, CUDA context and NCCL buffers",
    )
    add("--script", default="train.py", metavar="FILE", help="training script to launch (default: train.py)")


JOB = ("model", "world_size", "gpu", "gpus_per_node", "offload", "host", "sequence_length", "lora", "margin")
"""Options that only the search for a fitting config uses."""


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig init`, and return the exit code."""
    from dsconfig.cli.command_inputs import schema_release_and_consumer, settings_of_folder
    from dsconfig.schema import presets

    if args.list:
        width = max(map(len, presets.PRESETS))
        for preset in presets.PRESETS.values():
            print(f"{preset.name:{width}}  {preset.summary}")
        return CLEAN
    named = [f"--{name.replace('_', '-')}" for name in JOB if getattr(args, name) is not None]
    if args.preset and named:
        fail_with_usage_error(
            f"--preset and {named[0]} exclude each other: with {named[0]}, the config is chosen by what fits"
        )
    _reject_existing_file(args.file, force=args.force)
    if args.preset is None and (named or _asks_questions(args)):
        request = _request_from_arguments(args, settings_of_folder(args))
        if request is not None:
            return _find_and_write_config(request, args)
    target, consumer = schema_release_and_consumer(args)
    try:
        text = presets.preset_text(args.preset or _default_preset(consumer), target, consumer, file=args.file)
    except presets.PresetError as error:
        fail_with_usage_error(f"{error}{_unsupported_preset_hint(args.preset, target.releases[-1])}")
    if args.file == "-":
        use_utf8(sys.stdout)
        sys.stdout.write(text)
        return CLEAN
    from dsconfig.cli.command_inputs import write_output_file
    from dsconfig.render.terminal_style import escape_unprintable

    write_output_file(args.file, text.encode())
    print(f"wrote {escape_unprintable(args.file)} for DeepSpeed {target.releases[-1]}")
    return CLEAN


def _reject_existing_file(name: str, *, force: bool) -> None:
    if name != "-" and os.path.lexists(name) and not force:
        fail_with_usage_error(f"{name} already exists; choose another name, or overwrite it with --force")


def _unsupported_preset_hint(name: str | None, release: str) -> str:
    """Return a hint for a preset that the release does not support, or "" otherwise."""
    from dsconfig.core.releases import release_number
    from dsconfig.schema.presets import PRESETS

    preset = PRESETS.get(name or "")
    if preset is None or release in preset.releases:
        return ""
    is_later = preset.until is not None and release_number(release) > release_number(preset.until)
    alternative = f", or run it on {release} with `dsconfig elastic run`" if is_later else ""
    return f": use --target {preset.releases[-1]}{alternative}"


def _default_preset(consumer: str | None) -> str:
    """Return the default preset for a consumer."""
    return consumer if consumer in (*HUGGING_FACE, ELASTIC) else DEFAULT


# The job, from options, settings, this machine, and questions on a terminal.

_T = TypeVar("_T")


def _asks_questions(args: argparse.Namespace) -> bool:
    """Return whether to ask questions: on a terminal, unless the user opted out or the config goes to stdout."""
    return not args.yes and args.file != "-" and sys.stdin.isatty() and sys.stdout.isatty()


def _request_from_arguments(args: argparse.Namespace, settings: SettingsFile) -> JobRequest | None:
    """Return the job for which to find a config, or None if no model is given."""
    from dsconfig.cli.command_inputs import schema_release_and_consumer
    from dsconfig.cli.find_fitting_config import JobRequest, default_sequence_length, detect_local_gpus

    here, card = detect_local_gpus()
    asks = _asks_questions(args)
    if asks:
        print("Enter takes the answer in brackets. Options and --yes skip the questions.")
    model = (
        args.model
        or settings.model
        or (
            asks
            and _ask_question("Model (a name such as llama-3-8b, or a path; empty: none)", "", _parse_model)
        )
    )
    if not model:
        if asks:
            return None
        fail_with_usage_error(
            "--model is missing: without it, `dsconfig init --preset NAME` writes a config for any model"
        )
    consumer = _known_or_asked(
        args.consumer or settings.consumer,
        asks,
        "Loaded by deepspeed, transformers, accelerate or lightning",
        "deepspeed",
        _parse_consumer,
    )
    size = _known_or_asked(
        args.world_size or settings.world_size, asks, "Number of GPUs", str(here or ""), parse_world_size
    )
    gpu_memory = _known_or_asked(
        args.gpu, asks, "GPU (a card such as h100, or its memory such as 80GiB)", card, parse_gpu_memory
    )
    offload = _known_or_asked(
        args.offload,
        asks,
        "Offload: auto (only what would not fit), none, cpu or nvme",
        "auto",
        _parse_offload,
    )
    missing = [option for option, value in (("--world-size", size), ("--gpu", gpu_memory)) if value is None]
    if size is None or gpu_memory is None:
        verb = "is" if len(missing) == 1 else "are"
        fail_with_usage_error(f"{' and '.join(missing)} {verb} missing, and this machine has no NVIDIA GPU")
    target, _ = schema_release_and_consumer(args)
    return JobRequest(
        model=str(model),
        world_size=size,
        gpus_per_node=min(args.gpus_per_node or settings.gpus_per_node or 8, size),
        gpu=gpu_memory,
        margin=args.margin,
        consumer=_parse_consumer(consumer or "deepspeed"),
        offload=offload or "auto",
        host=args.host or settings.host_memory,
        sequence_length=args.sequence_length or default_sequence_length(str(model)),
        lora=args.lora,
        target=target,
        file=FILE if args.file == "-" else args.file,
        script=args.script,
    )


def _known_or_asked(
    known: _T | None, asks: bool, question: str, default: str, parse: Callable[[str], _T]
) -> _T | None:
    """Return the known value, or else the user's answer or the default."""
    if known is not None:
        return known
    if asks:
        return _ask_question(question, default, parse)
    return parse(default) if default else None


def _ask_question(question: str, default: str, parse: Callable[[str], _T]) -> _T:
    """Ask the user a question until the answer is valid."""
    while True:
        try:
            text = input(f"{question}{f' [{default}]' if default else ''}: ").strip() or default
        except EOFError:
            print()  # the error message is not part of the question
            fail_with_usage_error("no answer; pass the options, or --yes")
        try:
            return parse(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            print(f"  {error}")


def _parse_model(text: str) -> str:
    """Parse the name of a model that `memory` can estimate; an empty answer means no model."""
    if text:
        from dsconfig.resolve.model_source import load_model

        try:
            load_model(text)
        except OSError as error:
            raise ValueError(f"{text}: {(error.strerror or str(error)).lower()}") from None
    return text


def _parse_consumer(text: str) -> str:
    name = text.partition("==")[0].partition(">")[0].partition("<")[0].strip()
    if name not in CONSUMERS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(CONSUMERS)}, got `{text}`")
    return name


def _parse_offload(text: str) -> str:
    if text not in OFFLOAD:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(OFFLOAD)}, got `{text}`")
    return text


# A config that fits, and its launch command.


def _find_and_write_config(request: JobRequest, args: argparse.Namespace) -> int:
    """Find a config that fits, write it with its launch command, and print why it was chosen."""
    from dsconfig.cli import find_fitting_config
    from dsconfig.cli.command_inputs import os_error_reason, write_output_file
    from dsconfig.cli.resolve_helpers import use_option_names
    from dsconfig.memory import UNKNOWN
    from dsconfig.render.terminal_style import escape_unprintable, style_of, wrap_lines

    to_stdout = args.file == "-"
    stream = sys.stderr if to_stdout else sys.stdout
    launch = os.path.join(os.path.dirname(request.file), find_fitting_config.SCRIPT_NAME)
    if not to_stdout:
        _reject_existing_file(launch, force=args.force)
    try:
        plan = find_fitting_config.find_fitting_config(request)
    except OSError as error:
        fail_with_usage_error(f"{error.filename}: {os_error_reason(error)}")
    except ValueError as error:
        fail_with_usage_error(escape_unprintable(use_option_names(str(error))))
    lines = [escape_unprintable(line) for line in find_fitting_config.search_report(plan)]
    style = style_of(stream)
    if plan.chosen is None:
        stream.write(wrap_lines("\n".join([*lines, ""]), style))
        return FAILED if plan.verdict == UNKNOWN else PROBLEMS
    text = find_fitting_config.config_text(request, plan.chosen.level, plan.chosen.micro_batch)
    script = find_fitting_config.launch_script(plan)
    if to_stdout:
        use_utf8(sys.stdout)
        sys.stdout.write(text)
    else:
        write_output_file(request.file, text.encode())
        write_output_file(launch, script.encode())
        lines.append(
            f"wrote {escape_unprintable(request.file)} and {escape_unprintable(launch)} for DeepSpeed "
            f"{request.target.releases[-1]}"
        )
        lines.append(f"start it: sh {escape_unprintable(launch)}{_training_script_hint(request)}")
    lines.append(f"check it again: {escape_unprintable(find_fitting_config.memory_command(plan))}")
    stream.write(wrap_lines("\n".join([*lines, ""]), style))
    return CLEAN


def _training_script_hint(request: JobRequest) -> str:
    return "" if os.path.exists(request.script) else f" (replace {request.script} with your script)"
