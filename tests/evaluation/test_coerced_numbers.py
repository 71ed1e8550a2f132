"""Numeric strings agree with pydantic-core, which dsconfig itself does not load."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, strategies
from pydantic_core import SchemaValidator, ValidationError, core_schema

from dsconfig.evaluation.coercion import parse_float, parse_integer

OURS: dict[str, Callable[[str], float | None]] = {
    "int": parse_integer,
    "float": parse_float,
}
THEIRS = {
    "int": SchemaValidator(core_schema.int_schema()),
    "float": SchemaValidator(core_schema.float_schema()),
}
DIGITS = 4300
LONG = [
    text
    for length in range(DIGITS - 2, DIGITS + 3)
    for text in (
        "9" * length,
        "-" + "9" * length,
        "1" + "0" * length + ".0",
        "0" * length + "7",
        " " * length + "5",
        "1_" * length + "1",
        "0." + "0" * length,
    )
]


def agree(text: str) -> None:
    for name, ours in OURS.items():
        try:
            read = THEIRS[name].validate_python(text)
        except ValidationError:
            read = None
        assert repr(ours(text)) == repr(read), (name, text)


def test_every_short_text_of_digits_signs_points_and_underscores() -> None:
    for length in range(6):
        for characters in product("01_.-+", repeat=length):
            agree("".join(characters))


def test_every_character_of_the_lower_planes_around_a_digit() -> None:
    for code in range(0x3100):
        agree(f"{chr(code)}1")
        agree(f"1{chr(code)}")


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_maximal_digits(text: str) -> None:
    agree(text)


@given(strategies.text("0123456789__.-+eEinfatyINFATY \t\x85\xa0\x1f", max_size=10))
def test_any_text_of_their_characters(text: str) -> None:
    agree(text)
