"""Keys that are no strings count as their text, wherever the mapping is seen from."""

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


def test_values_stand_under_the_keys_of_the_tree() -> None:
    document = read_text(TEXT, format="yaml")
    assert document.text[slice(*document.span(("on", "1", 0, "2001-12-14"), "key"))] == "2001-12-14"
