"""`dsconfig explain`: show the page of a rule, a key or an advisory, or the cause of an error message."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import (
    add_color_option,
    add_job_number_option,
    parse_consumer,
    parse_world_size,
    set_exit_codes,
)
from dsconfig.cli.command_inputs import read_config_document, read_stdin
from dsconfig.cli.errors import CLEAN, FAILED, fail_with_usage_error
from dsconfig.cli.markdown_to_terminal import render_markdown
from dsconfig.core.diagnostic import rule_url
from dsconfig.render.terminal_style import TerminalStyle, style_of, wrap_line

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.rules import Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.set_defaults(run=run)
    what = (
        "code or name of a rule, name of an advisory, dotted path of a key, or an error message or traceback "
        "(`-`: from stdin)"
    )
    parser.add_argument("what", nargs="+", metavar="CODE|NAME|KEY|MESSAGE", help=what)
    add = parser.add_argument_group("error messages").add_argument
    add("--config", metavar="FILE", help="config of the job: tell whether the error applies to it")
    add(
        "--target",
        metavar="RELEASE",
        help="DeepSpeed release that printed the message (default: as for check)",
    )
    add_job_number_option(add)
    add("--world-size", type=parse_world_size, metavar="N", help="number of processes of the job")
    add("--consumer", type=parse_consumer, metavar="CONSUMER", help="library that loads the config")
    add("--output-format", choices=("text", "json"), default="text", help="default: text")
    add_color_option(parser)
    set_exit_codes(
        parser, {CLEAN: "documentation shown", FAILED: "unknown rule, key or error message, or usage error"}
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    style = style_of(sys.stdout, args.color)
    what = " ".join(args.what)
    if what == "-":
        what = read_stdin("<stdin>").text
    text = None
    if args.output_format == "text" and len(what.split()) == 1:
        text = _explain_rules(what, style) or _explain_advisory(what, style) or _explain_key(what, style)
    sys.stdout.write(text or _explain_error_message(what, args, style) or _unknown_word_message(what))
    return CLEAN


def _explain_error_message(text: str, args: argparse.Namespace, style: TerminalStyle) -> str | None:
    """Explain an error message; None if the text contains no known one."""
    from dsconfig.cli.explain_error import explain_error, explanation_as_json, explanation_as_text
    from dsconfig.core.releases import UnknownReleaseError, resolve_target

    try:
        target = resolve_target(args.target)
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))
    explanation = explain_error(text, target, _check_config(args) if args.config else None)
    if explanation is None:
        return None
    return (
        explanation_as_json(explanation) + "\n"
        if args.output_format == "json"
        else explanation_as_text(explanation, style)
    )


def _check_config(args: argparse.Namespace) -> Report:
    """Check the config that the error is about."""
    from dsconfig.check.build_job import build_job, job_from_arguments
    from dsconfig.check.check import check
    from dsconfig.launch.located_config import locate_config

    located = locate_config(read_config_document(args.config, args.job))
    return check(located, build_job(located, job_from_arguments(args.target, args.world_size, args.consumer)))


def _explain_rules(word: str, style: TerminalStyle) -> str | None:
    """Page of one rule, or a line for each rule if a code prefix matches several."""
    from dsconfig.check.rule_selector import rules_matching_selector
    from dsconfig.rules import RULES

    codes = sorted(rules_matching_selector(word, {code: rule.name for code, rule in RULES.items()}))
    if len(codes) == 1:
        return _rule_page(RULES[codes[0]], style)
    lines = (f"{style.paint(c, 'bold')} {RULES[c].name}: {RULES[c].title}" for c in codes)
    return "".join(f"{wrap_line(line, style, 7)}\n" for line in lines) or None


def _rule_page(rule: Rule, style: TerminalStyle) -> str:
    facts = [f"Effect: {rule.effect.value} ({rule.effect.severity}) as a rule"]
    if rule.since or rule.until:
        facts.append(f"Releases: {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if rule.source:
        facts.append(f"Source: {rule.source}")
    from dsconfig.rules._former_names import former_names

    if former := former_names(rule.name):
        facts.append(f"Former name: {', '.join(former)}")
    facts.append(f"Page: {style.link(rule_url(rule.code), rule_url(rule.code))}")
    heading = style.paint(f"{rule.code} {rule.name}", "bold")
    return f"{heading}\n\n{render_markdown(rule.doc, style)}\n" + "".join(
        f"{wrap_line(fact, style, 2)}\n" for fact in facts
    )


def _explain_advisory(word: str, style: TerminalStyle) -> str | None:
    """Documentation of the advisory with this name."""
    from dsconfig.rules._advisory_table import advisory_documentation, load_advisories

    for each in load_advisories():
        if each.id == word.lower():
            heading = style.paint(each.id, "bold")
            return f"{heading}\n\n{render_markdown(chr(10).join(advisory_documentation(each)), style)}"
    return None


def _explain_key(word: str, style: TerminalStyle) -> str | None:
    from dsconfig.model.key_description import key_page, section_members

    text = key_page(word)
    if text is None:
        matches = [path for path in _all_key_paths() if path.endswith(f".{word}")]
        if len(matches) > 1:
            listed = matches if len(matches) <= 8 else [*matches[:7], "..."]
            fail_with_usage_error(f"`{word}` matches several keys: {_join_words(listed)}")
        word = matches[0] if matches else word
        text = key_page(word) if matches else None
    return (
        None
        if text is None
        else render_markdown(text, style) + _list_section_keys(section_members(word), style)
    )


def _list_section_keys(keys: Mapping[str, str], style: TerminalStyle) -> str:
    """Return a line for each key of a section."""
    if not keys:
        return ""
    width = min(max(map(len, keys)), 40)
    lines = (
        wrap_line(
            f"  {style.paint(name, 'info')}{' ' * (width - len(name))}  {summary}".rstrip(), style, width + 4
        )
        for name, summary in keys.items()
    )
    return "\n".join(["", style.paint("Keys:", "bold"), *lines]) + "\n"


def _unknown_word_message(word: str) -> str:
    if len(word.split()) > 1:
        fail_with_usage_error(
            "no known error message: paste the line that names the exception, and the lines after it"
        )
    from dsconfig.check.rule_selector import rule_names_by_code
    from dsconfig.core.wording import closest_words
    from dsconfig.rules._advisory_table import load_advisories

    rules: Mapping[str, str] = rule_names_by_code()
    paths = _all_key_paths()
    by_last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    candidates = [*rules, *rules.values(), *(each.id for each in load_advisories()), *paths, *by_last]
    close = closest_words(word, candidates, 3) or _names_containing(word.lower(), candidates)
    names = list(dict.fromkeys(by_last.get(name, name) for name in close))
    hint = f": did you mean {_join_words(names)}?" if names else ""
    fail_with_usage_error(f"`{word}` is not a rule, an advisory or a key{hint}")


_MAX_SUGGESTIONS = 6
"""Suggested names that contain the word."""


def _names_containing(word: str, names: Iterable[str]) -> list[str]:
    """Names that contain the word as a whole part, otherwise those where a part starts with it; shortest first."""
    for pattern in (rf"(?:^|[._-]){re.escape(word)}(?:$|[._-])", rf"(?:^|[._-]){re.escape(word)}"):
        matches = [name for name in names if re.search(pattern, name.lower())]
        if matches and len(word) > 1:
            top = [name for name in matches if "." not in name] or matches
            starts = sorted(top, key=lambda name: (not name.startswith(word), len(name)))
            return starts[:_MAX_SUGGESTIONS]
    return []


def _all_key_paths() -> list[str]:
    from dsconfig.model.key_table import iter_keys

    return list(dict.fromkeys(".".join(path) for path, _ in iter_keys()))


def _join_words(words: list[str]) -> str:
    quoted = [word if word == "..." else f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
