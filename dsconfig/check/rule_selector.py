"""Naming rules: by code (`DSC401`), by the start of one (`DSC4`), by name (`unknown-key`), or `ALL`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import closest


class UnknownRuleError(ValueError):
    """A selector that names no rule; the message is one line with the nearest that would."""


class Layer(NamedTuple):
    """What the settings, then the command line, say of the selection; the later layer has the last word."""

    prefix: str
    """What stands before `select` or `ignore` where this is written: `dsconfig.toml: ` or `--`."""
    select: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    extend_select: Sequence[str] = ()
    words: tuple[str, str, str] = ("select", "extend-select", "ignore")
    """What the options are called."""


def catalogue() -> dict[str, str]:
    """Every rule's name by its code."""
    from dsconfig.rules import RULES

    return {code: rule.name for code, rule in RULES.items()}


def match(selector: str, rules: Mapping[str, str]) -> frozenset[str]:
    """The codes that `selector` names; none where it names nothing. Codes may be written in small letters."""
    code = selector.upper()
    if code in rules:
        return frozenset((code,))
    if code == "ALL":
        return frozenset(rules)
    if code[:3] == "DSC":
        return frozenset(known for known in rules if known.startswith(code))
    from dsconfig.rules._former_names import FORMER_NAMES

    current = FORMER_NAMES.get(selector, selector)
    return frozenset(known for known, name in rules.items() if name == current)


def expand(selectors: Iterable[str], rules: Mapping[str, str], where: str) -> frozenset[str]:
    """The codes that `selectors` name together.

    Raises:
        UnknownRuleError: one of them names no rule; `where` says in the message where it was written.
    """
    codes: frozenset[str] = frozenset()
    for selector in selectors:
        found = match(selector, rules)
        if not found:
            raise UnknownRuleError(f"{where}: unknown rule `{selector}`{suggest(selector, rules)}")
        codes |= found
    return codes


def selected(layers: Iterable[Layer], rules: Mapping[str, str]) -> frozenset[str]:
    """The codes that are switched on after every layer has spoken.

    Within a layer the more exact selector wins: `select = ["DSC4"]`, `ignore = ["DSC401"]` leaves out DSC401,
    and `select = ["DSC401"]`, `ignore = ["DSC4"]` keeps it.

    Raises:
        UnknownRuleError: a selector names no rule.
    """
    on = frozenset(rules)
    for layer in layers:
        if layer.select is not None:
            on = frozenset()
        options = zip(layer.words, (layer.select or (), layer.extend_select, layer.ignore), strict=True)
        steps = [
            (expand((selector,), rules, f"{layer.prefix}{option}"), option == layer.words[-1])
            for option, selectors in options
            for selector in selectors
        ]
        # Fewest codes last is most exact last; on a tie the ignore comes last and wins.
        for codes, off in sorted(steps, key=lambda step: (-len(step[0]), step[1])):
            on = on - codes if off else on | codes
    return on


def suggest(word: str, rules: Mapping[str, str]) -> str:
    """A clause that names the rule nearest to `word`, empty where none is near."""
    close = closest(word.upper(), rules) or closest(word.lower(), rules.values())
    return f", did you mean `{close[0]}`?" if close else ""
