"""The command-line parser, the options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import os
import re

from dsconfig.cli.errors import fail_with_usage_error
from dsconfig.job.consumers import CONSUMERS
from dsconfig.job.consumers.consumer_versions import EXPECTED_CONSUMER, is_consumer_spec
from dsconfig.job.settings_file import FAIL_ON, MIN_SEVERITY

TYPE_CHECKING = False

if TYPE_CHECKING:
    from argparse import _ActionsContainer as Container
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from dsconfig.core.gpu_memory import GpuMemory


# Options that several commands share, and the types of their values.

_LIBRARIES = f"library that loads the file: {', '.join(CONSUMERS[:-1])} or {CONSUMERS[-1]}"
_CONSUMER = f"{_LIBRARIES}, optionally with a version, as in transformers==4.45 (default: auto-detected)"


def split_comma_list(text: str) -> list[str]:
    """Split a comma-separated list into its items."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_world_size(text: str) -> int:
    """Parse a world size, the number of ranks."""
    if not text.isdecimal() or not text.strip("0"):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got `{text}`")
    if len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected at most 999999999, got `{text[:40]}`")
    return int(text)


def parse_output_path(text: str) -> str | None:
    """Parse the path to an output file; `-`, which means stdout, becomes None."""
    if not text:
        raise argparse.ArgumentTypeError("expected a file name, or `-` for stdout")
    return None if text == "-" else text


def parse_consumer(text: str) -> str:
    """Parse a consumer's name, which may be followed by a version."""
    if not is_consumer_spec(text):
        raise argparse.ArgumentTypeError(f"expected {EXPECTED_CONSUMER}, got `{text}`")
    return text


def add_config_argument(parser: Container) -> None:
    """Add the config as the only positional argument."""
    parser.add_argument("file", metavar="FILE", help="config file, or `-` for stdin")


def add_color_option(parser: Container) -> None:
    """Add `--color`."""
    choices = ("auto", "always", "never")
    parser.add_argument(
        "--color", choices=choices, default="auto", help="when to color the output (default: auto)"
    )


def add_output_format_option(parser: Container) -> None:
    """Add `--output-format`, which accepts text (the default) and JSON."""
    parser.add_argument(
        "--output-format", choices=("text", "json"), default="text", help="output format (default: text)"
    )


_LAUNCH = "script or launch file that starts the job, if several in the repository use the config"


def parse_launch_file_path(text: str) -> str:
    """Parse the path to a launch file, which must exist."""
    if not os.path.isfile(text):
        raise argparse.ArgumentTypeError(f"no such file: `{text}`")
    return text


def add_launch_option(add: Callable[..., object]) -> None:
    """Add `--launch`."""
    add("--launch", type=parse_launch_file_path, metavar="FILE", help=_LAUNCH)


def add_job_number_option(add: Callable[..., object]) -> None:
    """Add `--job`, for commands that report on a single job."""
    number = "number of the job in a script, or of the config in a Python file (default: the first)"
    add("--job", type=parse_world_size, metavar="N", help=number)


def add_job_options(parser: Container) -> None:
    """Add the options for world size, consumer and launch file, for commands with their own release options."""
    add = parser.add_argument
    add("--world-size", type=parse_world_size, metavar="N", help=_WORLD_SIZE)
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help=_CONSUMER)
    add_launch_option(add)
    add_job_number_option(add)


def add_schema_options(parser: Container) -> None:
    """Add the options for release and consumer, for commands about schemas and presets."""
    add = parser.add_argument
    add("--target", metavar="RELEASE", help="DeepSpeed release (default: the installed one)")
    consumers = f'{_LIBRARIES} (default: any, so "auto" is allowed wherever one of them resolves it)'
    add("--consumer", choices=CONSUMERS, metavar="CONSUMER", help=consumers)


def add_consumer_options(parser: Container) -> None:
    """Add the options for the consumer, and for the files from which it resolves "auto"."""
    add = parser.add_argument_group("consumer").add_argument
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help=_CONSUMER)
    add_launch_option(add)
    add_job_number_option(add)
    add("--training-args", metavar="FILE", help="training arguments of the consumer, a JSON or YAML file")
    add("--model-config", metavar="FILE", help="config.json of the model, for its hidden size")


