"""`dsconfig explain`: the page of a rule, or all that is known of a key."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.cli.arguments import add_color
from dsconfig.cli.errors import CLEAN, refuse
from dsconfig.cli.markdown import page
from dsconfig.render.style import Style, style_of

if TYPE_CHECKING:
    from dsconfig.rules import Rule


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(run=run)
    parser.add_argument("what", metavar="CODE|NAME|KEY", help="a rule's code or name, or a key's dotted path")
    add_color(parser)


def run(args: argparse.Namespace) -> int:
    """Show what is known."""
    style = style_of(sys.stdout, args.color)
    sys.stdout.write(_rules(args.what, style) or _key(args.what, style) or _unknown(args.what))
    return CLEAN


def _rules(word: str, style: Style) -> str | None:
    """One rule's page, or a line for each where the start of a code names several."""
    from dsconfig.checking.select import match
    from dsconfig.rules import RULES

    codes = sorted(match(word, {code: rule.name for code, rule in RULES.items()}))
    if len(codes) == 1:
        return _page(RULES[codes[0]], style)
    return "".join(f"{style.paint(c, 'bold')} {RULES[c].name}: {RULES[c].title}\n" for c in codes) or None


def _page(rule: Rule, style: Style) -> str:
    facts = [f"Effect: {rule.effect.value} ({rule.effect.severity}) as a rule"]
    if rule.since or rule.until:
        facts.append(f"Releases: {rule.since or 'the first'} to {rule.until or 'the latest'}")
    if rule.source:
        facts.append(f"Source: {rule.source}")
    heading = style.paint(f"{rule.code} {rule.name}", "bold")
    return f"{heading}\n\n{page(rule.doc, style)}\n" + "".join(f"{fact}\n" for fact in facts)


def _key(word: str, style: Style) -> str | None:
    from dsconfig.model.describe import describe

    text = describe(word)
    if text is None:
        ends = [path for path in _paths() if path.endswith(f".{word}")]
        if len(ends) > 1:
            shown = ends if len(ends) <= 8 else [*ends[:7], "..."]
            refuse(f"`{word}` is the name of several keys: {_listed(shown)}")
        text = describe(ends[0]) if ends else None
    return None if text is None else page(text, style)


def _unknown(word: str) -> str:
    from dsconfig.checking.select import catalogue
    from dsconfig.words import closest

    rules: Mapping[str, str] = catalogue()
    paths = _paths()
    by_last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    close = closest(word, [*rules, *rules.values(), *paths, *by_last], 3)
    names = list(dict.fromkeys(by_last.get(name, name) for name in close))
    hint = f": did you mean {_listed(names)}?" if names else ""
    refuse(f"`{word}` is neither a rule nor a key{hint}")


def _paths() -> list[str]:
    from dsconfig.model.paths import keys

    return list(dict.fromkeys(".".join(path) for path, _ in keys()))


def _listed(words: list[str]) -> str:
    quoted = [word if word == "..." else f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
