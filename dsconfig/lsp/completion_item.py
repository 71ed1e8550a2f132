"""Completion items for keys, values and blocks, with the text that each inserts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.rule_selector import rule_names_by_code
from dsconfig.core.releases import RELEASES
from dsconfig.job.consumers import CONSUMERS
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, is_launch_file
from dsconfig.job.job_facts import EXPECTED_VALUES
from dsconfig.lsp.relevant_documents import is_draft_launch_file
from dsconfig.model.key_description import meaning_of_value
from dsconfig.model.key_table import child_section, types_of_section

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath, Spec
    from dsconfig.lsp.completion_cursor import CompletionCursor, ConfigScope
    from dsconfig.model.key_table import KeyView, SectionView


PROPERTY, VALUE, SNIPPET = 10, 12, 15


class CompletionItem(NamedTuple):
    """A completion item for a key, value or block."""

    label: str
    text: str
    kind: int
    documentation: str = ""
    detail: str = ""
    rank: int = 5
    """Sort rank of the item; likelier items have lower ranks."""


def completion_item_for_value(
    candidate: CompletionCandidate, position: CompletionCursor, writer: InsertTextWriter, rank: int = 5
) -> CompletionItem:
    """Return the completion item for a value."""
    text = writer.write_value(candidate.value, position.quote)
    label = candidate.value if isinstance(candidate.value, str) else text
    return CompletionItem(
        label,
        writer.escape_snippet(text),
        VALUE,
        candidate.documentation,
        "default" if candidate.is_default else "",
        rank,
    )


# Values of a key, likeliest first.


class CompletionCandidate(NamedTuple):
    """A possible value of a key, or a block for a section."""

    value: Json
    documentation: str = ""
    is_default: bool = False
    label: str = ""
    """Label of a block; empty for a value."""


def value_candidates(key: KeyView, config_scope: ConfigScope) -> list[CompletionCandidate]:
    """Return the candidate values of a key that is not a section, without duplicates."""
    by_text: dict[str, CompletionCandidate] = {}
    for value in _candidate_values(key, config_scope):
        documentation = meaning_of_value(key.info, value)
        if value == "auto" and not documentation:
            documentation = f"resolved by {config_scope.consumer.capitalize()}"
        is_default = value == key.default and type(value) is type(key.default)
        by_text.setdefault(repr(value), CompletionCandidate(value, documentation, is_default))
    return list(by_text.values())


def _candidate_values(key: KeyView, config_scope: ConfigScope) -> Iterator[Json]:
    info = key.info
    kinds = (
        {kind.name: kind for kind in types_of_section(info.section).values()} if info.name == "type" else {}
    )
    if config_scope.consumer in info.fills:
        yield "auto"
    for word in info.known:
        if word not in kinds or config_scope.release in kinds[word].releases:
            yield float(word) if key.type[0] in ("int", "float") else word
    if info.name == "type":
        yield from (name for name, kind in kinds.items() if config_scope.release in kind.releases)
    if isinstance(key.default, list):
        yield key.default
        return
    yield from _values_of_type(key.type)
    if key.default is not None and not isinstance(key.default, dict):
        yield key.default


def _values_of_type(spec: Spec) -> Iterator[Json]:
    match spec[0]:
        case "bool":
            yield from (True, False)
        case "enum":
            yield from spec[1:]
        case "union":
            for arm in spec[1:]:
                yield from _values_of_type(arm)
        case "list":
            yield []
        case "map":
            yield {}


def block_candidates(
    section: SectionView, key: KeyView, config_scope: ConfigScope
) -> Iterator[CompletionCandidate]:
    """Yield common blocks for a section, and an empty one."""
    inner = child_section(key.type)
    if inner is None:
        return
    from dsconfig.schema import schema_keywords

    for snippet in schema_keywords.snippets_of(section, key.info.name, inner, config_scope.release):
        yield CompletionCandidate(snippet["body"], label=str(snippet["label"]))
    yield CompletionCandidate({}, label="empty")


# Inserted text: in the format of the document, with placeholders.

_BARE = re.compile(r"[A-Za-z_][\w./+-]*")
_NOT_BARE = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""Pattern of words that YAML 1.1 does not read as strings."""
_QUOTED_PLACEHOLDER = re.compile(r'"\^(\$\{\d+:[^}]*\})"')
_PLACEHOLDER = re.compile(r"\$\{\d+:([^}]*)\}")
_EMPTY = {"section": "{}", "map": "{}", "list": "[]", "str": '""'}
_MAX_INLINE = 60
"""Maximal number of characters of a block that is written on one line."""