def add_settings_options(parser: Container) -> None:
    """Add the options that select the settings file."""
    add = parser.add_argument_group("settings").add_argument
    add("--config", metavar="FILE", help="use this settings file instead of discovered ones")
    add("--isolated", action="store_true", help="ignore all settings files")


def add_check_options(parser: Container) -> None:
    """Add the options that select the files, rules, target and job of a check."""
    _add_path_options(parser)
    add = parser.add_argument_group("target and job").add_argument
    add("--target", metavar="RELEASE", help="release, range such as '>=0.14,<0.19.8', or `installed`")
    add("--world-size", type=parse_world_size, metavar="N", help=_WORLD_SIZE)
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help=_CONSUMER)
    add_launch_option(add)
    add("--training-args", metavar="FILE", help="training arguments of the consumer, a JSON or YAML file")
    model = "model: path of its config.json or directory, or a name (default: from the launch file)"
    add("--model", metavar="MODEL", help=model)
    add("--host-memory", type=parse_byte_size, metavar="SIZE", help="memory of a node, such as 1TiB")
    gpus = "GPUs per node (default: 8, or the world size if that is less)"
    add("--gpus-per-node", type=parse_world_size, metavar="N", help=gpus)
    _add_rule_options(parser)


def _add_path_options(parser: Container) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files, directories, or `-` for stdin (default: .)"
    )
    add = parser.add_argument_group(
        "file selection", "PATTERNS: comma-separated glob patterns of files and directories"
    ).add_argument
    _add_list_options(
        add,
        "PATTERNS",
        ("--exclude", "patterns to exclude; replaces `exclude` from the settings"),
        ("--extend-exclude", "patterns to exclude in addition to the settings"),
    )
    force = "apply exclusions and config detection also to named files (for hooks)"
    add("--force-exclude", action="store_true", help=force)
    add("--stdin-filename", metavar="NAME", help="file name to use for the text on stdin")


def _add_rule_options(parser: Container) -> None:
    rules = "RULES: comma-separated codes, code prefixes, names, or ALL"
    add = parser.add_argument_group("rule selection", rules).add_argument
    _add_list_options(
        add,
        "RULES",
        ("--select", "rules to enable; all others are disabled"),
        ("--ignore", "rules to disable"),
        ("--extend-select", "rules to enable in addition to the settings"),
    )
    _add_list_options(
        add,
        "PATTERN:RULES",
        ("--per-file-ignores", "rules to disable in matching files; replaces the settings"),
        ("--extend-per-file-ignores", "rules to disable in matching files, in addition to the settings"),
    )
    add("--no-ignores", action="store_true", help="also report problems that files or settings ignore")
    add("--min-severity", choices=MIN_SEVERITY, help="lowest severity to report (default: info)")


def _add_list_options(add: Callable[..., argparse.Action], metavar: str, *options: tuple[str, str]) -> None:
    """Add options that take a comma-separated list and may be repeated."""
    for option, description in options:
        add(option, type=split_comma_list, action="extend", metavar=metavar, help=description)


def add_verbosity_options(parser: Container, quiet: str) -> None:
    """Add `--quiet`, whose help text is `quiet`, and `--verbose`."""
    parser.add_argument("-q", "--quiet", action="store_true", help=quiet)
    verbose = "also print the settings file in use, and hidden directories that are skipped"
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)


def add_exit_options(parser: Container) -> None:
    """Add the options that determine the exit code."""
    add = parser.add_argument_group("exit code").add_argument
    add("--fail-on", choices=FAIL_ON, help="lowest severity for exit code 1 (default: warning)")
    add("--exit-zero", action="store_true", help="exit with 0 even if there are problems")


