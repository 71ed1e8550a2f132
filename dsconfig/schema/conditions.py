"""The conditions that rules state, as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dsconfig.core.releases import Interval
from dsconfig.evaluation.schema_condition import Condition, Counts, Is, Less, Needed, NotEmpty, Test, Written
from dsconfig.model.release_view import SectionView
from dsconfig.rules import RULES
from dsconfig.schema.keywords import Schema, needs


def of(seen: SectionView, release: int, consumer: str | None) -> Iterator[Schema]:
    """The conditions of a section: what must not be there first, then what must."""
    for condition, releases in _stated(seen.name):
        known = all(key in seen.keys for key in _keys(condition))
        if release in releases and known and (not condition.consumers or consumer in condition.consumers):
            when = _all_of(condition.when)
            yield {"if": when, "then": _demand(condition)} if when else _demand(condition)


@cache
def _stated(section: str) -> tuple[tuple[Condition, Interval], ...]:
    """What the rules state of a section, in the order of their codes, and for which releases."""
    found = [
        (condition, rule.releases)
        for _, rule in sorted(RULES.items())
        for condition in rule.conditions
        if condition.section == section
    ]
    return tuple(sorted(found, key=lambda one: isinstance(one[0].then, Needed)))


def _keys(condition: Condition) -> Iterator[str]:
    """The keys of the section that the condition names: a release that lacks one has no use for it."""
    for part in (*condition.when, condition.then):
        if not isinstance(part, NotEmpty):
            yield part.key.partition(".")[0]


def _all_of(tests: tuple[Test, ...]) -> Schema:
    found: Schema = {}
    for test in tests:
        if isinstance(test, NotEmpty):
            found["minProperties"] = 1
        else:
            _add(found, test.key.split("."), _value(test), required=not isinstance(test, Counts))
    return found


def _value(test: Written | Is | Counts | Less) -> Schema:
    if isinstance(test, Written):
        # VS Code proposes what it meets here too, and some of these are names of old.
        return {"not": {"const": "auto"}, "doNotSuggest": True}
    if isinstance(test, Less):
        return {"type": "number", "exclusiveMaximum": test.bound}
    return {"const": test.values[0]} if len(test.values) == 1 else {"enum": list(test.values)}


def _add(found: Schema, path: list[str], value: Schema, *, required: bool) -> None:
    """Put a test of one key among those of its object; an object within is made where it is new."""
    key, *rest = path
    properties = found.setdefault("properties", {})
    if rest:
        inner = properties.setdefault(key, {})
        if required:
            inner["type"] = "object"  # what is none, null say, passes all other tests
        _add(inner, rest, value, required=required)
    else:
        properties[key] = value
    if required and key not in found.setdefault("required", []):
        found["required"].append(key)


def _demand(condition: Condition) -> Schema:
    then = condition.then
    *outer, key = then.key.split(".")
    if isinstance(then, Needed):
        found = needs(key)
    else:
        found = {"properties": {key: False}, "errorMessage": then.message}
    for word in reversed(outer):
        found = {"properties": {word: found}}
    return found
