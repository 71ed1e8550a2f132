"""Values for a key: ones its type takes, and every kind of wrong one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from tests.parity.generators.keyspace import Slot, Spec, arms

Maker: TypeAlias = "Callable[[Slot, Random], Any]"

WORDS = (
    "",
    "maybe",
    "none",
    "cpu",
    "fp16",
    "bert.encoder.layer",
    "./out",
    "x y",
    "FAST",
    "layer.*",
    "é",
    "0.1.2",
)
NUMBERS = (0, 1, 2, 3, 5, 8, 16, 100, 1000, 65536, 500_000_000)
FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.9, 1.0, 1e-3, 2.5, 1e4)


PLAIN: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "bool": (True, False),
        "str": WORDS,
        "path": WORDS,
        "null": (None,),
        "any": (1, "x", True, {"a": 1}, [2]),
        "never": ("auto",),  # which is dropped before the type is looked at
    }
)


class UnfitError(Exception):
    """This kind of value says nothing about this key."""


def valid(spec: Spec, rng: Random) -> Any:
    """A value that the type takes, as far as the model says."""
    match spec:
        case ("int", *bounds):
            return rng.choice([n for n in NUMBERS if inside(n, bounds)] or [around(bounds)])
        case ("float", *bounds):
            return rng.choice([x for x in (*FRACTIONS, *NUMBERS) if inside(x, bounds)] or [around(bounds)])
        case ("enum", *members):
            return rng.choice(members)
        case ("list", item):
            return [valid(item, rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        case ("map", item):
            return {f"group_{i}": valid(item, rng) for i in range(rng.choice((0, 1, 2)))}
        case ("union", *several):
            return valid(rng.choice(several), rng)
    return copy.deepcopy(rng.choice(PLAIN.get(spec[0], ({},))))


def inside(number: float, bounds: list[Any]) -> bool:
    """Whether the number keeps (ge, gt, le, lt)."""
    ge, gt, le, lt = bounds
    return (
        (ge is None or number >= ge)
        and (gt is None or number > gt)
        and (le is None or number <= le)
        and (lt is None or number < lt)
    )


def around(bounds: list[Any]) -> float:
    """Some number that keeps the bounds."""
    ge, gt, le, lt = bounds
    if gt is not None and lt is not None:
        return float(gt + lt) / 2
    return float(ge if ge is not None else le if le is not None else gt + 1 if gt is not None else lt - 1)


def outside(slot: Slot, rng: Random, *, low: bool) -> Any:
    """A number just out of the bounds, or exactly on one."""
    found: list[float] = []
    for arm in arms(slot.type):
        if arm[0] in ("int", "float"):
            ge, gt, le, lt = arm[1:]
            step = 1 if arm[0] == "int" else rng.choice((1, 0.01, 1e-9))
            lower = [b - step for b in (ge,) if b is not None] + [b for b in (ge, gt) if b is not None]
            upper = [b + step for b in (le,) if b is not None] + [b for b in (le, lt) if b is not None]
            found += lower if low else upper
    if not found:
        raise UnfitError
    return rng.choice(found)


def unlisted(slot: Slot, rng: Random) -> Any:
    """A word near the members of an enumeration, but none of them (except by case)."""
    members = [member for arm in arms(slot.type) if arm[0] == "enum" for member in arm[1:]]
    if not members:
        raise UnfitError
    member = rng.choice(members)
    if isinstance(member, str):
        return rng.choice(
            [member.upper(), member.lower(), member.title(), member + "x", member[:-1], f" {member}"]
        )
    return rng.choice([-1, 4, 99, str(member), float(member), member + 0.5])


def stringified(slot: Slot, rng: Random) -> Any:
    """A right value, in quotes."""
    value = valid(slot.type, rng)
    if isinstance(value, str) or value is None:
        raise UnfitError
    return str(value).lower() if isinstance(value, bool) else str(value)


def constant(*values: Any) -> Maker:
    """One of some values, whatever the key."""
    return lambda _, rng: rng.choice(values)


KINDS: Mapping[str, Maker] = MappingProxyType(
    {
        "null": constant(None),
        "true": constant(True),
        "false": constant(False),
        "zero": constant(0),
        "integer": constant(1, 2, 3, 7, 12),
        "negative": constant(-1, -3, -0.5),
        "fraction": constant(0.5, 1.5, 2.7, 1e-3),
        "integral-float": constant(0.0, 1.0, 2.0, 4.0, 16.0),
        "large-float": constant(5e8, 1e10, 1e300, 1.5e3),
        "large-integer": constant(10**12, 2**63 - 1, 2**63, 2**70, 10**30),
        "empty-string": constant(""),
        "word": constant("maybe", "None", "null", "high", "cpu "),
        "digits": constant("12", "0", "-1", "+3", " 3 ", "5_000", "007", "1e3", "5e8"),
        "decimal-string": constant("1.5", "0.5", "2.0", ".5", "1e-3", "inf", "nan"),
        "boolean-word": constant(
            "true", "false", "True", "FALSE", "yes", "no", "on", "off", "t", "n", "1", "y"
        ),
        "auto": constant("auto"),
        "auto-in-capitals": constant("Auto", "AUTO"),
        "empty-list": constant([]),
        "list-of-numbers": constant([1], [1, 2, 3], [0.5], [-1]),
        "list-of-strings": constant(["a"], ["a", "b"], ["1"], ["auto"]),
        "mixed-list": constant([1, "a", None], [True, {}], [[1]], [None]),
        "empty-object": constant({}),
        "object": constant({"enabled": True}, {"a": 1}, {"type": "x"}, {"": None}),
        "below": lambda slot, rng: outside(slot, rng, low=True),
        "above": lambda slot, rng: outside(slot, rng, low=False),
        "unlisted": unlisted,
        "stringified": stringified,
        "listed": lambda slot, rng: [valid(slot.type, rng)],
        "wrapped": lambda slot, rng: {"value": valid(slot.type, rng)},
    }
)
"""Kinds of values put where the key stands; whether one is wrong there is DeepSpeed's business."""