def add_fix_options(parser: Container, *, option: bool = False) -> None:
    """Add the options for applying fixes; with `option`, also add `--fix` and the options that require it."""
    add = parser.add_argument_group("fixes").add_argument
    if option:
        add("--fix", action="store_true", help="apply safe fixes, and report the remaining problems")
    add("--unsafe-fixes", action="store_true", help="also apply fixes that may change values or lose content")
    add("--diff", action="store_true", help="print the changes as a diff instead of writing them")
    if option:
        add("--show-fixes", action="store_true", help="list the applied fixes by file and rule")
    add("--exit-non-zero-on-fix", action="store_true", help="exit with 1 if any file was fixed")
    _add_list_options(
        add,
        "RULES",
        ("--fixable", "rules whose problems may be fixed"),
        ("--unfixable", "rules whose problems are never fixed"),
    )


def check_stdin_filename(args: argparse.Namespace) -> None:
    """Reject `--stdin-filename` for a command that does not read stdin."""
    if args.stdin_filename and "-" not in args.paths:
        fail_with_usage_error("--stdin-filename requires `-` as PATH")


# Sizes and counts on the command line.

LIMIT = 10**18
"""Upper bound of every number on the command line."""


def parse_byte_size(text: str) -> int:
    """Parse a size such as `80GiB`, `512MiB` or `1.5TB` into a number of bytes."""
    from dsconfig.core import gpu_memory

    try:
        return gpu_memory.parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_gpu_memory(text: str) -> GpuMemory:
    """Parse a GPU's memory, given as an amount, the name of a GPU, or its advertised size."""
    from dsconfig.core import gpu_memory

    try:
        return gpu_memory.parse_gpu_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_parameter_count(text: str) -> int:
    """Parse a parameter count such as `7B`, `350M` or `7e9`."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([kmbt])", text.strip().lower())
    if match is None:
        return parse_positive_count(text)
    return parse_positive_count(str(int(float(match[1]) * 1000 ** (1 + "kmbt".index(match[2])))))


def parse_positive_count(text: str) -> int:
    """Parse a positive whole number, which may be written as 7e9."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value >= LIMIT:
        raise argparse.ArgumentTypeError(f"expected a number below {LIMIT:.0e}, got `{text[:40]}`")
    if not value >= 1 or value != int(value):
        raise argparse.ArgumentTypeError(
            f"expected a whole number above 0, such as 4096 or 7e9, got `{text[:40]}`"
        )
    return int(value)


def parse_factor(text: str) -> float:
    """Parse a factor, a number of at least 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < LIMIT:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got `{text[:40]}`")
    return value


# argparse with one-line errors that suggest the closest option, and help as wide as the terminal.

EXAMPLES = {
    f"dsconfig {command}": f"dsconfig {command} {arguments}"
    for command, arguments in {
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
"""Example of each command that requires an argument, for the error about a missing one."""
_NUMBER = r"-\.?\d"
_WORLD_SIZE = "number of ranks (default: from the launch file, else unknown)"


class WideHelpFormatter(argparse.HelpFormatter):
    """Help formatter that uses the full width of the terminal."""

    def __init__(self, prog: str, **options: Any) -> None:
        from dsconfig.render.terminal_style import terminal_width

        super().__init__(prog, **{"max_help_position": 30, "width": terminal_width() - 2, **options})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap each line of the text separately, which preserves the table of exit codes."""
        from textwrap import fill

        lines = text.splitlines()
        indents = [indent + " " * _help_entry_indent(line) for line in lines]
        return "\n".join(
            fill(line, width, initial_indent=indent, subsequent_indent=subsequent, break_on_hyphens=False)
            for line, subsequent in zip(lines, indents, strict=True)
        )


def _help_entry_indent(line: str) -> int:
    """Return the column at which a help entry's text begins, such as 5 in ` 0 clean`."""
    match = re.match(r" +\S+ {2,}| *", line)
    return match.end() if match else 0


