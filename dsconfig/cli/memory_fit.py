"""`dsconfig memory --fit` and `--max`: the smallest changes that fit a GPU, and the largest that does."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dsconfig.cli.errors import CLEAN, FAILED, FINDINGS, note, refuse
from dsconfig.cli.files import is_stdout, refuse_inputs, write
from dsconfig.cli.output import put, refuse_unlike
from dsconfig.cli.resolve_helpers import tell
from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from dsconfig.core.gpu_memory import Gpu
    from dsconfig.document import Document
    from dsconfig.resolve.memory import Verdict
    from dsconfig.resolve.memory_request import Options


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
    from dsconfig.resolve import memory_text as render
    from dsconfig.resolve.fit_output import written
    from dsconfig.resolve.fit_search import fitted

    _refuse(args, document)
    free = margin(args, args.fit)
    found = fitted(document, options, args.fit.room(args.margin), args.host)
    done, failed = None, ""
    if args.output and found.fits:
        try:
            done = written(document, options, found, document.name if args.output == "-" else args.output)
        except ValueError as error:  # the changes are told even so
            failed = str(error)
    out, said = (done.out, done.consumer) if done else ((), None)
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
    from dsconfig.job.model_files import config_at
    from dsconfig.resolve.fit_output import refuse_launch_file

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
    refuse_launch_file(document)
    refuse_unlike(document, args.output)
    read = (args.training_args, getattr(args, "config", None), args.model and config_at(args.model))
    refuse_inputs(args.output, document, args.file, *read)


def largest(args: argparse.Namespace, document: Document, options: Options) -> int:
    """Find the largest of a kind that fits, and tell it."""
    from dsconfig.render.terminal import style_of
    from dsconfig.resolve import memory_text as render
    from dsconfig.resolve.max_search import largest

    if args.gpu is None:
        refuse("--max goes with --gpu")
    if args.output_format == "csv" or args.plot:
        refuse("--max gives text or json")
    found = largest(document, options, args.max, args.gpu.room(args.margin))
    if args.output_format == "json":
        sys.stdout.write(as_json({"max": found.to_dict()}, indent=2) + "\n")
    else:
        style = style_of(sys.stdout, args.color)
        tell(render.max_lines(found, args.gpu, style), style, sys.stdout)
    return exit_code([found.verdict])
