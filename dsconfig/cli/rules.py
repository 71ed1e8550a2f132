"""`dsconfig rules`: list the rules or advisories, one per line or as JSON."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_output_format_option,
    set_exit_codes,
    split_comma_list,
)
from dsconfig.cli.errors import CLEAN, fail_with_usage_error
from dsconfig.render.machine_readable import dump_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.rules import Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `dsconfig rules` to its parser."""
    parser.set_defaults(run=run)
    selection = "comma-separated codes, code prefixes, or names (default: ALL)"
    parser.add_argument("rules", nargs="*", type=split_comma_list, metavar="RULES", help=selection)
    parser.add_argument(
        "--advisories", action="store_true", help="list the advisories: known defects of releases"
    )
    add_output_format_option(parser)
    add_color_option(parser)
    set_exit_codes(parser, {CLEAN: "rules listed"})


def run(args: argparse.Namespace) -> int:
    """Run `dsconfig rules`, and return the exit code."""
    from dsconfig.check.rule_selector import UnknownRuleError, expand_selectors, rule_names_by_code
    from dsconfig.render.terminal_style import style_of
    from dsconfig.rules import RULES

    try:
        codes = expand_selectors(
            [word for each in args.rules for word in each] or ["ALL"], rule_names_by_code(), "rules"
        )
    except UnknownRuleError as error:
        fail_with_usage_error(str(error).removeprefix("rules: "))
    if args.advisories:
        _list_advisories(codes, args)
        return CLEAN
    shown = [RULES[code] for code in sorted(codes)]
    if args.output_format == "json":
        document = {"version": 1, "rules": [_rule_as_json(rule) for rule in shown]}
        sys.stdout.write(dump_json(document, indent=1) + "\n")
    else:
        sys.stdout.writelines(rule_lines(shown, style_of(sys.stdout, args.color)))
    return CLEAN


def _list_advisories(codes: Iterable[str], args: argparse.Namespace) -> None:
    """Print the advisories that the given rules report."""
    from dsconfig.core.diagnostic import Effect
    from dsconfig.render.terminal_style import style_of, wrap_line
    from dsconfig.rules._advisory_table import code_of_advisory, load_advisories

    selected = set(codes)
    shown = [each for each in load_advisories() if code_of_advisory(each) in selected]
    if args.output_format == "json":
        records = [
            each._asdict()
            | {"affected": each.affected, "remedies": each.remedies, "rule": code_of_advisory(each)}
            for each in shown
        ]
        sys.stdout.write(dump_json({"version": 1, "advisories": records}, indent=1) + "\n")
        return
    style = style_of(sys.stdout, args.color)
    for each in shown:
        effect = style.paint(f"{each.effect:8}", Effect(each.effect).severity)
        line = f"{style.paint(each.id, 'bold')}  {effect}  {each.affected}: {each.summary}"
        sys.stdout.write(f"{wrap_line(line, style, 2)}\n")


def rule_lines(rules: Iterable[Rule], style: TerminalStyle) -> Iterator[str]:
    """Yield a line for each rule with its code, effect, name and title."""
    from dsconfig.core.diagnostic import rule_url
    from dsconfig.render.terminal_style import wrap_line

    for rule in rules:
        code = style.link(style.paint(rule.code, "bold"), rule_url(rule.code))
        effect = style.paint(f"{rule.effect.value:10}", rule.effect.severity)
        yield wrap_line(f"{code}  {effect}  {rule.name}: {rule.title}", style, 20) + "\n"


def _rule_as_json(rule: Rule) -> dict[str, object]:
    from dsconfig.cli.markdown_to_terminal import dedent_docstring
    from dsconfig.core.diagnostic import rule_url

    return {
        "code": rule.code,
        "name": rule.name,
        "effect": rule.effect.value,
        "severity": rule.effect.severity,
        "title": rule.title,
        "since": rule.since,
        "until": rule.until,
        "source": rule.source,
        "explanation": "\n".join(dedent_docstring(rule.doc)),
        "url": rule_url(rule.code),
    }
