"""`dsconfig migrate`: convert a config from one DeepSpeed release to another, and report the changes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_config_argument,
    add_job_options,
    add_settings_options,
    parse_output_path,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import (
    forbid_overwrite,
    forbid_overwriting_sources,
    job_from_arguments,
    os_error_reason,
    read_config_document,
    write_output_file,
)
from dsconfig.cli.errors import CLEAN, PROBLEMS, fail_with_usage_error
from dsconfig.core.diagnostic import dotted_path, truncate_middle
from dsconfig.core.releases import UnknownReleaseError, resolve_target
from dsconfig.fix.migrate import BLOCK_KEY, Migration, migrate
from dsconfig.job.job import JobFact, job_from_consumer
from dsconfig.render.terminal_style import escape_unprintable

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.document import Document
    from dsconfig.fix.migration_plan import MigrationChange, MigrationDecision
    from dsconfig.job.detect_consumer import ConsumerEvidence
    from dsconfig.launch.located_config import EditableConfig
    from dsconfig.render.terminal_style import TerminalStyle


# Given a launch file, the command migrates the config of its job: the file it names, or the embedded config.


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig migrate` to its parser."""
    parser.set_defaults(run=run)
    add_config_argument(parser)
    add = parser.add_argument
    add(
        "--to",
        metavar="RELEASE",
        help="release to migrate to (default: the installed one, else the latest known)",
    )
    origin = (
        "release that the config was written for, or `installed` (default: from `$dsconfig` or the settings)"
    )
    add("--from", dest="target", metavar="RELEASE", help=origin)
    add_job_options(parser)
    group = parser.add_argument_group("output", "default: print the new config on stdout")
    add = group.add_mutually_exclusive_group().add_argument
    add("--write", action="store_true", help="write the new config to FILE")
    add(
        "-o",
        "--output",
        type=parse_output_path,
        metavar="OUT",
        help="write the new config to this file",
    )
    add("--diff", action="store_true", help="print the changes as a diff instead of writing them")
    add = parser.add_argument_group("`elasticity` section", "for releases that reject it").add_argument
    copy = (
        "write the config with `elasticity` to this file (default: NAME.elasticity.json next to the output)"
    )
    add("--elasticity", metavar="FILE", help=copy)
    add("--keep-elasticity", action="store_true", help="keep `elasticity`, for `dsconfig elastic`")
    add_color_option(parser)
    add_settings_options(parser)
    open_decisions = "decisions are left to you, or the config cannot be migrated"
    set_exit_codes(parser, {CLEAN: "migrated, or nothing to change", PROBLEMS: open_decisions})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig migrate`, and return the exit code."""
    from dsconfig.cli.command_inputs import require_config
    from dsconfig.fix.migrate import map_migration_to_launch_file
    from dsconfig.render.terminal_style import style_of

    _check_output_files(args)
    document = read_config_document(args.file, args.job, is_written=args.write)
    require_config(document)
    for name in filter(None, (args.output, args.elasticity)):
        forbid_overwriting_sources(name, document, advice=_OVERWRITE_ADVICE)
    embedded = _config_of_launch_file(args, document)
    if embedded is not None and embedded.embedding is None:
        document, args.file = embedded.document, embedded.document.name
        _check_output_files(args)
    config = embedded.document if embedded is not None else document
    route = route_from_arguments(args, config, embedded)
    try:
        migration = route.migrate_document(config, keep=args.keep_elasticity)
    except ValueError as error:
        fail_with_usage_error(f"{route.known_from}: {error}")
    if embedded is not None and embedded.embedding is not None:
        migration = map_migration_to_launch_file(migration, embedded.embedding)
    elasticity_file = None if migration.stopped else _write_result(args, document, migration)
    # The text or the diff has stdout to itself.
    stream = sys.stdout if args.write or args.output else sys.stderr
    stream.write(migration_report(document, migration, route, elasticity_file, style_of(stream, args.color)))
    return PROBLEMS if migration.stopped or migration.decisions else CLEAN


def _config_of_launch_file(args: argparse.Namespace, document: Document) -> EditableConfig | None:
    """Return the config of the job that a launch file starts, or None if the document is a config itself."""
    from dsconfig.cli.errors import print_note
    from dsconfig.launch.located_config import find_editable_config

    if args.file == "-":
        return None
    try:
        config = find_editable_config(document)
    except OSError as error:
        fail_with_usage_error(f"{error.filename}: {os_error_reason(error)}")
    if config is not None:
        print_note(config.note)
    if args.write and config is not None and config.embedding is None:
        from dsconfig.cli.fix_files import belongs_to_repository

        path = os.path.realpath(config.document.name)
        if not belongs_to_repository(path, args.file):
            fail_with_usage_error(f"{config.document.name} is outside of this repository and is not changed")
    return config


_OVERWRITE_ADVICE = "use --write to overwrite it, or choose another name"


def _check_output_files(args: argparse.Namespace) -> None:
    if args.write and args.file == "-":
        fail_with_usage_error("--write needs a file: a config from stdin is written to stdout")
    for name in (args.output, args.elasticity):
        if name:
            forbid_overwrite(name, args.file, args.config, advice=_OVERWRITE_ADVICE)
    if args.output and args.elasticity and os.path.abspath(args.output) == os.path.abspath(args.elasticity):
        fail_with_usage_error(
            f"{args.output} is given both for the config and for the copy with the elasticity block"
        )


def _write_result(args: argparse.Namespace, document: Document, migration: Migration) -> str | None:
    """Print the diff or write the new text; return the name of the file with the `elasticity` block, if any."""
    from dsconfig.cli.output_files import (
        check_output_format,
        print_diff,
        rewrite_document,
        unified_diff,
        write_text,
    )
    from dsconfig.document.atomic_write import remove_stale_drafts

    check_output_format(document, args.output or "")
    if args.diff:
        print_diff(unified_diff(document.name, document.text, migration.text))
        return None
    elasticity_file = None if migration.elastic is None else _write_elasticity_copy(args, migration.elastic)
    if args.output:
        write_output_file(args.output, migration.text.encode())
    elif args.write:
        try:
            remove_stale_drafts(os.path.dirname(os.path.realpath(args.file)))
            rewrite_document(args.file, document, migration.text)
        except OSError as error:
            fail_with_usage_error(f"{args.file}: {os_error_reason(error)}")
    else:
        write_text(migration.text)
    return elasticity_file


def _write_elasticity_copy(args: argparse.Namespace, text: str) -> str | None:
    """Save the config with its `elasticity` block to a separate file before the block is removed."""
    name = args.elasticity
    if name is None:
        output = args.output or (args.file if args.write else None)
        if output is None:
            return None
        stem, suffix = os.path.splitext(output)
        name = f"{stem}.elasticity{suffix}"
    if os.path.lexists(name) and not _file_has_content(name, text):
        fail_with_usage_error(f"{name} already exists; choose another file with --elasticity")
    write_output_file(name, text.encode())
    return str(name)


def _file_has_content(name: str, text: str) -> bool:
    from dsconfig.core.file_access import read_contents

    try:
        return read_contents(name, len(text.encode())) == text.encode()
    except OSError:
        return False


# Releases, consumer and world size.

_ORIGIN_UNKNOWN = (
    "the release that the config was written for is unknown: pass --from RELEASE or --from installed, or add "
    f'`"{BLOCK_KEY}": {{"target": "RELEASE"}}` to the file'
)


@dataclass(frozen=True, slots=True)
class MigrationRoute:
    """The releases of a migration, with the consumer and the world size."""

    origin: str
    known_from: str
    to: str
    consumer: str
    world_size: int | None
    read_by: str = ""
    """The consumer and the evidence for it, in words."""

    def migrate_document(self, document: Document, *, keep: bool) -> Migration:
        """Migrate a config along this route.

        Raises:
            ValueError: the target release is not later than the origin.
        """
        from dsconfig.resolve.batch import elastic_batch_solver

        return migrate(
            document,
            self.to,
            self.origin,
            world_size=self.world_size,
            consumer=self.consumer,
            solve=elastic_batch_solver(self.origin, self.world_size) if self.world_size else None,
            keep=keep,
        )


def route_from_arguments(
    args: argparse.Namespace, document: Document, embedded: EditableConfig | None = None
) -> MigrationRoute:
    """Return the route that the arguments describe; end the run with an error if its origin is unknown.

    `embedded` is the config of a launch file, whose job sets the consumer and the world size.
    """
    job = job_from_arguments(args, document)
    if embedded is not None:
        evidence = job_from_consumer(job.reader if job.reader.explicit_consumer_spec else embedded.reader)
        size = embedded.world_size and JobFact(embedded.world_size, "launch file", embedded.note)
        job = job._replace(consumer=evidence.consumer, world_size=job.world_size or size or None)
    if args.target is None and job.releases.origin in ("installed", "latest"):
        fail_with_usage_error(_ORIGIN_UNKNOWN)
    source = _ORIGINS.get(job.releases.origin) or job.releases.source
    known_from = "--from" if args.target else source
    try:
        to = _single_release(resolve_target(args.to, "argument"), "--to")
    except UnknownReleaseError as error:
        fail_with_usage_error(f"--to: {error}")
    origin = _single_release(job.releases, known_from)
    return MigrationRoute(
        origin, known_from, to, job.reader.consumer_spec, job.ranks, _consumer_note(job.reader)
    )


_ORIGINS = {
    "environment": "DSCONFIG_TARGET",
    "file": "its own `$dsconfig`",
    "settings": "the settings",
    "argument": "--from",
}


def _single_release(target: ReleaseTarget, option: str) -> str:
    if len(target.releases) > 1:
        advice = "" if option.startswith("--") else "; pass --from RELEASE"
        message = f"`{target.text}` names {len(target.releases)} releases"
        fail_with_usage_error(f"{option}: {message}: migrate needs a single release{advice}")
    return target.releases[0]


def _consumer_note(reader: ConsumerEvidence) -> str:
    if reader.origin in ("argument", "default"):
        return f"read by {reader.name}"
    return f"{'probably ' * reader.likely}read by {reader.name} ({reader.why})"


# -- report ------------------------------------------------------------------------------------------------


def migration_report(
    document: Document,
    migration: Migration,
    route: MigrationRoute,
    elasticity_file: str | None,
    style: TerminalStyle,
) -> str:
    """Report the changes and the decisions left to the user, in the order in which to make them."""
    from dsconfig.render.terminal_style import wrap_lines

    return wrap_lines(
        "\n".join(_migration_report_lines(document, migration, route, elasticity_file, style)) + "\n", style
    )


def _migration_report_lines(
    document: Document,
    migration: Migration,
    route: MigrationRoute,
    elasticity_file: str | None,
    style: TerminalStyle,
) -> Iterator[str]:
    name = escape_unprintable(document.name)
    from_to = f"from {migration.origin} ({route.known_from}) to {migration.target}, {escape_unprintable(route.read_by)}"
    if migration.stopped is not None:
        yield f"{name}: not migrated {from_to}: {escape_unprintable(migration.stopped.reason)}"
        yield from _numbered_decisions("decide first", migration.stopped.first, style)
        yield from _list_section("help", migration.stopped.hints, style)
        return
    unchanged = "no changes" if migration.decisions else "nothing to change"
    yield f"{name}: {from_to}{'' if migration.changes else f': {unchanged}'}"
    for title in ("changed", "removed"):
        lines = [_describe_change(each) for each in migration.changes if each.kind == title]
        yield from _list_section(title, lines, style)
    if migration.elastic is not None:
        location = (
            f"is in {elasticity_file}"
            if elasticity_file
            else "is only written with --write, -o or --elasticity"
        )
        yield from _list_section("elasticity", (f"the config with its `elasticity` block {location}",), style)
    yield from _numbered_decisions("to decide, in this order", migration.decisions, style)


def _describe_change(change: MigrationChange) -> str:
    return f"{_format_location(change.path, change.line)}{change.what}\n    {change.why}"


def _list_section(title: str, lines: Sequence[str], style: TerminalStyle) -> Iterator[str]:
    if lines:
        yield f"\n{style.paint(title, 'bold')}"
        for line in lines:
            yield "\n".join(f"  {escape_unprintable(part)}" for part in line.split("\n"))


def _numbered_decisions(
    title: str, decisions: Sequence[MigrationDecision], style: TerminalStyle
) -> Iterator[str]:
    if decisions:
        yield f"\n{style.paint(title, 'bold')}"
    for number, each in enumerate(decisions, 1):
        place = _format_location(each.path, each.line, was=each.is_removed)
        yield f"  {number}. {escape_unprintable(place + each.why)}"
        for letter, choice in zip(_LETTERS, each.choices, strict=False):
            means = f": {choice.consequence}" if choice.consequence else ""
            yield f"     {letter}. {escape_unprintable(choice.what + means)}"


_LETTERS = "abcdefgh"
_LONGEST = 400
"""Maximal number of characters of a key that a line shows."""


def _format_location(path: KeyPath, line: int | None, *, was: bool = False) -> str:
    location = f"{'was line' if was else 'line'} {line}, " if line else ""
    return (
        f"{location}`{truncate_middle(dotted_path(path), _LONGEST)}`: "
        if path
        else location.replace(", ", ": ")
    )
