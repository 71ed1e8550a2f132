"""`dsconfig doctor`: check this machine and whether it can run a config."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_job_options,
    add_output_format_option,
    add_settings_options,
    set_exit_codes,
)
from dsconfig.cli.errors import CLEAN, PROBLEMS
from dsconfig.render.machine_readable import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsconfig.check.report import Report
    from dsconfig.cli.doctor.examine_machine import ConfigNeeds, MachineFact
    from dsconfig.cli.doctor.machine import Machine
    from dsconfig.render.terminal_style import TerminalStyle


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig doctor` to its parser."""
    parser.set_defaults(run=run)
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="config: also check whether this machine can run it")
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    add_job_options(parser)
    fail_on = "lowest status for exit code 1 (default: error)"
    add("--fail-on", choices=("error", "warning"), default="error", help=fail_on)
    add_output_format_option(parser)
    add_color_option(parser)
    add_settings_options(parser)
    set_exit_codes(parser, {CLEAN: "nothing at or above --fail-on", PROBLEMS: "problems found"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig doctor`, and return the exit code."""
    from dsconfig.cli.doctor import machine
    from dsconfig.cli.doctor.examine_machine import NO_NEEDS, examine_machine
    from dsconfig.render.terminal_style import style_of

    examined = machine.Machine()
    report = _check_for_installed_release(args, examined) if args.file else None
    items = [*examine_machine(examined, NO_NEEDS if report is None else _needs_of_config(report))]
    if report is not None:
        items += _config_items(report)
    if args.output_format == "json":
        sys.stdout.write(
            dump_json({"version": 1, "items": [each._asdict() for each in items]}, indent=1) + "\n"
        )
    else:
        sys.stdout.writelines(machine_report_lines(items, style_of(sys.stdout, args.color)))
    failing = ("error",) if args.fail_on == "error" else ("error", "warning")
    return PROBLEMS if any(each.status in failing for each in items) else CLEAN


def _check_for_installed_release(args: argparse.Namespace, machine: Machine) -> Report:
    """Check the config against the installed DeepSpeed release."""
    from dsconfig.check.check import check
    from dsconfig.cli.command_inputs import job_from_arguments, read_config_document
    from dsconfig.launch.located_config import locate_config

    document = read_config_document(args.file, args.job)
    located = locate_config(document)
    if args.target is None and "deepspeed" in machine.installed_versions:
        args.target = "installed"
    return check(located, job_from_arguments(args, document, located))


def _needs_of_config(report: Report) -> ConfigNeeds:
    """Return what the config, or the config that a launch file names, requires of the machine."""
    from dsconfig.check.check import config_as_release_parses_it
    from dsconfig.cli.doctor.examine_machine import ConfigNeeds

    for each in (*report.children, report):
        config = config_as_release_parses_it(each) if each.document is not None else None
        if config is not None:
            return ConfigNeeds(config, each.world_size)
    return ConfigNeeds({}, report.world_size)


def _config_items(report: Report) -> Iterator[MachineFact]:
    """Yield the known defects of the release that affect the config, and the number of other problems."""
    from dsconfig.cli.doctor.examine_machine import MachineFact

    diagnostics = [each for part in (report, *report.children) for each in part]
    for each in diagnostics:
        if each.code.startswith(_ADVISORIES):
            yield MachineFact("config", each.severity, each.message, each.help)
    errors = sum(each.severity == "error" and not each.code.startswith(_ADVISORIES) for each in diagnostics)
    release = f"DeepSpeed {report.target.text}"
    if errors:
        problems = "1 error" if errors == 1 else f"{errors} errors"
        yield MachineFact(
            "config", "error", f"{problems} with {release}", f"run `dsconfig check {report.name}`"
        )
    else:
        yield MachineFact("config", "ok", f"no error with {release}")


_ADVISORIES = "DSC88"
"""Prefix of the codes of rules that report known defects of releases."""
_TONES = {"ok": "good", "info": "info", "unknown": "dim", "warning": "warning", "error": "error"}


def machine_report_lines(items: Sequence[MachineFact], style: TerminalStyle) -> Iterator[str]:
    """Yield the facts about a machine as text, with a heading for each topic."""
    from dsconfig.render.terminal_style import escape_unprintable, wrap_line

    topic = None
    for each in items:
        if each.topic != topic:
            topic = each.topic
            yield f"{style.paint(topic, 'bold')}\n"
        status = style.paint(f"{each.status:8}", _TONES[each.status])
        yield f"{wrap_line(f'  {status} {escape_unprintable(each.message)}', style, 11)}\n"
        if each.help:
            yield f"{wrap_line(f'{chr(32) * 11}help: {escape_unprintable(each.help)}', style, 11)}\n"
