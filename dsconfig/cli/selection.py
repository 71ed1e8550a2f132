"""Which rules speak of which file, and which findings are fixed: settings, then the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import NamedTuple

from dsconfig.checking.discover import excluded
from dsconfig.checking.select import Layer, catalogue, expand, selected
from dsconfig.cli.errors import refuse
from dsconfig.settings import Settings


class Selection(NamedTuple):
    """The codes of the rules that are switched off, and of those whose findings are not fixed."""

    off: frozenset[str]
    unfixable: frozenset[str]
    per_file: tuple[tuple[str, str, frozenset[str]], ...]
    """A folder, a pattern relative to it, and the rules that are switched off in the files that it names."""

    def off_in(self, name: str) -> frozenset[str]:
        """The rules that do not speak of a file."""
        hits = (codes for root, pattern, codes in self.per_file if excluded(name, root, (pattern,)))
        return self.off.union(*hits)


def selection(
    args: argparse.Namespace, settings: Settings, overrides: Sequence[Settings], said: Settings
) -> Selection:
    """What is chosen; with `--no-ignores` the settings switch off nothing.

    Raises:
        UnknownRuleError: a selector names no rule.
    """
    rules = catalogue()
    layers = (settings, *overrides)
    chosen = (
        *(
            Layer(f"{each.where}: ", each.select, () if args.no_ignores else each.ignore, each.extend_select)
            for each in layers
        ),
        Layer("--", _given(args.select), _given(args.ignore) or (), _given(args.extend_select) or ()),
    )
    words = ("fixable", "", "unfixable")
    fixed = (
        *(Layer(f"{each.where}: ", each.fixable, each.unfixable, words=words) for each in layers),
        Layer("--", _given(args.fixable), _given(args.unfixable) or (), words=words),
    )
    every = frozenset(rules)
    return Selection(every - selected(chosen, rules), every - selected(fixed, rules), _per_file(args, said))


def _given(option: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if option is None else tuple(option)


def _per_file(args: argparse.Namespace, said: Settings) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """`--per-file-ignores` stands for those of the settings; what extends them holds in any case."""
    rules = catalogue()
    ours = () if args.no_ignores or args.per_file_ignores is not None else said.per_file_ignores
    where = f"{said.where}: per-file-ignores"
    given = (
        ("per-file-ignores", args.per_file_ignores),
        ("extend-per-file-ignores", args.extend_per_file_ignores),
    )
    return (
        *((said.root, pattern, expand(names, rules, where)) for pattern, names in ours),
        *(
            (os.getcwd(), pattern, expand(names, rules, f"--{option}"))
            for option, pairs in given
            for pattern, names in _pairs(pairs or (), option)
        ),
    )


def _pairs(words: Sequence[str], option: str) -> list[tuple[str, list[str]]]:
    """`a/*.json:DSC101,DSC2,b.json:DSC3`: a word with a colon begins the rules of another pattern."""
    pairs: list[tuple[str, list[str]]] = []
    for word in words:
        pattern, colon, rule = word.rpartition(":")
        if colon and pattern and rule:
            pairs.append((pattern, [rule]))
        elif pairs and not colon:
            pairs[-1][1].append(word)
        else:
            refuse(f"--{option} {word}: expected PATTERN:RULES, for example 'old/*.json:DSC101,DSC4'")
    return pairs
