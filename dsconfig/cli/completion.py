"""`dsconfig completion`: generate a shell completion script from the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from dsconfig.cli.arguments import set_exit_codes
from dsconfig.cli.errors import CLEAN

SHELLS = ("bash", "zsh", "fish")
_USAGE = """installation:
  bash  add to ~/.bashrc: eval "$(dsconfig completion bash)"
  zsh   add to ~/.zshrc, after compinit: eval "$(dsconfig completion zsh)"
  fish  add to ~/.config/fish/config.fish: dsconfig completion fish | source"""
_FILES = ("FILE", "PATH", "OUT", "SCRIPT")
_FOLDERS = ("DIR",)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig completion` to its parser."""
    parser.set_defaults(run=run)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"shell: {', '.join(SHELLS)}")
    set_exit_codes(parser, {CLEAN: "script printed"}, _USAGE)


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig completion`, and return the exit code."""
    import shtab

    from dsconfig.cli import COMMANDS, build_parser

    parser = build_parser(COMMANDS)
    for action in _all_parser_actions(parser):
        _set_shtab_completion(action)
    sys.stdout.write(shtab.complete(parser, args.shell))
    return CLEAN


def _all_parser_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  argparse has no public list
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                yield from _all_parser_actions(each)


def _set_shtab_completion(action: argparse.Action) -> None:
    """Tell shtab how to complete the value of an option or argument."""
    import shtab

    from dsconfig.check.rule_selector import rule_names_by_code
    from dsconfig.cli import COMMANDS
    from dsconfig.core.releases import RELEASES
    from dsconfig.job.consumers import CONSUMERS
    from dsconfig.schema.presets import PRESETS

    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar in _FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif metavar in _FOLDERS:
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    elif metavar in ("RULES", "CODE|NAME|KEY"):
        action.choices = ["ALL", *rule_names_by_code(), *rule_names_by_code().values()][metavar != "RULES" :]
    elif metavar == "RELEASE":
        action.choices = [*reversed(RELEASES), "installed", "latest"]
    elif metavar == "CONSUMER":
        action.choices = list(CONSUMERS)
    elif metavar == "COMMAND" and action.nargs == "*":
        action.choices = list(COMMANDS)
    elif action.dest == "preset":
        action.choices = list(PRESETS)
