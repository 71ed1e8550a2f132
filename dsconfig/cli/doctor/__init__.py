"""`dsconfig doctor`: examine this machine, and what of a config it cannot do."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color, add_job_options, add_settings, add_text_or_json, set_exit_codes
from dsconfig.cli.errors import CLEAN, PROBLEMS
from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsconfig.check.report import Report
    from dsconfig.cli.doctor.examine_machine import Item, Needs
    from dsconfig.cli.doctor.machine import Machine
    from dsconfig.render.terminal_style import TerminalStyle


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="config: also show what of it this machine cannot do")
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    add_job_options(parser)
    fail_on = "lowest status for exit code 1 (default: error)"
    add("--fail-on", choices=("error", "warning"), default="error", help=fail_on)
    add_text_or_json(parser)
    add_color(parser)
    add_settings(parser)
    set_exit_codes(parser, {CLEAN: "nothing at or above --fail-on", PROBLEMS: "problems found"})


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dsconfig.cli.doctor import machine
    from dsconfig.cli.doctor.examine_machine import NO_NEEDS, examine
    from dsconfig.render.terminal_style import style_of

    examined = machine.Machine()
    report = _report(args, examined) if args.file else None
    items = [*examine(examined, NO_NEEDS if report is None else _needs(report))]
    if report is not None:
        items += _config_items(report)
    if args.output_format == "json":
        sys.stdout.write(
            as_json({"version": 1, "items": [each._asdict() for each in items]}, indent=1) + "\n"
        )
    else:
        sys.stdout.writelines(lines(items, style_of(sys.stdout, args.color)))
    failing = ("error",) if args.fail_on == "error" else ("error", "warning")
    return PROBLEMS if any(each.status in failing for each in items) else CLEAN


def _report(args: argparse.Namespace, machine: Machine) -> Report:
    """Check the config for the installed release."""
    from dsconfig.check.check import check
    from dsconfig.cli.command_inputs import job_from_args, read
    from dsconfig.launch.located_config import locate

    document = read(args.file)
    located = locate(document)
    if args.target is None and "deepspeed" in machine.versions:
        args.target = "installed"
    return check(located, job_from_args(args, document, located))


def _needs(report: Report) -> Needs:
    """Return what the config needs; a launch file has it in the report of the config that it refers to."""
    from dsconfig.check.check import parsed_config
    from dsconfig.cli.doctor.examine_machine import Needs

    for each in (*report.children, report):
        config = parsed_config(each) if each.document is not None else None
        if config is not None:
            return Needs(config, each.world_size)
    return Needs({}, report.world_size)


def _config_items(report: Report) -> Iterator[Item]:
    """Known defects of the release that apply to the config, and the number of other problems."""
    from dsconfig.cli.doctor.examine_machine import Item

    diagnostics = [each for part in (report, *report.children) for each in part]
    for each in diagnostics:
        if each.code.startswith(_ADVISORIES):
            yield Item("config", each.severity, each.message, each.help)
    errors = sum(each.severity == "error" and not each.code.startswith(_ADVISORIES) for each in diagnostics)
    release = f"DeepSpeed {report.target.text}"
    if errors:
        problems = "1 error" if errors == 1 else f"{errors} errors"
        yield Item("config", "error", f"{problems} with {release}", f"run `dsconfig check {report.name}`")
    else:
        yield Item("config", "ok", f"no error with {release}")


_ADVISORIES = "DSC88"
"""Prefix of the rules that report known defects of releases."""
_TONES = {"ok": "good", "info": "info", "unknown": "dim", "warning": "warning", "error": "error"}


def lines(items: Sequence[Item], style: TerminalStyle) -> Iterator[str]:
    """Yield the items as text, under a heading for each topic."""
    from dsconfig.render.terminal_style import printable, wrapped

    topic = None
    for each in items:
        if each.topic != topic:
            topic = each.topic
            yield f"{style.paint(topic, 'bold')}\n"
        status = style.paint(f"{each.status:8}", _TONES[each.status])
        yield f"{wrapped(f'  {status} {printable(each.message)}', style, 11)}\n"
        if each.help:
            yield f"{wrapped(f'{chr(32) * 11}help: {printable(each.help)}', style, 11)}\n"
