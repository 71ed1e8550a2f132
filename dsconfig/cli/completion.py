"""`dsconfig completion`: a script for a shell, made from the parser, so that it knows all that there is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from dsconfig.cli.arguments import tell_exit_codes
from dsconfig.cli.errors import CLEAN

SHELLS = ("bash", "zsh", "fish")
_USE = """to use it:
  bash  put this into ~/.bashrc: eval "$(dsconfig completion bash)"
  zsh   put this into ~/.zshrc, after compinit: eval "$(dsconfig completion zsh)"
  fish  put this into ~/.config/fish/config.fish: dsconfig completion fish | source"""
_FILES = ("FILE", "PATH", "OUT", "SCRIPT")
_FOLDERS = ("DIR",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")
    tell_exit_codes(parser, {CLEAN: "written"}, _USE)


def run(args: argparse.Namespace) -> int:
    """Write the script."""
    import shtab

    from dsconfig.cli import VERBS, parser_of

    parser = parser_of(VERBS)
    for action in _actions(parser):
        _say_values(action)
    sys.stdout.write(shtab.complete(parser, args.shell))
    return CLEAN


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  argparse lists them nowhere else
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                yield from _actions(each)


def _say_values(action: argparse.Action) -> None:
    """Tell shtab what completes the value of an option or argument."""
    import shtab

    from dsconfig.check.rule_selector import catalogue
    from dsconfig.cli import VERBS
    from dsconfig.consumers import CONSUMERS
    from dsconfig.core.releases import RELEASES
    from dsconfig.schema.presets import PRESETS

    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif metavar in ("RULES", "CODE|NAME|KEY"):
        action.choices = ["ALL", *catalogue(), *catalogue().values()][metavar != "RULES" :]
    elif metavar == "RELEASE":
        action.choices = [*reversed(RELEASES), "installed", "latest"]
    elif metavar == "READER":
        action.choices = list(CONSUMERS)
    elif metavar == "COMMAND" and action.nargs == "*":
        action.choices = list(VERBS)
    elif action.dest == "preset":
        action.choices = list(PRESETS)
