"""`dsconfig explain`: the page of a rule, or all that is known of a key."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color, tell_exit_codes
from dsconfig.cli.errors import CLEAN, FAILED, refuse
from dsconfig.cli.markdown_to_terminal import page
from dsconfig.core.diagnostic import page_of
from dsconfig.render.terminal import Style, style_of, wrapped

if TYPE_CHECKING:
    from dsconfig.rules import Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    parser.add_argument("what", metavar="CODE|NAME|KEY", help="a rule's code or name, or a key's dotted path")
    add_color(parser)
    tell_exit_codes(parser, {CLEAN: "shown", FAILED: "neither a rule nor a key, or wrong use"})


def run(args: argparse.Namespace) -> int:
    """Show what is known."""
    style = style_of(sys.stdout, args.color)
    sys.stdout.write(_rules(args.what, style) or _key(args.what, style) or _unknown(args.what))
    return CLEAN


def _rules(word: str, style: Style) -> str | None:
    """One rule's page, or a line for each where the start of a code names several."""
    from dsconfig.check.rule_selector import match
    from dsconfig.rules import RULES

    codes = sorted(match(word, {code: rule.name for code, rule in RULES.items()}))
    if len(codes) == 1:
        return _page(RULES[codes[0]], style)
    lines = (f"{style.paint(c, 'bold')} {RULES[c].name}: {RULES[c].title}" for c in codes)
    return "".join(f"{wrapped(line, style, 7)}\n" for line in lines) or None


def _page(rule: Rule, style: Style) -> str:
    facts = [f"Effect: {rule.effect.value} ({rule.effect.severity}) as a rule"]
    if rule.since or rule.until:
        facts.append(f"Releases: {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if rule.source:
        facts.append(f"Source: {rule.source}")
    facts.append(f"Page: {style.link(page_of(rule.code), page_of(rule.code))}")
    heading = style.paint(f"{rule.code} {rule.name}", "bold")
    return f"{heading}\n\n{page(rule.doc, style)}\n" + "".join(
        f"{wrapped(fact, style, 2)}\n" for fact in facts
    )


def _key(word: str, style: Style) -> str | None:
    from dsconfig.model.key_description import members
    from dsconfig.model.key_description import page as key_page

    text = key_page(word)
    if text is None:
        ends = [path for path in _paths() if path.endswith(f".{word}")]
        if len(ends) > 1:
            shown = ends if len(ends) <= 8 else [*ends[:7], "..."]
            refuse(f"`{word}` is the name of several keys: {_listed(shown)}")
        word = ends[0] if ends else word
        text = key_page(word) if ends else None
    return None if text is None else page(text, style) + _members(members(word), style)


def _members(keys: Mapping[str, str], style: Style) -> str:
    """A line for each key of a section."""
    if not keys:
        return ""
    width = min(max(map(len, keys)), 40)
    lines = (
        wrapped(
            f"  {style.paint(name, 'info')}{' ' * (width - len(name))}  {said}".rstrip(), style, width + 4
        )
        for name, said in keys.items()
    )
    return "\n".join(["", style.paint("Keys:", "bold"), *lines]) + "\n"


def _unknown(word: str) -> str:
    from dsconfig.check.rule_selector import catalogue
    from dsconfig.core.wording import closest

    rules: Mapping[str, str] = catalogue()
    paths = _paths()
    by_last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    known = [*rules, *rules.values(), *paths, *by_last]
    close = closest(word, known, 3) or _containing(word.lower(), known)
    names = list(dict.fromkeys(by_last.get(name, name) for name in close))
    hint = f": did you mean {_listed(names)}?" if names else ""
    refuse(f"`{word}` is neither a rule nor a key{hint}")


_MOST_NEAR = 6
"""Names in which a word stands that are told of."""


def _containing(word: str, known: Iterable[str]) -> list[str]:
    """The names in which the word is a part by itself, else those that it begins, shortest first."""
    for pattern in (rf"(?:^|[._-]){re.escape(word)}(?:$|[._-])", rf"(?:^|[._-]){re.escape(word)}"):
        found = [name for name in known if re.search(pattern, name.lower())]
        if found and len(word) > 1:
            top = [name for name in found if "." not in name] or found
            starts = sorted(top, key=lambda name: (not name.startswith(word), len(name)))
            return starts[:_MOST_NEAR]
    return []


def _paths() -> list[str]:
    from dsconfig.model.keyinfo import keys

    return list(dict.fromkeys(".".join(path) for path, _ in keys()))


def _listed(words: list[str]) -> str:
    quoted = [word if word == "..." else f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
