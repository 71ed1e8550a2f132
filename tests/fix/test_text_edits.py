"""The text edits of fixes."""

from __future__ import annotations

from dsconfig.core.diagnostic import Fix, MoveKey, SetValue
from dsconfig.document import read_text
from dsconfig.document.apply_operations import edits_for_fix
from dsconfig.document.text_edit import apply_edits


def test_a_value_set_again_and_again_at_one_key_is_written_once() -> None:
    document = read_text("{" + '"fp16": none, "train_batch_size": 8,' * 50 + "}", format="json")
    many = Fix("write JSON literals", (*[SetValue(("fp16",), None)] * 50, SetValue(("train_batch_size",), 4)))
    assert len(edits_for_fix(document, many)) == 2


def test_a_block_list_moves_into_new_sections_beside_a_flow_section() -> None:
    text = "teacher_layer:\n  - 1\nzero_optimization: {stage: 1}\n"
    document = read_text(text, format="yaml")
    moved = MoveKey(("teacher_layer",), ("compression_training", "layer_reduction", "teacher_layer"))
    assert apply_edits(text, edits_for_fix(document, Fix("move it", (moved,)))) == (
        "zero_optimization: {stage: 1}\n"
        "compression_training:\n  layer_reduction:\n    teacher_layer:\n      - 1\n"
    )
