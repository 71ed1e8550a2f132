"""Values that no config can say: each is refused in one clear line, or taken as what it stands for."""

import array
import collections
import datetime as dt
import enum
import json
import re
import sys
import types
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dsconfig
from dsconfig import BuildError, Config, ConfigError, Fp16, ZeroOptimization

CYCLE: dict[str, Any] = {}
CYCLE["a"] = CYCLE
RING: list[Any] = []
RING.append(RING)


def nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


class Word(str, enum.Enum):
    CPU = "cpu"


class Strange(enum.Enum):
    OBJECT = object()


class Silent:
    """Nothing of it can be looked at."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError


VALUES: dict[str, Any] = {
    "a long integer": 10**5000,
    "a long negative integer": -(10**400),
    "more than 64 bits": 2**63,
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "a memoryview": memoryview(b"x"),
    "a set": {1, 2},
    "a frozenset": frozenset("ab"),
    "an integer of numpy": np.int64(3),
    "a number of numpy": np.float32(3.1),
    "a boolean of numpy": np.bool_(1),
    "a string of numpy": np.str_("cpu"),
    "an array without dimensions": np.array(3),
    "an array": np.array([1, 2]),
    "NaN of numpy": np.float64("nan"),
    "a dtype of numpy": np.dtype("float16"),
    "a class of numpy": np.float16,
    "a tensor without dimensions": torch.tensor(3),
    "a tensor": torch.ones(3),
    "a dtype": torch.bfloat16,
    "another dtype": torch.int64,
    "a device": torch.device("cpu"),
    "a decimal": Decimal("1.5"),
    "a signalling NaN": Decimal("sNaN"),
    "a fraction": Fraction(1, 3),
    "a complex number": 1j,
    "NaN": float("nan"),
    "infinity": float("-inf"),
    "lists in lists": [[[]]],
    "a dict that holds itself": CYCLE,
    "a list that holds itself": RING,
    "a deep dict": nested(5000),
    "keys that are numbers": {1: 2},
    "a key that is None": {None: 1},
    "a key that is a tuple": {(1, 2): 3},
    "a key that is bytes": {b"stage": 3},
    "keys of two kinds": {"stage": 1, 2: 3},
    "half a character": "\ud800",
    "half a character as a key": {"\ud800": 1},
    "NUL": "\0",
    "a long string": "x" * 100_000,
    "an escape sequence": "\x1b[31m\n",
    "a date": dt.date(2020, 1, 1),
    "a UUID": uuid.UUID(int=1),
    "a path": Path("/x"),
    "an object": object(),
    "an object in a list": [object()],
    "an object in a dict": {"a": [object()]},
    "an object without repr": Silent(),
    "a member of an enum": Word.CPU,
    "a member that is an object": Strange.OBJECT,
    "an enum": Word,
    "a generator": (each for each in "ab"),
    "a range": range(2),
    "a function": lambda: 1,
    "a module": sys,
    "a class": int,
    "an ellipsis": ...,
    "another kind of dict": collections.OrderedDict(stage=3),
    "a view of a dict": types.MappingProxyType({"stage": 3}),
    "a deque": collections.deque([1]),
    "an array of the library": array.array("i", [1]),
    "a config": Config(),
    "a section": ZeroOptimization(stage=3),
    "the class of a section": Fp16,
    "a pattern": re.compile("x"),
    "an exception": ValueError("x"),
    "a string of a number": "8",
}
KEYS = ["train_batch_size", "gradient_clipping", "zero_optimization", "communication_data_type", "optimizer"]
WAYS: dict[str, Callable[[str, Any], Config]] = {
    "built": lambda key, value: Config(**{key: value}),
    "set": lambda key, value: setattr(made := Config(), key, value) or made,  # type: ignore[func-returns-value]
    "replaced": lambda key, value: Config().replace({key: value}),
    "merged": lambda key, value: Config() | {key: value},
    "free": lambda key, value: Config(optimizer={"type": "Mine", "params": {key: value, "list": [value]}}),
    "from a dict": lambda key, value: Config.from_dict({key: value, "my own": [value]}),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_odd_value_is_refused_in_words_or_can_be_written(
    way: Callable[[str, Any], Config], value: object
) -> None:
    for key in KEYS:
        _refused_or_written(way, key, value)


def _refused_or_written(way: Callable[[str, Any], Config], key: str, value: object) -> None:
    try:
        config = way(key, value)
    except (BuildError, ConfigError) as error:
        said = str(error)
        assert key in said
        assert len(said) < 1000
        assert not re.search(r"pydantic|validator|http|0x|<class|\bobject at|Recursion", said)
        said.encode()
        return
    assert json.dumps(json.loads(config.to_json())) == json.dumps(config.to_dict())
    assert config == config.merge(config)
    assert str(config.check())
    assert repr(config)


BEYOND = {"long": 10**5000, "cycle": CYCLE, "ring": RING, "deep": nested(200), "keys": {b"a": {(1, 2): 3}}}


@pytest.mark.parametrize("value", BEYOND.values(), ids=BEYOND)
@pytest.mark.parametrize("key", ["train_batch_size", "fp16", "my own"])
def test_check_says_of_a_dict_what_is_beyond_it(key: str, value: object) -> None:
    report = dsconfig.check({"train_batch_size": 8, key: value})
    assert str(report)
    assert report.to_json()
    assert not report.ok or key == "my own"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Config.from_dict("c.json"), "expected a Config or a mapping, not str"),  # type: ignore[arg-type]
        (lambda: Config().merge(None), "expected a Config or a mapping, not NoneType"),  # type: ignore[arg-type]
        (lambda: Config().diff(3), "expected a Config or a mapping, not int"),  # type: ignore[arg-type]
        (lambda: Config().replace(3), "expected values by path, not int"),  # type: ignore[arg-type]
        (lambda: Config().replace({1: 2}), "expected a path such as .*, not 1"),  # type: ignore[arg-type]
        (lambda: Config().replace({3.5: 2}), r"a path such as .*, not 3\.5"),  # type: ignore[arg-type]
    ],
)
def test_the_wrong_kind_of_argument_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize("size", ["8", 8.0, True, 0])
def test_a_world_size_is_a_positive_integer(size: Any) -> None:
    with pytest.raises(ValueError, match="expected a positive integer"):
        Config(train_batch_size=8).check(world_size=size)


def test_a_release_is_text() -> None:
    with pytest.raises(dsconfig.UnknownReleaseError, match="unknown DeepSpeed release 3"):
        dsconfig.check({}, target=3)  # type: ignore[arg-type]


def test_what_is_free_is_written_in_words_of_json() -> None:
    params = {"lr": np.float64(0.5), "mode": Word.CPU, "where": Path("/x"), "sizes": (1, np.int8(2))}
    config = Config(optimizer={"type": "Mine", "params": params})
    written = {"lr": 0.5, "mode": "cpu", "where": "/x", "sizes": [1, 2]}
    assert config.to_json(indent=None) == json.dumps({"optimizer": {"type": "Mine", "params": written}})
    with pytest.raises(BuildError, match=r"`optimizer\.params\.f\[0\]` must be a JSON value"):
        Config(optimizer={"type": "Mine", "params": {"f": [print]}})


def test_a_list_of_the_wrong_length() -> None:
    with pytest.raises(
        BuildError, match=r"`betas` must be a list of 2 numbers or `\"auto\"`, not `\[0\.9\]`"
    ):
        dsconfig.types.AdamWParams(lr=1, betas=(0.9,))
