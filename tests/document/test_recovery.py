"""A broken config keeps its other keys: each breakage is one edit of a whole config."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dsconfig
from dsconfig.document import read_text

CONFIG = """{
  "train_batch_size": 32,
  "fp16": {
    "enabled": true,
    "loss_scale": 0
  },
  "zero_optimization": {
    "stage": 3,
    "offload_param": {
      "device": "cpu",
      "pin_memory": true
    }
  },
  "optimizer": {
    "type": "AdamW",
    "params": {
      "lr": 0.5,
      "betas": [0.9, 0.999]
    }
  },
  "steps_per_print": 10
}
"""
STAGE, DEVICE, BETAS = (
    "zero_optimization.stage",
    "zero_optimization.offload_param.device",
    "optimizer.params.betas",
)


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from leaves(child, f"{path}.{key}" if path else key)
    else:
        yield path, value


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        pytest.param('"enabled": true,', '"enabled": true', "", id="missing comma"),
        pytest.param('"cpu",', '"cpu"', "", id="missing comma behind a string"),
        pytest.param('"stage": 3,\n   ', '"stage": 3', "", id="missing comma on the line"),
        pytest.param('"loss_scale": 0\n  },', '"loss_scale": 0\n  ,', "", id="unclosed section"),
        pytest.param('"pin_memory": true\n    }\n', '"pin_memory": true\n', "", id="unclosed inner section"),
        pytest.param("10\n}\n", "10\n", "", id="unclosed root"),
        pytest.param('"cpu"', '"cpu""', "", id="stray quote"),
        pytest.param('"cpu"', 'cpu"', DEVICE, id="no opening quote"),
        pytest.param('"cpu"', '"cpu', "", id="no closing quote"),
        pytest.param('"stage":', 'stage":', STAGE, id="key without opening quote"),
        pytest.param('"stage":', '"stage:', "", id="key without closing quote"),
        pytest.param('"stage":', '"stage"":', "", id="key with a quote too many"),
        pytest.param("[0.9,", "[auto,", BETAS, id="word in a list"),
        pytest.param('"stage":', '"stage"', "", id="missing colon"),
        pytest.param('"fp16":', '"fp16"', "", id="missing colon before a section"),
        pytest.param('"stage":', '"stage" =', "", id="equals sign"),
        pytest.param('"stage":', '"stage"::', "", id="two colons"),
        pytest.param('"loss_scale": 0\n  },', '"loss_scale": 0\n  }},', "", id="brace too many"),
        pytest.param("10\n}\n", "10\n}}\n", "", id="brace too many at the end"),
        pytest.param('"fp16": {', '"fp16": {{', "", id="opening brace too many"),
        pytest.param('"enabled": true,', '"enabled": true,,', "", id="two commas"),
        pytest.param('"stage": 3,', '"stage": ,', STAGE, id="missing value"),
        pytest.param("0.999]", "0.999", "", id="unclosed list"),
        pytest.param("0.999]", "0.999}", "", id="wrong bracket"),
        pytest.param('"cpu"', '"c\tpu"', DEVICE, id="tab in a string"),
        pytest.param('"cpu"', '"c\\pu"', DEVICE, id="unknown escape"),
        pytest.param('{\n  "train', 'config = {\n  "train', "", id="words before the root"),
        pytest.param('"stage": 3', '"stage": {{stage}}', STAGE, id="placeholder"),
        pytest.param('  "steps', '  {% if x %}\n  "steps', "", id="template line"),
        pytest.param('"stage": 3', '"stage": 00x,}', STAGE + " fp16 steps_per_print optimizer", id="odd end"),
    ],
)
def test_other_keys_survive(old: str, new: str, lost: str) -> None:
    assert old in CONFIG
    document = read_text(CONFIG.replace(old, new))
    values = dict(leaves(document.value()))
    wanted = dict(leaves(read_text(CONFIG).value()))
    missing = [path for path in wanted if values.get(path) != wanted[path]]
    assert set(missing) <= {path for path in wanted if any(path.startswith(word) for word in lost.split())}
    assert document.problems


def test_problems_say_where() -> None:
    document = read_text('{"a": {"b": [1, auto, 2], "c" 3}}')
    assert [(problem.kind, problem.path) for problem in document.problems] == [
        ("unquoted-string", ("a", "b", 1)),
        ("missing-colon", ("a",)),
    ]
    assert document.value() == {"a": {"b": [1, "auto", 2], "c": 3}}


@pytest.mark.parametrize(
    "text",
    [
        '{\r\n  "a": "x\\\r\n  "train_batch_size": 8\r\n}\r\n',
        '{\r\n  "a": "x\\u000\r\n  "train_batch_size": 8\r\n}\r\n',
        '{"train_batch_size": 8b, 1:\r\n]',
    ],
)
def test_no_diagnostic_begins_or_ends_inside_a_line_end(text: str) -> None:
    locations = [each.location for each in dsconfig.check(text) if each.location is not None]
    assert locations
    offsets = [offset for location in locations for offset in (location.start, location.end)]
    assert [offset for offset in offsets if text[offset - 1 : offset + 1] == "\r\n"] == []
