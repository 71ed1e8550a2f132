"""The fast `NamedTuple` behaves like the one of `typing`."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest

from dsconfig.core.json_types import NamedTuple


class Fast(NamedTuple):
    """Two fields."""

    first: int
    second: str = "b"
    """With a default."""

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class Original(typing.NamedTuple):
    """Two fields."""

    first: int
    second: str = "b"


class Empty(NamedTuple):
    """No field."""


class FastInSpecialCall(NamedTuple):
    """Names that mean something else in a class body."""

    name: str
    module: str = "m"


def test_an_instance_is_a_tuple_with_names() -> None:
    fast = Fast(1)
    assert fast == Original(1) == (1, "b")
    assert hash(fast) == hash((1, "b"))
    assert (fast.first, fast.second, fast.both) == (1, "b", "1b")
    assert repr(fast) == repr(Original(1)).replace("Original", "Fast")
    assert fast._asdict() == Original(1)._asdict()
    assert fast._replace(first=2) == Fast(second="b", first=2)
    assert Fast._make([1, "c"]) == (1, "c")
    assert Empty() == ()
    assert FastInSpecialCall("n") == ("n", "m")
    assert not hasattr(fast, "__dict__")
    match fast:
        case Fast(first, second):
            assert (first, second) == fast


def test_a_class_can_be_inspected() -> None:
    assert str(inspect.signature(Fast)) == "(first: 'int', second: 'str' = 'b')"
    assert Fast._fields == Fast.__match_args__ == ("first", "second")
    assert (Fast.__doc__, Fast.__module__, Fast.__qualname__) == ("Two fields.", __name__, "Fast")
    assert typing.get_type_hints(Fast) == {"first": int, "second": str}


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
)
def test_copies_have_the_same_type(duplicate: typing.Callable[[Fast], Fast]) -> None:
    assert duplicate(Fast(1)) == Fast(1)
    assert type(duplicate(Fast(1))) is Fast


@pytest.mark.parametrize(
    "arguments", [{}, {"second": "b"}, {"first": 1, "third": 3}], ids=["none", "missing", "unknown"]
)
def test_wrong_arguments_raise(arguments: dict[str, typing.Any]) -> None:
    with pytest.raises(TypeError, match=r"Fast\.__new__\(\)"):
        Fast(**arguments)


def test_unknown_changes_raise() -> None:
    with pytest.raises(ValueError, match="third"):
        Fast(1)._replace(third=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Fast(1).first = 2  # type: ignore[misc]
