"""Completion items for keys, values and blocks, and the text that each inserts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.rule_selector import catalogue
from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.accelerate_launch_file import BLOCK, is_launch_file
from dsconfig.core.releases import RELEASES
from dsconfig.job.run_facts import EXPECTED_VALUES
from dsconfig.lsp.document_filter import begins_launch
from dsconfig.model.key_description import meaning
from dsconfig.model.keyinfo import child_section, types_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath, Spec
    from dsconfig.lsp.cursor import Cursor, Scope
    from dsconfig.model.keyinfo import KeyView, SectionView


# What completion offers: one key, value or block.

PROPERTY, VALUE, SNIPPET = 10, 12, 15


class Offer(NamedTuple):
    """One thing to be offered."""

    label: str
    text: str
    kind: int
    told: str = ""
    detail: str = ""
    rank: int = 5
    """What is likelier comes first."""


def value_offer(each: Candidate, at: Cursor, hand: Hand, rank: int = 5) -> Offer:
    """The offer of one value."""
    text = hand.value(each.value, at.quote)
    label = each.value if isinstance(each.value, str) else text
    return Offer(label, hand.literal(text), VALUE, each.told, "default" if each.is_default else "", rank)


# What may stand as the value of a key, the likeliest first, with what each stands for.


class Candidate(NamedTuple):
    """One value."""

    value: Json
    told: str = ""
    is_default: bool = False
    label: str = ""
    """What a block is called; empty for a plain value."""


def candidates(key: KeyView, seen: Scope) -> list[Candidate]:
    """The values of a key that holds no section, each once."""
    found: dict[str, Candidate] = {}
    for value in _values(key, seen):
        told = meaning(key.info, value)
        if value == "auto" and not told:
            told = f"filled by {seen.consumer.capitalize()}"
        same = value == key.default and type(value) is type(key.default)
        found.setdefault(repr(value), Candidate(value, told, same))
    return list(found.values())


def _values(key: KeyView, seen: Scope) -> Iterator[Json]:
    info = key.info
    kinds = {kind.name: kind for kind in types_of(info.section).values()} if info.name == "type" else {}
    if seen.consumer in info.fills:
        yield "auto"
    for word in info.known:
        if word not in kinds or seen.release in kinds[word].releases:
            yield float(word) if key.type[0] in ("int", "float") else word
    if info.name == "type":
        yield from (name for name, kind in kinds.items() if seen.release in kind.releases)
    if isinstance(key.default, list):
        yield key.default
        return
    yield from _of_type(key.type)
    if key.default is not None and not isinstance(key.default, dict):
        yield key.default


def _of_type(spec: Spec) -> Iterator[Json]:
    match spec[0]:
        case "bool":
            yield from (True, False)
        case "enum":
            yield from spec[1:]
        case "union":
            for arm in spec[1:]:
                yield from _of_type(arm)
        case "list":
            yield []
        case "map":
            yield {}


def blocks(section: SectionView, key: KeyView, seen: Scope) -> Iterator[Candidate]:
    """Blocks for a key that holds a section: an empty one, and those that people mostly mean."""
    inner = child_section(key.type)
    if inner is None:
        return
    from dsconfig.schema import snippets

    for each in snippets.snippets_of(section, key.info.name, inner, seen.release):
        yield Candidate(each["body"], label=str(each["label"]))
    yield Candidate({}, label="empty")


# How completion writes keys, values and blocks: in the text's format, with placeholders.

_BARE = re.compile(r"[A-Za-z_][\w./+-]*")
_NOT_BARE = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Words that YAML 1.1 takes for something else."""
_PLACE = re.compile(r'"\^(\$\{\d+:[^}]*\})"')
_NAMED = re.compile(r"\$\{\d+:([^}]*)\}")
_EMPTY = {"section": "{}", "map": "{}", "list": "[]", "str": '""'}
_LONG = 60
"""Characters from which on a block has a line for each key."""


