"""YAML keys that are not strings are replaced by their text in every view of the mapping."""

from __future__ import annotations

from dsconfig.document import read_text

TEXT = """\
1.5: 1
~: 2
on: &shared {1: [{2001-12-14: x}]}
again: *shared
merged: {<<: *shared, 7: 8}
"""


def test_every_key_is_text() -> None:
    shared = {"1": [{"2001-12-14": "x"}]}
    value = read_text(TEXT, format="yaml").value()
    assert value == {"1.5": 1, "~": 2, "on": shared, "again": shared, "merged": {**shared, "7": 8}}


def test_values_have_the_keys_of_the_tree() -> None:
    document = read_text(TEXT, format="yaml")
    assert document.text[slice(*document.span(("on", "1", 0, "2001-12-14"), "key"))] == "2001-12-14"


def test_a_merge_key_works_beside_a_rejected_tag() -> None:
    odd = "base: &base {stage: 2}\n? [a, b]\n: c\nodd: !ours 1\n"
    text = odd + "zero: {<<: *base, x: 1}\nmany: {<<: [*base, {y: 2}]}\n"
    document = read_text(text, format="yaml")
    value = document.value()
    assert isinstance(value, dict)
    assert (value["zero"], value["many"]) == ({"stage": 2, "x": 1}, {"stage": 2, "y": 2})
    assert len([problem for problem in document.problems if problem.kind == "yaml-error"]) == 2
