"""The edits that make a fix."""

from __future__ import annotations

from dsconfig.checking.patches import edits
from dsconfig.diagnostic import Fix, Set
from dsconfig.document import read_text


def test_a_value_set_again_and_again_at_one_key_is_written_once() -> None:
    document = read_text("{" + '"fp16": none, "train_batch_size": 8,' * 50 + "}", format="json")
    many = Fix("write JSON's words", (*[Set(("fp16",), None)] * 50, Set(("train_batch_size",), 4)))
    assert len(edits(document, many)) == 2