class Hand(NamedTuple):
    """How things are written in a text."""

    yaml: bool
    bare: bool
    """Whether keys stand without quotes, as YAML and Hjson have them; a line of its own needs no comma."""
    snippets: bool
    """Whether the editor knows placeholders."""
    flow: bool
    """Whether what is around has braces."""
    indent: str
    """The white space before the line."""

    @property
    def is_block(self) -> bool:
        """Whether objects are written as lines that stand further in, without braces."""
        return self.yaml and not self.flow

    def entry(self, word: str, at: Cursor, value: str) -> str:
        """A key in the quotes that were typed already, and its value, unless it has one."""
        key = f"{at.quote or chr(34)}{word}{at.quote or chr(34)}"
        if self.bare and not at.quote and (_BARE.fullmatch(word) or word.startswith("$")):
            key = word
        between = ":" if value.startswith("\n") else ": "
        return self.literal(key) + ("" if at.has_value else f"{between}{value}".rstrip(" "))

    def value(self, value: Json, quote: str = "") -> str:
        """A value without objects in it."""
        if isinstance(value, str) and self.yaml and not quote:
            bare = _BARE.fullmatch(value) and value.lower() not in _NOT_BARE
            return value if bare else json.dumps(value)
        if isinstance(value, str) and quote == "'":
            return f"'{value}'"
        return json.dumps(value)

    def block(self, body: Json) -> str:
        """An object with everything in it, as it follows a key; its lines stand under the key's own."""
        if not body:
            return self.beneath()
        text = "\n" + _indented(_yaml(body), "  ") if self.is_block else _json(body)
        text = _PLACE.sub(r"\1", text)
        return text if self.snippets else _NAMED.sub(r"\1", text).replace("\n", f"\n{self.indent}")

    def beneath(self) -> str:
        """An empty object, in which the next key is typed."""
        if self.is_block and self.snippets:
            return "\n  $1"
        return "" if self.is_block else self.hole("section")

    def place(self, value: Json) -> str:
        """A value that is likely meant, and can be typed over."""
        text = self.value(value)
        if not self.snippets:
            return text
        if value in ([], {}, ""):
            return f"{text[:1]}$1{text[1:]}"
        return f"${{1:{self.literal(text)}}}"

    def literal(self, text: str) -> str:
        """A text in which nothing is a placeholder."""
        return re.sub(r"([\\$}])", r"\\\1", text) if self.snippets else text

    def hole(self, kind: str) -> str:
        """Where the value of a kind is typed; a value where the editor knows no such place."""
        empty = _EMPTY.get(kind, "")
        if not self.snippets:
            return empty or "null"
        return f"{empty[:1]}$1{empty[1:]}" if empty else "$1"


def _json(body: Json) -> str:
    flat = json.dumps(body)
    return flat if len(flat) <= _LONG else json.dumps(body, indent=2)


def _yaml(body: Json) -> str:
    lines = []
    for key, value in body.items():
        if isinstance(value, dict):
            lines.append(f"{key}:\n{_indented(_yaml(value), '  ')}")
        elif isinstance(value, str) and _BARE.fullmatch(value):
            lines.append(f"{key}: {value}")
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines)


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


# Completion in `"$dsconfig"`: who reads the config, for which release and world size, what is ignored.

_KINDS = {"world-size": "int", "ignore": "list"}
"""What a user types as the value of a key that takes something other than a string."""


def dsconfig_offers(path: KeyPath, at: Cursor, hand: Hand) -> Iterator[Offer]:
    """What may stand at a path of the block."""
    if at.kind == "key" and not path:
        known = {**EXPECTED_VALUES, "ignore": "the rules that are switched off: a list, or lists by key"}
        for word, expected in known.items():
            if word not in at.data:
                hole = hand.hole(_KINDS.get(word, "str"))
                yield Offer(word, hand.entry(word, at, hole), PROPERTY, expected)
    elif at.kind == "value" and path == ("target",):
        for number, release in enumerate(reversed(RELEASES)):
            offer = value_offer(Candidate(release, f"DeepSpeed {release}"), at, hand)
            yield offer._replace(text=_quoted(release, at, hand), rank=1000 + number)
    elif at.kind == "value" and path == ("consumer",):
        for name in CONSUMERS:
            yield value_offer(Candidate(name), at, hand)
    elif at.kind == "value" and path[:1] == ("ignore",):
        for code, name in catalogue().items():
            yield value_offer(Candidate(code, name), at, hand)


def _quoted(release: str, at: Cursor, hand: Hand) -> str:
    """A release, which YAML would not take for a number, but people might."""
    return hand.literal(f"{at.quote or chr(34)}{release}{at.quote or chr(34)}")


# Accelerate's own launch file: its keys, what they do, and what they take, from its schema.


def accelerate_offers(data: Json, at: Cursor, hand: Hand) -> Iterator[Offer]:
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
        for value in _schema_values(schema):
            yield value_offer(Candidate(value), at, hand)
        for each in schema.get("defaultSnippets", ()):
            yield Offer(str(each["label"]), hand.block(each["body"]), SNIPPET, detail="block")


def _first(word: str, schema: JsonObject, hand: Hand) -> str:
    """What follows a key that is completed: its likeliest value, to be typed over."""
    if word == BLOCK:
        return hand.beneath()
    likely = "DEEPSPEED" if word == "distributed_type" else schema.get("default")
    likely = next(_schema_values(schema), None) if likely is None else likely
    return hand.hole("int") if likely is None else hand.place(likely)


def properties(path: KeyPath) -> JsonObject:
    """The keys of the root, or of the block for DeepSpeed, each with its schema."""
    schema = _schema()
    if path == (BLOCK,):
        schema = schema["definitions"]["DeepSpeed"]
    elif path:
        return {}
    return {word: each for word, each in schema["properties"].items() if isinstance(each, dict)}


def _schema_values(schema: JsonObject) -> Iterator[Json]:
    yield from schema.get("enum", ())
    for arm in schema.get("anyOf", ()):
        yield from _schema_values(arm)
    if schema.get("type") == "boolean":
        yield from (True, False)


@cache
def _schema() -> JsonObject:
    from dsconfig.schema.accelerate import launch_schema

    return launch_schema()
