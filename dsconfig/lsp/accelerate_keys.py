"""Accelerate's own launch file: its keys, what they do, and what they take, from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.consumers.accelerate_launch_file import BLOCK, is_launch_file
from dsconfig.lsp.completion_item import BLOCK as OFFERED_BLOCK
from dsconfig.lsp.completion_item import PROPERTY, Offer, value_offer
from dsconfig.lsp.detect_new_config import begins_launch
from dsconfig.lsp.value_completions import Candidate

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath
    from dsconfig.lsp.cursor import Cursor
    from dsconfig.lsp.insert_text import Hand


def offers(data: Json, at: Cursor, hand: Hand) -> Iterator[Offer]:
    """What may be typed at the cursor."""
    if not (is_launch_file(data) or begins_launch(at.document.name, data)):
        return
    if at.kind == "key" and at.path in ((), (BLOCK,)):
        for word, schema in properties(at.path).items():
            if word not in at.data:
                text = hand.entry(word, at, _first(word, schema, hand))
                yield Offer(word, text, PROPERTY, str(schema.get("description", "")))
    elif at.kind == "value" and at.path:
        schema = properties(at.path[:-1]).get(str(at.path[-1]), {})
        for value in _values(schema):
            yield value_offer(Candidate(value), at, hand)
        for each in schema.get("defaultSnippets", ()):
            yield Offer(str(each["label"]), hand.block(each["body"]), OFFERED_BLOCK, detail="block")


def _first(word: str, schema: JsonObject, hand: Hand) -> str:
    """What follows a key that is completed: its likeliest value, to be typed over."""
    if word == BLOCK:
        return hand.beneath()
    likely = "DEEPSPEED" if word == "distributed_type" else schema.get("default")
    likely = next(_values(schema), None) if likely is None else likely
    return hand.hole("int") if likely is None else hand.place(likely)


def properties(path: KeyPath) -> JsonObject:
    """The keys of the root, or of the block for DeepSpeed, each with its schema."""
    schema = _schema()
    if path == (BLOCK,):
        schema = schema["definitions"]["DeepSpeed"]
    elif path:
        return {}
    return {word: each for word, each in schema["properties"].items() if isinstance(each, dict)}


def _values(schema: JsonObject) -> Iterator[Json]:
    yield from schema.get("enum", ())
    for arm in schema.get("anyOf", ()):
        yield from _values(arm)
    if schema.get("type") == "boolean":
        yield from (True, False)


@cache
def _schema() -> JsonObject:
    from dsconfig.schema.accelerate import launch_schema

    return launch_schema()
