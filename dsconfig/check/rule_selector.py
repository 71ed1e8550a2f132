"""Select rules by code (`DSC401`), code prefix (`DSC4`), name (`unknown-key`) or `ALL`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import closest_words


class UnknownRuleError(ValueError):
    """A selector matches no rule; the one-line message suggests the closest selector."""


class RuleSelectionLayer(NamedTuple):
    """The rule selection from one source, a settings file or the command line; later layers take precedence."""

    prefix: str
    """The text before `select` or `ignore` in messages: `dsconfig.toml: ` or `--`."""
    select: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    extend_select: Sequence[str] = ()
    option_names: tuple[str, str, str] = ("select", "extend-select", "ignore")
    """The names of the three selection options in this source."""


def rule_names_by_code() -> dict[str, str]:
    """Return the names of all rules by code."""
    from dsconfig.rules import RULES

    return {code: rule.name for code, rule in RULES.items()}


def rules_matching_selector(selector: str, rules: Mapping[str, str]) -> frozenset[str]:
    """Return the codes of the rules that a selector matches, ignoring the case of codes."""
    code = selector.upper()
    if code in rules:
        return frozenset((code,))
    if code == "ALL":
        return frozenset(rules)
    # A shorter prefix such as `D` would select every rule, which is what `ALL` is for.
    if code[:3] == "DSC":
        return frozenset(each for each in rules if each.startswith(code))
    from dsconfig.rules import FORMER_NAMES

    current = FORMER_NAMES.get(selector, selector)
    return frozenset(each for each, name in rules.items() if name == current)


def expand_selectors(selectors: Iterable[str], rules: Mapping[str, str], where: str) -> frozenset[str]:
    """Return the codes of all rules that at least one selector matches.

    Raises:
        UnknownRuleError: a selector matches no rule; `where` tells the user where it is written.
    """
    codes: frozenset[str] = frozenset()
    for selector in selectors:
        matches = rules_matching_selector(selector, rules)
        if not matches:
            raise UnknownRuleError(f"{where}: unknown rule `{selector}`{suggest_selector(selector, rules)}")
        codes |= matches
    return codes


def enabled_rules(layers: Iterable[RuleSelectionLayer], rules: Mapping[str, str]) -> frozenset[str]:
    """Return the codes of the rules that are enabled once all layers are applied.

    Within a layer the more specific selector wins, as in ruff: `select = ["DSC4"]`, `ignore = ["DSC401"]`
    leaves out DSC401, and `select = ["DSC401"]`, `ignore = ["DSC4"]` keeps it.

    Raises:
        UnknownRuleError: a selector matches no rule.
    """
    enabled = frozenset(rules)
    for layer in layers:
        if layer.select is not None:
            enabled = frozenset()
        options = zip(
            layer.option_names, (layer.select or (), layer.extend_select, layer.ignore), strict=True
        )
        steps = [
            (
                expand_selectors((selector,), rules, f"{layer.prefix}{option}"),
                option == layer.option_names[-1],
            )
            for option, selectors in options
            for selector in selectors
        ]
        # Apply the most specific selector last; on a tie the ignore comes last and wins.
        for codes, is_ignore in sorted(steps, key=lambda step: (-len(step[0]), step[1])):
            enabled = enabled - codes if is_ignore else enabled | codes
    return enabled


def suggest_selector(word: str, rules: Mapping[str, str]) -> str:
    """Return a clause that suggests the rule with the most similar name, or "" if none is similar."""
    close = closest_words(word.upper(), rules) or closest_words(word.lower(), rules.values())
    return f", did you mean `{close[0]}`?" if close else ""
