"""Command-line parser, options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import os
import re

from dsconfig.cli.errors import refuse
from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.consumer_versions import EXPECTED, is_known
from dsconfig.job.settings_file import FAIL_ON, MIN_SEVERITY

TYPE_CHECKING = False

if TYPE_CHECKING:
    from argparse import _ActionsContainer as Container
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from dsconfig.core.gpu_memory import Gpu


# Options that several verbs share, and the types of their values.

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


# Amounts of memory and numbers of things, as people write them on the command line.

MOST = 10**18
"""No number is counted up to this."""


def amount(text: str) -> int:
    """Bytes: `80GiB`, `512MiB`, `1.5TB`."""
    from dsconfig.core import gpu_memory

    try:
        return gpu_memory.amount(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def gpu(text: str) -> Gpu:
    """The memory of a GPU: an amount, a card's name, or the size by which cards are sold."""
    from dsconfig.core import gpu_memory

    try:
        return gpu_memory.gpu(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """A whole number above 0, which may be written as 7e9."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value >= MOST:
        raise argparse.ArgumentTypeError(f"expected a number below {MOST:.0e}, got `{text[:40]}`")
    if not value >= 1 or value != int(value):
        raise argparse.ArgumentTypeError(
            f"expected a whole number above 0, such as 4096 or 7e9, got `{text[:40]}`"
        )
    return int(value)


def times(text: str) -> float:
    """A number of at least 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < MOST:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got `{text[:40]}`")
    return value


# argparse as this command uses it: errors are one line with what was meant, help fills the terminal.

EXAMPLES = {
    f"dsconfig {verb}": f"dsconfig {verb} {arguments}"
    for verb, arguments in {
        "explain": "zero_optimization.stage",
        "migrate": "ds_config.json --from 0.14.5 --to 0.19.8 --write",
        "compat": "ds_config.json",
        "resolve": "ds_config.json --world-size 8",
        "show": "ds_config.json",
        "memory": "ds_config.json --model config.json --world-size 8",
        "editor": "vscode --write",
        "completion": "bash",
        "elastic plan": "ds_config.json --nodes 1:8",
        "elastic run": "--nnodes 1:4 --rdzv-endpoint HOST:29400 ds_config.json train.py",
        "elastic manifest": "--kind slurm --nnodes 1:4 ds_config.json train.py",
    }.items()
}
"""How commands are called that need an argument."""
_NUMBER = re.compile(r"-\.?\d")


class HelpFormatter(argparse.HelpFormatter):
    """Help in the terminal's width. argparse's own way to find it imports the compression modules."""

    def __init__(self, prog: str, **options: Any) -> None:
        from dsconfig.render.terminal import columns

        super().__init__(prog, **{"max_help_position": 30, "width": columns() - 2, **options})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Each line by itself: a table of exit codes stays one."""
        from textwrap import fill

        lines = text.splitlines()
        hanging = [indent + " " * _hanging(line) for line in lines]
        return "\n".join(
            fill(line, width, initial_indent=indent, subsequent_indent=under, break_on_hyphens=False)
            for line, under in zip(lines, hanging, strict=True)
        )


def _hanging(line: str) -> int:
    """Where the text of an entry begins: `  0  clean` → 5."""
    found = re.match(r" +\S+ {2,}| *", line)
    return found.end() if found else 0


class CommandParser(argparse.ArgumentParser):
    """A parser for the command or one verb."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog=prog, formatter_class=HelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Wrong use: no page of usage, just what is wrong."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            example = EXAMPLES.get(self.prog)
            verb = "are" if ", " in missing else "is"
            message = f"{missing} {verb} missing" + (f": write `{example}`" if example else "")
        refuse(f"{message} (see `{self.prog} --help`)")

    def add_version(self) -> None:
        """Add `--version`."""
        from dsconfig.core.version import __version__

        self.add_argument("-V", "--version", action="version", version=f"dsconfig {__version__}")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Refuse what nobody knows here, where the verb is known: argparse would do so at the root."""
        if args is not None and (name := self._stranger(args)) is not None:
            self._refuse_option(name)
        found, extras = super().parse_known_args(args, namespace)
        if extras:
            self.error(f"unexpected argument `{extras[0]}`")
        return found, extras

    def _stranger(self, args: Sequence[str]) -> str | None:
        """The first option that there is not; what stands after a verb or a script is not ours to judge."""
        known = self._option_string_actions
        ends = not {each.nargs for each in self._actions}.isdisjoint((argparse.PARSER, argparse.REMAINDER))
        words = iter(args)
        for word in words:
            if word == "--":
                return None
            if not word.startswith("-") or word == "-" or " " in word or _NUMBER.match(word):
                if ends:
                    return None
                continue
            name, equals, _ = word.partition("=")
            short = word[:2] if word[1] != "-" else name
            action = known.get(name) or known.get(short)
            if action is None:
                return name
            if action.nargs is None and not equals and word in known:
                next(words, None)
        return None

    def _refuse_option(self, name: str) -> NoReturn:
        from dsconfig.core.wording import closest

        close = closest(name, [option for option in self._option_string_actions if option[:2] == "--"])
        hint = f": did you mean `{close[0]}`?" if close else ""
        if not close and self._subparsers is not None:
            hint = ": options of a command stand after its name"
        self.error(f"unknown option `{name}`{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the word that was meant, or else all that there are."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"`{value}` is {_meant(str(value), action.choices)}")


def _meant(word: str, known: Iterable[str]) -> str:
    from dsconfig.core.wording import closest

    words = [str(each) for each in known]
    close = closest(word, words)
    return "unknown: " + (f"did you mean `{close[0]}`?" if close else f"expected one of {', '.join(words)}")


def tell_exit_codes(parser: argparse.ArgumentParser, codes: Mapping[int, str], more: str = "") -> None:
    """Say in the help what each exit code means; 2 means the same everywhere, unless it is among them.

    `more`: what else stands at the end of the help.
    """
    refused = "wrong use, a file that is no config or cannot be read or written, or an internal error"
    told = sorted({2: refused, **codes}.items())
    width = max(len(str(code)) for code, _ in told)
    lines = [f"  {code:<{width}}  {text}" for code, text in told]
    parser.epilog = "\n".join(["exit codes:", *lines, *(["", *more.splitlines()] if more else [])])


def unknown_verb(verb: str | None, verbs: Iterable[str]) -> NoReturn:
    """End the run: no verb, or none that is known."""
    known = ", ".join(verbs)
    if verb is None:
        refuse(f"no command given: expected one of {known} (see `dsconfig --help`)")
    if os.path.exists(verb):
        refuse(f"`{verb}` is not a command: did you mean `dsconfig check {verb}`?")
    from dsconfig.core.wording import closest

    close = closest(verb, verbs)
    hint = f"did you mean `{close[0]}`?" if close else f"expected one of {known}"
    refuse(f"`{verb}` is not a command: {hint}")