class CommandParser(argparse.ArgumentParser):
    """Argument parser for `dsconfig` or one of its commands."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog=prog, formatter_class=WideHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Report a usage error on one line, without the usage text."""
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            example = EXAMPLES.get(self.prog)
            verb = "are" if ", " in missing else "is"
            message = f"{missing} {verb} missing" + (f", for example `{example}`" if example else "")
        fail_with_usage_error(f"{message} (see `{self.prog} --help`)")

    def add_version_option(self) -> None:
        """Add `--version`."""
        from dsconfig.core.version import __version__

        self.add_argument("-V", "--version", action="version", version=f"dsconfig {__version__}")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the arguments, and reject unknown options here, where the command is known, instead of at the root."""
        if args is not None and (name := self._first_unknown_option(args)) is not None:
            self._reject_option(name)
        parsed, extras = super().parse_known_args(args, namespace)
        repeated = next(
            (each for each in self._actions if not each.option_strings and each.nargs in ("*", "+")), None
        )
        if extras and repeated is not None:
            # argparse takes only the words before the first option: `check a.json --world-size 8 b.json`.
            try:
                values = [self._get_value(repeated, word) for word in extras]
            except argparse.ArgumentError as error:
                self.error(str(error))
            setattr(parsed, repeated.dest, [*(getattr(parsed, repeated.dest) or ()), *values])
            extras = []
        if extras:
            self.error(f"unexpected argument `{extras[0]}`")
        return parsed, extras

    def _first_unknown_option(self, args: Sequence[str]) -> str | None:
        """Return the first unknown option, ignoring the arguments of a subcommand or script."""
        actions = self._option_string_actions
        ends = not {each.nargs for each in self._actions}.isdisjoint((argparse.PARSER, argparse.REMAINDER))
        words = iter(args)
        for word in words:
            if word == "--":
                return None
            if not word.startswith("-") or word == "-" or " " in word or re.match(_NUMBER, word):
                if ends:
                    return None
                continue
            name, equals, _ = word.partition("=")
            short = word[:2] if word[1] != "-" else name
            action = actions.get(name) or actions.get(short)
            if action is None:
                return name
            if action.nargs is None and not equals and word in actions:
                next(words, None)
        return None

    def _reject_option(self, name: str) -> NoReturn:
        from dsconfig.core.wording import closest_words

        close = closest_words(name, [option for option in self._option_string_actions if option[:2] == "--"])
        hint = f": did you mean `{close[0]}`?" if close else ""
        if not close and self._subparsers is not None:
            hint = ": options of a command come after its name"
        self.error(f"unknown option `{name}`{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject an invalid choice, suggesting the closest one or listing all of them."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(
                action, f"`{value}` is {_suggest_choice(str(value), action.choices)}"
            )


def _suggest_choice(word: str, choices: Iterable[str]) -> str:
    from dsconfig.core.wording import closest_words

    words = [str(each) for each in choices]
    close = closest_words(word, words)
    return "unknown: " + (f"did you mean `{close[0]}`?" if close else f"expected one of {', '.join(words)}")


def set_exit_codes(parser: argparse.ArgumentParser, codes: Mapping[int, str], footer: str = "") -> None:
    """Document the exit codes at the end of the help; `codes` may redefine code 2.

    `footer` is printed after the exit codes.
    """
    failed = "usage error, a file that is not a config or cannot be read or written, or an internal error"
    meanings = sorted({2: failed, **codes}.items())
    width = max(len(str(code)) for code, _ in meanings)
    lines = [f"  {code:<{width}}  {text}" for code, text in meanings]
    parser.epilog = "\n".join(["exit codes:", *lines, *(["", *footer.splitlines()] if footer else [])])


def fail_for_unknown_command(command: str | None, commands: Iterable[str]) -> NoReturn:
    """End the run with an error because `command` is missing or unknown."""
    names = ", ".join(commands)
    if command is None:
        fail_with_usage_error(
            "no command given: `dsconfig check` checks the configs below this folder, "
            "`dsconfig --help` lists the commands"
        )
    if os.path.exists(command):
        fail_with_usage_error(f"`{command}` is not a command: did you mean `dsconfig check {command}`?")
    from dsconfig.core.wording import closest_words

    close = closest_words(command, commands)
    hint = f"did you mean `{close[0]}`?" if close else f"expected one of {names}"
    fail_with_usage_error(f"`{command}` is not a command: {hint}")
