"""Which rules speak of which file, and which findings are fixed: settings, then what is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dsconfig.check.discover import excluded
from dsconfig.check.requested_options import Asked
from dsconfig.check.rule_selector import Layer, catalogue, expand, selected
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.settings_file import Settings


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


def selection(asked: Asked, settings: Settings, overrides: Sequence[Settings], said: Settings) -> Selection:
    """What is chosen; with `--no-ignores` the settings switch off nothing.

    Raises:
        UnknownRuleError: a selector names no rule.
    """
    rules = catalogue()
    layers = (settings, *overrides)
    chosen = (
        *(
            Layer(f"{each.where}: ", each.select, () if asked.no_ignores else each.ignore, each.extend_select)
            for each in layers
        ),
        Layer("--", asked.select, asked.ignore or (), asked.extend_select or ()),
    )
    words = ("fixable", "", "unfixable")
    fixed = (
        *(Layer(f"{each.where}: ", each.fixable, each.unfixable, words=words) for each in layers),
        Layer("--", asked.fixable, asked.unfixable or (), words=words),
    )
    every = frozenset(rules)
    return Selection(every - selected(chosen, rules), every - selected(fixed, rules), _per_file(asked, said))


def _per_file(asked: Asked, said: Settings) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """`--per-file-ignores` stands for those of the settings; what extends them holds in any case."""
    rules = catalogue()
    ours = () if asked.no_ignores or asked.per_file_ignores is not None else said.per_file_ignores
    where = f"{said.where}: per-file-ignores"
    given = (
        ("per-file-ignores", asked.per_file_ignores),
        ("extend-per-file-ignores", asked.extend_per_file_ignores),
    )
    return (
        *((said.root, pattern, expand(names, rules, where)) for pattern, names in ours),
        *(
            (os.getcwd(), pattern, expand(names, rules, f"--{option}"))
            for option, pairs in given
            for pattern, names in pairs or ()
        ),
    )
