"""The `dsconfig` command line: a table of commands, one module each.

Exit codes: 0 for no problem at or above `--fail-on`, 1 for problems, 2 for a usage or internal error. An interrupted
run ends as shells expect: with 130 after Ctrl-C, with 141 after a broken pipe.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from argparse import Namespace

    from dsconfig.cli.arguments import CommandParser

COMMANDS = {
    "check": "check configs for problems",
    "fix": "fix problems in configs",
    "explain": "show the documentation of a rule or a key",
    "rules": "list the rules",
    "migrate": "convert a config from one DeepSpeed release to another",
    "compat": "show which DeepSpeed releases accept a config",
    "doctor": "check this machine, and whether it can run a config",
    "elastic": "plan and run jobs whose number of nodes changes",
    "resolve": "show the config that DeepSpeed runs with at a world size",
    "memory": "estimate the memory that training needs, and whether it fits",
    "show": "show the effective values, and where each comes from",
    "resume": "show whether a checkpoint can be loaded, and how to convert it",
    "schema": "print the JSON Schema of configs",
    "lsp": "run the language server",
    "editor": "set up an editor with the language server or the JSON Schema",
    "init": "create a config from a preset",
    "completion": "generate a shell completion script",
    "help": "show the help of a command",
}
"""Each command and its summary.

The module of a command in this package has `configure(parser)`, which declares the options and sets
`run(args) -> exit code`.
"""


def command_module(command: str) -> str:
    """Return the name of the module that implements a command."""
    return "dsconfig.lsp.lsp_command" if command == "lsp" else f"dsconfig.cli.{command}"


EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141
_GC_THRESHOLD = 200_000
"""Number of allocations before the garbage collector runs, which took a fifth of a check and freed 300 objects.

In a directory of 500 configs, which leave hardly any cycles either, collecting every 50,000 allocations took 3 %.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with `argv`, which defaults to the arguments of the process, and return the exit code."""
    if argv is None:
        gc.set_threshold(_GC_THRESHOLD)
    _prepare_standard_streams()
    try:
        args = _parse_arguments(sys.argv[1:] if argv is None else list(argv))
        code: int = args if isinstance(args, int) else args.run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        code = _exit_on_broken_pipe() if _is_broken_pipe(error) else _report_run_error(error)
    code = _flush_stdout(code)
    if argv is None:
        gc.freeze()  # spares the collection at interpreter exit
    return code


def _prepare_standard_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: the first file opened would get its descriptor
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        # Escape a character that the terminal cannot encode instead of failing. Windows would translate line feeds, and
        # write those of a diff of a file with `\r\n` as `\r\r\n`.
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", newline="\n")


def _flush_stdout(code: int) -> int:
    """Flush stdout and return the exit code."""
    try:
        sys.stdout.flush()
    except OSError as error:  # a full disk, mostly
        return _exit_on_broken_pipe() if _is_broken_pipe(error) else _output_error(error)
    return code


def _is_broken_pipe(error: Exception) -> bool:
    """Return whether an error is a broken pipe, which Windows reports as an invalid argument."""
    if isinstance(error, BrokenPipeError):
        return True
    is_invalid = isinstance(error, OSError) and (error.errno, error.filename) == (errno.EINVAL, None)
    return _IS_WINDOWS and is_invalid


_IS_WINDOWS = os.name == "nt"


def _exit_on_broken_pipe() -> int:
    _discard_buffer(sys.stdout)
    return EXIT_BROKEN_PIPE


def _report_run_error(error: Exception) -> int:
    """Print why a command failed, and return the exit code."""
    from dsconfig.cli.errors import FAILED, UsageError, print_error, print_internal_error

    if isinstance(error, UsageError):
        print_error(str(error))
    elif isinstance(error, OSError) and error.filename is None:
        return _output_error(error)
    elif isinstance(error, ImportError | AttributeError) and (problems := _shadowing_problems()):
        for problem in problems:
            print_error(problem)
    else:
        print_internal_error(error)
    return FAILED


def _shadowing_problems() -> list[str]:
    """Return why a module or name of dsconfig is missing, if other software hides dsconfig's packages."""
    try:
        from dsconfig.cli.shadowed_packages import shadowing_problems
    except ImportError:  # in a browser
        return []
    return list(shadowing_problems())


def _output_error(error: OSError) -> int:
    """Report that stdout cannot be written, and return the exit code; errors of other files name the file."""
    from dsconfig.cli.command_inputs import os_error_reason
    from dsconfig.cli.errors import FAILED, print_error

    _discard_buffer(sys.stdout)
    print_error(f"cannot write the output: {os_error_reason(error)}")
    return FAILED


def _parse_arguments(argv: list[str]) -> Namespace | int:
    """Parse the arguments; return the exit code instead if `--help` or `--version` was handled.

    Raises:
        UsageError: the arguments are invalid.
    """
    from dsconfig.cli.arguments import fail_for_unknown_command
    from dsconfig.cli.errors import UsageError

    try:
        os.getcwd()
    except OSError:
        raise UsageError("the working directory no longer exists") from None
    command = next((word for word in argv if not word.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        fail_for_unknown_command(command, COMMANDS)
    # Only `dsconfig --help` lists every command.
    parser = build_parser([command] if command else [], alone=command is not None and command == argv[0])
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    if command is None:
        fail_for_unknown_command(None, COMMANDS)
    return args


def build_parser(commands: Iterable[str], *, alone: bool = False) -> CommandParser:
    """Build the parser for some commands without importing the modules of the others.

    `alone` omits the names of all other commands.
    """
    from dsconfig.cli.arguments import CommandParser, set_exit_codes

    description = "Check DeepSpeed configs: find what DeepSpeed rejects, ignores or changes."
    parser = CommandParser("dsconfig", description=description)
    parser.add_version_option()
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", prog="dsconfig")
    for name in commands if alone else COMMANDS:
        summary = COMMANDS[name]
        subparser = subparsers.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        if name in commands:
            import_module(command_module(name)).configure(subparser)
    codes = {0: "no problems found", 1: "problems found", EXIT_INTERRUPTED: "interrupted by Ctrl-C"}
    footer = "`dsconfig help COMMAND` shows the options of a command."
    set_exit_codes(parser, {**codes, EXIT_BROKEN_PIPE: "broken pipe"}, footer)
    return parser


def _discard_buffer(stream: io.TextIOBase | object) -> None:
    """Discard a stream's buffered output, so that Python does not try to write it at exit and fail again."""
    if isinstance(stream, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