class InsertTextWriter(NamedTuple):
    """Formats inserted text in the style of the document."""

    yaml: bool
    bare: bool
    """Whether keys have no quotes, as in YAML and Hjson, where a line end also separates entries."""
    snippets: bool
    """Whether the editor supports snippet placeholders."""
    flow: bool
    """Whether the object around the cursor has braces."""
    indent: str
    """Indentation of the line with the cursor."""

    @property
    def is_block_style(self) -> bool:
        """Whether objects are written as indented lines without braces."""
        return self.yaml and not self.flow

    def write_entry(self, word: str, position: CompletionCursor, value: str) -> str:
        """Return the text of a key with its value, unless it already has one."""
        if position.is_argument:
            return self.escape_snippet(word) + ("" if position.has_value else f"={value}")
        key = f"{position.quote or chr(34)}{word}{position.quote or chr(34)}"
        if self.bare and not position.quote and (_BARE.fullmatch(word) or word.startswith("$")):
            key = word
        separator = ":" if value.startswith("\n") else ": "
        return self.escape_snippet(key) + ("" if position.has_value else f"{separator}{value}".rstrip(" "))

    def write_value(self, value: Json, quote: str = "") -> str:
        """Return the text of a scalar or list value."""
        if isinstance(value, str) and self.yaml and not quote:
            bare = _BARE.fullmatch(value) and value.lower() not in _NOT_BARE
            return value if bare else json.dumps(value)
        if isinstance(value, str) and quote == "'":
            return f"'{value}'"
        return json.dumps(value)

    def write_block(self, body: Json) -> str:
        """Return the text of an object, to be inserted after a key."""
        if not body:
            return self.write_empty_object()
        text = (
            "\n" + _indent_text(_block_as_yaml(body), "  ") if self.is_block_style else _block_as_json(body)
        )
        text = _QUOTED_PLACEHOLDER.sub(r"\1", text)
        return text if self.snippets else _PLACEHOLDER.sub(r"\1", text).replace("\n", f"\n{self.indent}")

    def write_empty_object(self) -> str:
        """Return the text of an empty object, with the cursor inside it for the next key."""
        if self.is_block_style and self.snippets:
            return "\n  $1"
        return "" if self.is_block_style else self.write_empty_value("section")

    def write_placeholder(self, value: Json) -> str:
        """Return the text of a value as a snippet placeholder."""
        text = self.write_value(value)
        if not self.snippets:
            return text
        if value in ([], {}, ""):
            return f"{text[:1]}$1{text[1:]}"
        return f"${{1:{self.escape_snippet(text)}}}"

    def escape_snippet(self, text: str) -> str:
        """Escape the characters of a text that are special in snippets."""
        return re.sub(r"([\\$}])", r"\\\1", text) if self.snippets else text

    def write_empty_value(self, kind: str) -> str:
        """Return a placeholder for a value of a type; without snippet support, an empty value."""
        empty = _EMPTY.get(kind, "")
        if not self.snippets:
            return empty or "null"
        return f"{empty[:1]}$1{empty[1:]}" if empty else "$1"


def _block_as_json(body: Json) -> str:
    flat = json.dumps(body)
    return flat if len(flat) <= _MAX_INLINE else json.dumps(body, indent=2)


