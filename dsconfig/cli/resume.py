"""`dsconfig resume`: show which parts of a checkpoint a config can load, and how to convert the others."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_config_argument,
    add_job_options,
    add_output_format_option,
    add_settings_options,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import os_error_reason, read_config_document
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error
from dsconfig.cli.output_files import write_text

if TYPE_CHECKING:
    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.checkpoint_resume import ResumeReport


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig resume` to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument(
        "folder", metavar="DIR", help="checkpoint folder that contains `latest`, or the folder of one step"
    )
    add_config_argument(parser)
    parser.add_argument("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    add_job_options(parser)
    add_output_format_option(parser)
    add_color_option(parser)
    add_settings_options(parser)
    blocked = "something must be converted or changed first, or is unknown"
    set_exit_codes(parser, {CLEAN: "the checkpoint can be loaded as it is", PROBLEMS: blocked})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig resume`, and return the exit code."""
    from dsconfig.cli.command_inputs import job_from_arguments
    from dsconfig.launch.located_config import locate_config
    from dsconfig.render.terminal_style import style_of
    from dsconfig.resolve.checkpoint_resume import compare_checkpoint, read_checkpoint
    from dsconfig.resolve.errors import ResolveError

    try:
        checkpoint = read_checkpoint(args.folder)
    except OSError as error:
        fail_with_usage_error(f"{args.folder}: {os_error_reason(error)}")
    if checkpoint is None:
        fail_with_usage_error(
            f"{args.folder}: no checkpoint of DeepSpeed: neither `latest`, nor a folder `global_step…` with states"
        )
    document = read_config_document(args.file, args.job)
    located = locate_config(document)
    try:
        resume = compare_checkpoint(checkpoint, located, job_from_arguments(args, document, located))
    except (ResolveError, ValueError) as error:
        fail_with_usage_error(str(error))
    if args.output_format == "json":
        write_text(_resume_as_json(resume))
    else:
        write_text("\n".join(_resume_as_text(resume, style_of(sys.stdout, args.color))) + "\n")
    return CLEAN if resume.verdict == "loads" else PROBLEMS


def _resume_as_json(resume: ResumeReport) -> str:
    data = {
        "version": 1,
        "verdict": resume.verdict,
        "release": resume.release,
        "world_size": resume.world_size,
        "checkpoint": resume.checkpoint._asdict(),
        "obstacles": [each._asdict() for each in resume.obstacles],
    }
    return json.dumps(data, indent=1) + "\n"


_TONES = {"blocked": "error", "unknown": "warning"}


def _resume_as_text(resume: ResumeReport, style: TerminalStyle) -> Iterator[str]:
    from dsconfig.render.terminal_style import escape_unprintable

    checkpoint = resume.checkpoint
    ranks = "" if checkpoint.data_parallel is None else f", {checkpoint.data_parallel} data-parallel ranks"
    split = f" × {checkpoint.model_parallel} that split the model" if checkpoint.model_parallel > 1 else ""
    precision = {True: ", bf16", False: ", not bf16", None: ""}[checkpoint.is_bf16]
    writer = ", written by the Trainer" if checkpoint.is_of_trainer else ""
    yield escape_unprintable(
        f"{os.path.normpath(checkpoint.path)}: {checkpoint.layout}{ranks}{split}{precision}{writer}"
    )
    for each in resume.obstacles:
        yield ""
        yield f"{style.paint(each.verdict, _TONES[each.verdict])}: {escape_unprintable(each.message)}"
        for remedy in each.remedies:
            yield f"  = help: {escape_unprintable(remedy)}"
        for command in each.commands:
            yield f"    {escape_unprintable(command)}"
    size = "" if resume.world_size is None else f" on {resume.world_size} ranks"
    endings = {
        "loads": f"DeepSpeed {resume.release} can load it{size}: files, ranks and stage agree.",
        "blocked": f"DeepSpeed {resume.release} cannot load it{size} as it is.",
        "unknown": "Not all facts are known.",
    }
    yield ""
    yield endings[resume.verdict]
