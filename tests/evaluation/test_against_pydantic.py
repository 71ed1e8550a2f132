"""Conversions agree with pydantic 2, and with pydantic 1, which pydantic 2 includes."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic import v1

from dsconfig.core.json_types import Json, Spec
from dsconfig.evaluation.coercion import CoercedValue, RejectedValue, coerce


class Stage(int, enum.Enum):
    OFF, STATES, GRADIENTS = range(3)


class Device(str, enum.Enum):
    NONE, CPU = "none", "cpu"


FREE = (None, None, None, None)
TYPES: dict[str, tuple[Any, Spec]] = {
    "bool": (bool, ("bool",)),
    "int": (int, ("int", *FREE)),
    "float": (float, ("float", *FREE)),
    "str": (str, ("str",)),
    "path": (Path, ("path",)),
    "numbers": (Stage, ("enum", 0, 1, 2)),
    "words": (Device, ("enum", "none", "cpu")),
    "ints": (list[int], ("list", ("int", *FREE))),
    "bools by name": (dict[str, bool], ("map", ("bool",))),
}
VALUES: list[Json] = [
    *(None, True, False, 0, 1, 2, 3, -1, 10**30, 0.0, 1.0, 1.5, -0.5, 1e300, 2.0**63, 5e8),
    *(
        "",
        "0",
        "1",
        " 8 ",
        "8.0",
        "5_000",
        "1e3",
        "1.5",
        "true",
        "YES",
        "off",
        "t",
        "N",
        "cpu",
        "CPU",
        "none",
        "auto",
    ),
    *([], [1], ["1", 2.0], [1.5], [[1]], ["a", 1], [["a", 1]], [["a", "x"]]),
    *({}, {"a": 1}, {"a": "yes"}, {"a": "x"}, {"a": 2}, {"a": None}),
]


def plain(value: Any) -> Json:
    """A parsed value as a config could hold it."""
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def of_v1(annotation: Any) -> Callable[[Json], Json]:
    model = v1.create_model("Model", key=(annotation, ...))
    return lambda value: plain(model(key=value).key)


def of_v2(annotation: Any) -> Callable[[Json], Json]:
    adapter = pydantic.TypeAdapter(annotation)
    return lambda value: plain(adapter.validate_python(value))


VERSIONS = {"pydantic1": of_v1, "pydantic2": of_v2}


def exact(value: Json) -> str:
    """A form in which 1, 1.0 and true differ."""
    return repr(value)


@pytest.mark.parametrize("dialect", VERSIONS)
@pytest.mark.parametrize("name", TYPES)
def test_every_value_is_read_as_pydantic_reads_it(dialect: str, name: str) -> None:
    annotation, spec = TYPES[name]
    parse = VERSIONS[dialect](annotation)
    for value in VALUES:
        verdict = coerce(spec, value, dialect)
        try:
            parsed = parse(value)
        except ValueError:
            assert isinstance(verdict, RejectedValue), (value, verdict)
            continue
        assert not isinstance(verdict, RejectedValue), (value, verdict, parsed)
        made = verdict.value if isinstance(verdict, CoercedValue) else value
        if name == "float" and isinstance(value, int):
            assert float(made) == parsed, value  # the same number to everybody
        else:
            assert exact(plain(Path(made)) if name == "path" else made) == exact(parsed), value


@pytest.mark.parametrize("dialect", VERSIONS)
@pytest.mark.parametrize("bound", ["ge", "gt", "le", "lt"])
def test_bounds_apply_to_the_converted_number(dialect: str, bound: str) -> None:
    limits = [1 if name == bound else None for name in ("ge", "gt", "le", "lt")]
    module = v1 if dialect == "pydantic1" else pydantic
    for kind, annotation in (("int", int), ("float", float)):
        model = module.create_model("Model", key=(annotation, module.Field(**{bound: 1})))
        for value in (*VALUES[:16], "0", "1", "2", "nan"):
            refused = isinstance(coerce((kind, *limits), value, dialect), RejectedValue)
            try:
                model(key=value)
            except ValueError:
                assert refused, (kind, value)
            else:
                assert not refused, (kind, value)


@pytest.mark.parametrize("dialect", VERSIONS)
def test_a_rejection_names_the_path_of_the_part(dialect: str) -> None:
    verdict = coerce(("map", ("list", ("int", *FREE))), {"a": [1], "b": [2, "x"]}, dialect)
    with pytest.raises(ValueError, match="b") as caught:
        VERSIONS[dialect](dict[str, list[int]])({"a": [1], "b": [2, "x"]})
    assert isinstance(verdict, RejectedValue)
    assert caught.value.errors()[0]["loc"][-2:] == verdict.at == ("b", 1)
