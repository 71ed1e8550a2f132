"""The `dsconfig` command: a table of verbs, a small module each.

Exit codes: 0 nothing at or above `--fail-on`, 1 findings, 2 wrong use or an internal error. A run that is cut
off ends as the shell expects: 130 after Ctrl-C, 141 when the reader of a pipe has gone.
"""

from __future__ import annotations

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

VERBS = {
    "check": "say what DeepSpeed will do with a config",
    "fix": "fix a config where it can be fixed",
    "explain": "tell all about a rule or a key",
    "rules": "list the rules",
    "migrate": "take a config from one release to another",
    "compat": "say which releases take a config",
    "elastic": "plan jobs that shrink and grow",
    "resolve": "give the config that a release runs with at a world size",
    "memory": "tell what a rank and a host hold in training, and whether it fits",
    "show": "tell which values count, and where each comes from",
    "schema": "give the JSON Schema of a config, for editors",
    "lsp": "serve an editor: findings, fixes and completion as you type",
    "editor": "connect an editor with the schema",
    "init": "write a config to start from",
    "completion": "write what completes commands and options in a shell",
    "help": "show the help of a command",
}
"""Each verb and what it does.

Its module here has `configure(parser)`, which declares the options and the default `run(args) -> exit code`.
"""


def module_of(verb: str) -> str:
    """The module of a verb: the language server brings its own, as it is a package of its own."""
    return "dsconfig.lsp.command_line" if verb == "lsp" else f"dsconfig.cli.{verb}"


INTERRUPTED, PIPE_CLOSED = 130, 141
_COLLECT_AFTER = 50_000
"""New objects until Python looks for cycles: that was a fifth of a check, which leaves 300 in them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default the process's own, and return its exit code."""
    if argv is None:
        gc.set_threshold(_COLLECT_AFTER)
    _ready_streams()
    try:
        args = _parsed(sys.argv[1:] if argv is None else list(argv))
        code: int = args if isinstance(args, int) else args.run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        code = _closed()
    except Exception as error:
        code = _failed(error)
    code = _flushed(code)
    if argv is None:
        gc.freeze()  # the process ends: nor need Python search all that is left
    return code


def _ready_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, and the first file opened would take its number
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        # A character that the terminal cannot show is no reason to fail.
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """The exit code once everything is written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _closed()
    except OSError as error:  # a full disk, mostly
        return _unwritten(error)
    return code


def _closed() -> int:
    _abandon(sys.stdout)
    return PIPE_CLOSED


def _failed(error: Exception) -> int:
    """Say why the run has failed."""
    from dsconfig.cli.errors import FAILED, UsageError, complain, complain_internal

    if isinstance(error, UsageError):
        complain(str(error))
    elif isinstance(error, OSError) and error.filename is None:
        return _unwritten(error)
    else:
        complain_internal(error)
    return FAILED


def _unwritten(error: OSError) -> int:
    """Say that the output cannot be written: whatever is read or written besides says so itself."""
    from dsconfig.cli.errors import FAILED, complain
    from dsconfig.cli.inputs import reason

    _abandon(sys.stdout)
    complain(f"the output cannot be written: {reason(error)}")
    return FAILED


def _parsed(argv: list[str]) -> Namespace | int:
    """The arguments with the verb's `run`; the exit code where there is nothing to run.

    Raises:
        UsageError: the arguments are none of this command.
    """
    from dsconfig.cli.arguments import unknown_verb
    from dsconfig.cli.errors import UsageError

    try:
        os.getcwd()
    except OSError:
        raise UsageError("the working directory is gone") from None
    verb = next((word for word in argv if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        unknown_verb(verb, VERBS)
    # Only help of the command itself lists the other verbs.
    parser = parser_of([verb] if verb else [], alone=verb is not None and verb == argv[0])
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    if verb is None:
        unknown_verb(None, VERBS)
    return args


def parser_of(verbs: Iterable[str], *, alone: bool = False) -> CommandParser:
    """The parser with the options of these verbs: the others' modules are not even imported.

    `alone`: without the other verbs.
    """
    from dsconfig.cli.arguments import CommandParser, tell_exit_codes

    told = "Tells whether DeepSpeed will take a config and do what it says."
    parser = CommandParser("dsconfig", description=told)
    parser.add_version()
    found = parser.add_subparsers(title="commands", metavar="COMMAND", prog="dsconfig")
    for name in verbs if alone else VERBS:
        summary = VERBS[name]
        own = found.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if name in verbs:
            import_module(module_of(name)).configure(own)
    codes = {0: "nothing to complain of", 1: "findings", INTERRUPTED: "ended by Ctrl-C"}
    more = "`dsconfig help COMMAND` shows the options of a command."
    tell_exit_codes(parser, {**codes, PIPE_CLOSED: "who reads the output has gone"}, more)
    return parser


def _abandon(stream: io.TextIOBase | object) -> None:
    """Send what is still in the buffer nowhere: Python would try again at exit, and complain."""
    if isinstance(stream, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