def _block_as_yaml(body: Json) -> str:
    lines = []
    for key, value in body.items():
        if isinstance(value, dict):
            lines.append(f"{key}:\n{_indent_text(_block_as_yaml(value), '  ')}")
        elif isinstance(value, str) and _BARE.fullmatch(value):
            lines.append(f"{key}: {value}")
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines)


def _indent_text(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


# Completion in `"$dsconfig"`.

_KINDS = {"world-size": "int", "ignore": "list"}
"""Types of the `"$dsconfig"` keys whose values are not strings."""


def dsconfig_block_items(
    path: KeyPath, position: CompletionCursor, writer: InsertTextWriter
) -> Iterator[CompletionItem]:
    """Yield the completion items for a path in the `"$dsconfig"` block."""
    if position.kind == "key" and not path:
        keys = {**EXPECTED_VALUES, "ignore": "rules to ignore: a list, or lists by key"}
        for word, expected in keys.items():
            if word not in position.data:
                placeholder = writer.write_empty_value(_KINDS.get(word, "str"))
                yield CompletionItem(
                    word, writer.write_entry(word, position, placeholder), PROPERTY, expected
                )
    elif position.kind == "value" and path == ("target",):
        for number, release in enumerate(reversed(RELEASES)):
            item = completion_item_for_value(
                CompletionCandidate(release, f"DeepSpeed {release}"), position, writer
            )
            yield item._replace(text=_quote_release(release, position, writer), rank=1000 + number)
    elif position.kind == "value" and path == ("consumer",):
        for name in CONSUMERS:
            yield completion_item_for_value(CompletionCandidate(name), position, writer)
    elif position.kind == "value" and path[:1] == ("ignore",):
        for code, name in rule_names_by_code().items():
            yield completion_item_for_value(CompletionCandidate(code, name), position, writer)


def _quote_release(release: str, position: CompletionCursor, writer: InsertTextWriter) -> str:
    """Return a release in quotes; YAML does not need them, but they make clear that it is a string."""
    return writer.escape_snippet(f"{position.quote or chr(34)}{release}{position.quote or chr(34)}")


# Completion in Accelerate's launch file, from its schema.


def accelerate_file_items(
    data: Json, position: CompletionCursor, writer: InsertTextWriter
) -> Iterator[CompletionItem]:
    """Yield the completion items for the cursor in an Accelerate launch file."""
    if not (is_launch_file(data) or is_draft_launch_file(position.document.name, data)):
        return
    if position.kind == "key" and position.path in ((), (BLOCK,)):
        for word, schema in accelerate_key_schemas(position.path).items():
            if word not in position.data:
                text = writer.write_entry(word, position, _first_value_from_schema(word, schema, writer))
                yield CompletionItem(word, text, PROPERTY, str(schema.get("description", "")))
    elif position.kind == "value" and position.path:
        schema = accelerate_key_schemas(position.path[:-1]).get(str(position.path[-1]), {})
        for value in _schema_values(schema):
            yield completion_item_for_value(CompletionCandidate(value), position, writer)
        for snippet in schema.get("defaultSnippets", ()):
            yield CompletionItem(
                str(snippet["label"]), writer.write_block(snippet["body"]), SNIPPET, detail="block"
            )


def _first_value_from_schema(word: str, schema: JsonObject, writer: InsertTextWriter) -> str:
    """Return the value to insert after a completed key: a placeholder with the most likely value."""
    if word == BLOCK:
        return writer.write_empty_object()
    value = "DEEPSPEED" if word == "distributed_type" else schema.get("default")
    value = next(_schema_values(schema), None) if value is None else value
    return writer.write_empty_value("int") if value is None else writer.write_placeholder(value)


def accelerate_key_schemas(path: KeyPath) -> JsonObject:
    """Return the schemas of the keys in an Accelerate launch file, at its root or in its DeepSpeed block."""
    schema = _accelerate_schema()
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
def _accelerate_schema() -> JsonObject:
    from dsconfig.schema.accelerate_launch import accelerate_launch_schema

    return accelerate_launch_schema()
