"""Inserted text follows the style of its neighbors."""

from __future__ import annotations

import pytest

from dsconfig.core.diagnostic import SetValue
from dsconfig.core.json_types import Json
from dsconfig.document import Format
from tests.document.test_edit import edited

SECTION = {"device": "cpu", "ratio": 0.5}


@pytest.mark.parametrize(
    ("text", "after"),
    [
        # One line stays one line, with the blanks that its neighbours have.
        ('{"a": 1, "z": {"s": 2}}', '{"a": 1, "z": {"s": 2}, "o": {"device": "cpu", "ratio": 0.5}}'),
        ('{"a":1,"z":{"s":2}}', '{"a":1,"z":{"s":2},"o":{"device":"cpu","ratio":0.5}}'),
        ('{ "z": { "s": 2 } }', '{ "z": { "s": 2 }, "o": { "device": "cpu", "ratio": 0.5 } }'),
        # An object stands on one line where the one beside it does.
        (
            '{\n  "z" : {"s" : 2}\n}\n',
            '{\n  "z" : {"s" : 2},\n  "o" : {"device" : "cpu", "ratio" : 0.5}\n}\n',
        ),
        (
            '{\n\t"z": {\n\t\t"s": 2\n\t}\n}',
            '{\n\t"z": {\n\t\t"s": 2\n\t},\n\t"o": {\n\t\t"device": "cpu",\n\t\t"ratio": 0.5\n\t}\n}',
        ),
        # Commas: none, behind the last one, too, or in front.
        (
            "z: {\n  s: 2\n  t: x\n}\n",
            "z: {\n  s: 2\n  t: x\n}\no: {\n  device: cpu\n  ratio: 0.5\n}\n",
        ),
        (
            "{\n  'z': {\n    's': 2,\n  },\n}\n",
            "{\n  'z': {\n    's': 2,\n  },\n  'o': {\n    'device': 'cpu',\n    'ratio': 0.5,\n  },\n}\n",
        ),
        (
            '{\n  "a": 1\n, "z": {"s": 2}\n}',
            '{\n  "a": 1\n, "z": {"s": 2}\n, "o": {"device": "cpu", "ratio": 0.5}\n}',
        ),
    ],
)
def test_an_added_section_follows_the_style_of_its_neighbors(text: str, after: str) -> None:
    assert edited(text, SetValue(("o",), SECTION)) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("z:\n    s: 2\n", "z:\n    s: 2\no:\n    device: cpu\n    ratio: 0.5\n"),
        ("z: {s: 2}\n", "z: {s: 2}\no: {device: cpu, ratio: 0.5}\n"),
        ("'z':\n  's': 'x'\n", "'z':\n  's': 'x'\n'o':\n  'device': 'cpu'\n  'ratio': 0.5\n"),
        ("{z: {s: 2}}\n", "{z: {s: 2}, o: {device: cpu, ratio: 0.5}}\n"),
        ("z:\r\n  s: 2", "z:\r\n  s: 2\r\no:\r\n  device: cpu\r\n  ratio: 0.5"),
        ("o: true # why\n", "o:\n  device: cpu\n  ratio: 0.5 # why\n"),
    ],
)
def test_an_added_yaml_section_follows_the_style_of_its_neighbors(text: str, after: str) -> None:
    assert edited(text, SetValue(("o",), SECTION), format="yaml") == after


@pytest.mark.parametrize(
    ("text", "value", "after", "format"),
    [
        ("a: cpu\nb: 1\n", "nvme", "a: nvme\nb: 1\n", "json"),
        ("{a: 'cpu', b: 1}", "nvme", "{a: 'nvme', b: 1}", "json"),
        ("{a: 1, b: 'x'}", "nvme", "{a: 'nvme', b: 'x'}", "json"),
        ("a: cpu\n", "nvme", "a: nvme\n", "yaml"),
        ("a: 'cpu'\n", "off", "a: 'off'\n", "yaml"),
        ("a: cpu\n", "off", 'a: "off"\n', "yaml"),
        # A number keeps its form when it loses its quotes, where the format reads it as the same number.
        ('{"a": "1e-4"}', 1e-4, '{"a": 1e-4}', "json"),
        ('{"a": "1.0"}', 1.0, '{"a": 1.0}', "json"),
        ('{"a": "1.0"}', 1, '{"a": 1}', "json"),
        ("a: '1e-4'\n", 1e-4, "a: 0.0001\n", "yaml"),
        ("a:\n  - -1\nb: 2\n", True, "a: true\nb: 2\n", "yaml"),
        # Of a list only what differs changes.
        ('{"a": [ "0.90",0.999 ]}', [0.9, 0.999], '{"a": [ 0.90,0.999 ]}', "json"),
        ('{"a": [\n  1,\n  2\n]}', [1, 2, 3], '{"a": [\n  1,\n  2,\n  3\n]}', "json"),
    ],
)
def test_a_value_is_written_as_the_old_one_was(text: str, value: Json, after: str, format: Format) -> None:
    assert edited(text, SetValue(("a",), value), format=format) == after
