"""Options that several verbs share, and the types of their values."""

from __future__ import annotations

import argparse
import os

from dsconfig.cli.errors import refuse
from dsconfig.cli.size_arguments import amount
from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.consumer_versions import EXPECTED, is_known
from dsconfig.job.settings_file import FAIL_ON, MIN_SEVERITY

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from argparse import _ActionsContainer as Container
    from collections.abc import Callable

_READERS = f"who reads the file: {', '.join(CONSUMERS)}"
_READER = (
    f"{_READERS}, or a version such as transformers==4.45 (default: found out from it and what names it)"
)


def words(text: str) -> list[str]:
    """The words of a list joined by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def world_size(text: str) -> int:
    """A number of processes."""
    if not text.isdecimal() or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got `{text}`")
    if len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected at most 999999999, got `{text[:40]}`")
    return int(text)


def to_file(text: str) -> str | None:
    """The file that a result goes to; None for `-`: to stdout, as without one."""
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a file, or `-` for stdout")
    return None if text == "-" else text


def consumer(text: str) -> str:
    """Who reads the file."""
    if not is_known(text):
        raise argparse.ArgumentTypeError(f"expected {EXPECTED}, got `{text}`")
    return text


def add_file(parser: Container) -> None:
    """Declare the config as the one argument."""
    parser.add_argument("file", metavar="FILE", help="the config, or `-` for stdin")


def add_color(parser: Container) -> None:
    """Declare whether output is coloured."""
    choices = ("auto", "always", "never")
    parser.add_argument("--color", choices=choices, default="auto", help="default: on a terminal")


_LAUNCH = "the script or launch file whose arguments count, where several start a job with the config"


def launch_file(text: str) -> str:
    """A file that is there."""
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"no file `{text}`")
    return text


def add_launch(add: Callable[..., object]) -> None:
    """Declare the launch file that counts."""
    add("--launch", type=launch_file, metavar="FILE", help=_LAUNCH)


def add_circumstances(parser: Container) -> None:
    """Declare the world size and the consumer, for the verbs that have their own idea of releases."""
    add = parser.add_argument
    add("--world-size", type=world_size, metavar="N", help="the number of processes; unknown by default")
    add("--consumer", type=consumer, metavar="READER", help=_READER)
    add_launch(add)


def add_schema_choice(parser: Container) -> None:
    """Declare the release and the consumer, for the verbs that serve editors."""
    add = parser.add_argument
    add("--target", metavar="RELEASE", help="the release that reads the config (default: the installed one)")
    told = f"{_READERS} (default: any, so far as `auto` goes)"
    add("--consumer", choices=CONSUMERS, metavar="READER", help=told)


def add_filling(parser: Container) -> None:
    """Declare who reads the file, and what it fills "auto" from."""
    add = parser.add_argument_group("who reads the file").add_argument
    add("--consumer", type=consumer, metavar="READER", help=_READER)
    add_launch(add)
    add("--training-args", metavar="FILE", help="training arguments, JSON or YAML")
    add("--model-config", metavar="FILE", help="the model's config.json, for its hidden size")


def add_settings(parser: Container) -> None:
    """Declare which settings count."""
    add = parser.add_argument_group("settings").add_argument
    add("--config", metavar="FILE", help="take the settings of this file, whatever others there are")
    add("--isolated", action="store_true", help="take no settings from any file")


def add_checking(parser: Container) -> None:
    """Declare what is checked, and against what."""
    _add_paths(parser)
    add = parser.add_argument_group("what it is checked against").add_argument
    add("--target", metavar="RELEASE", help="a release, a range such as '>=0.14,<0.19.8', or installed")
    add("--world-size", type=world_size, metavar="N", help="the number of processes; unknown by default")
    add("--consumer", type=consumer, metavar="READER", help=_READER)
    add_launch(add)
    add("--training-args", metavar="FILE", help="what the consumer is started with, JSON or YAML")
    told = "the model: its config.json, its folder, or a name (default: what a launch file of the job names)"
    add("--model", metavar="MODEL", help=told)
    add("--host-memory", type=amount, metavar="SIZE", help="the memory of a host, such as 1TiB")
    told = "ranks that share a host (default: 8, or all of fewer)"
    add("--gpus-per-node", type=world_size, metavar="N", help=told)
    _add_rules(parser)


def _add_paths(parser: Container) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files, directories, or `-` for stdin (default: .)"
    )
    add = parser.add_argument_group(
        "which files", "PATTERNS: of files and folders, joined by commas"
    ).add_argument
    _lists(
        add,
        "PATTERNS",
        ("--exclude", "pass over these, and not over those of the settings' `exclude`"),
        ("--extend-exclude", "pass over these besides"),
    )
    told = "pick files that are named as those of a directory: by these patterns and by content"
    add("--force-exclude", action="store_true", help=told)
    add("--stdin-filename", metavar="NAME", help="the name that stdin's text goes by")


def _add_rules(parser: Container) -> None:
    told = "RULES: codes, starts of codes, names, or ALL, joined by commas"
    add = parser.add_argument_group("which rules", told).add_argument
    _lists(
        add,
        "RULES",
        ("--select", "switch on these rules only"),
        ("--ignore", "switch off these rules"),
        ("--extend-select", "switch on these rules besides"),
    )
    _lists(
        add,
        "PATTERN:RULES",
        ("--per-file-ignores", "switch off rules in some files, and not those of the settings"),
        ("--extend-per-file-ignores", "switch off rules in some files besides"),
    )
    add("--no-ignores", action="store_true", help="show also what files and settings say to ignore")
    add("--min-severity", choices=MIN_SEVERITY, help="show nothing less severe (default: info)")


def _lists(add: Callable[..., argparse.Action], metavar: str, *options: tuple[str, str]) -> None:
    """Declare options that take lists, and may be given several times."""
    for option, what in options:
        add(option, type=words, action="extend", metavar=metavar, help=what)


def add_verbosity(parser: Container, quiet: str) -> None:
    """Declare how much is said; `quiet`: what is left with `--quiet`."""
    parser.add_argument("-q", "--quiet", action="store_true", help=quiet)
    told = "say also which settings count, and which hidden folders are passed over"
    parser.add_argument("-v", "--verbose", action="store_true", help=told)


def add_result(parser: Container) -> None:
    """Declare what the exit code says."""
    add = parser.add_argument_group("result").add_argument
    add("--fail-on", choices=FAIL_ON, help="the least severity that ends in exit code 1 (default: warning)")
    add("--exit-zero", action="store_true", help="end in exit code 0 whatever is found")


def add_fixing(parser: Container, *, option: bool = False) -> None:
    """Declare how far fixing goes; `option`: whether fixing itself is asked for by `--fix`."""
    add = parser.add_argument_group("fixing").add_argument
    if option:
        add("--fix", action="store_true", help="fix what can be fixed safely, and show what is left")
    add("--unsafe-fixes", action="store_true", help="fix also where values change or something is lost")
    add("--diff", action="store_true", help="show the changes, and write none")
    if option:
        add("--show-fixes", action="store_true", help="list what was fixed, by file and rule")
    add("--exit-non-zero-on-fix", action="store_true", help="end in exit code 1 where a file was fixed")
    _lists(
        add,
        "RULES",
        ("--fixable", "fix findings of these rules only"),
        ("--unfixable", "fix no findings of these rules"),
    )


def refuse_stdin_name_alone(args: argparse.Namespace) -> None:
    """Refuse a name for stdin where stdin is not read."""
    if args.stdin_filename and "-" not in args.paths:
        refuse("--stdin-filename goes with `-` as PATH")
