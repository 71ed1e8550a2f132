"""argparse as this command uses it: errors are one line with what was meant, help fills the terminal."""

from __future__ import annotations

import argparse
import os
import re

from dsconfig.cli.errors import refuse

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

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
        ends = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
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
