"""The tree of plain JSON is the one that the parser of Hjson builds."""

from __future__ import annotations

import json
import random

from dsconfig.document import kept_document, read_bytes
from dsconfig.document.document import parse_plain_json
from dsconfig.document.hjson import parse_hjson
from dsconfig.document.locate_plain_json import locate_plain_json
from dsconfig.document.read_document import keep_document

SCALARS = (None, True, False, 0, -1, 1.5, 1e30, -0.0, 5e-324, 12345678901234567890, "", "[{,:}]", '\\"')
CHARACTERS = 'ab"\\\n\t {}[]:,/é\u2028\U0001f600\x7f'


def draw_word(draw: random.Random) -> str:
    return "".join(draw.choices(CHARACTERS, k=draw.randrange(6)))


def draw_value(draw: random.Random, depth: int = 0) -> object:
    kind = draw.random() if depth < 5 else 1.0
    if kind < 0.3:
        return {draw_word(draw): draw_value(draw, depth + 1) for _ in range(draw.randrange(5))}
    if kind < 0.5:
        return [draw_value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return draw.choice((*SCALARS, draw_word(draw)))


def test_both_trees_are_equal() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        config = {draw_word(draw): draw_value(draw) for _ in range(3)}
        text = json.dumps(config, indent=draw.choice((None, 1, "\t")), ensure_ascii=False)
        assert repr(locate_plain_json(text, parse_plain_json(text))) == repr(parse_hjson(text)), text


def test_numbers_in_every_notation() -> None:
    text = '{"a": 5e8, "b": 1E-6, "c": 2.0, "d": -0, "e": [1e3, {"f": 1.0e+2}]}'
    assert repr(locate_plain_json(text, parse_plain_json(text))) == repr(parse_hjson(text))


def test_a_kept_document_is_returned_for_the_same_bytes_alone() -> None:
    data = b'{"train_batch_size": 8}'
    document = read_bytes(data, "kept.json")
    keep_document(document, data)
    assert kept_document(b'{"train_batch_size": 9}', "kept.json", "json") is None
    assert kept_document(data, "kept.json", "yaml") is None
    assert kept_document(data, "kept.json", "json") is document
    assert kept_document(data, "kept.json", "json", is_last=True) is document
    assert kept_document(data, "kept.json", "json") is None
