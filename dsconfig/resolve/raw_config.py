"""The config before anything is filled or derived: as the release reads it, with values set first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.autofill.log import Message
from dsconfig.core.batch_triplet import KEYS, MICRO
from dsconfig.core.json_values import copied
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document
from dsconfig.evaluation.context import Context, Source
from dsconfig.launch.program_writes import overwrite_of, overwrites
from dsconfig.resolve.blocking_findings import OF_TEXT, report_on
from dsconfig.resolve.errors import ResolveError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Written:
    """A copy of the config, and whether DeepSpeed itself reads the file that it stands in."""

    config: JsonObject
    from_file: bool
    changed: frozenset[str] = frozenset()
    """The dotted paths of values that were set first."""

    def refuse_overwritten(self, document: Document) -> None:
        """Stop where a program of the repository writes the batch: the file does not tell it.

        Raises:
            ResolveError: it does, and what it writes is not set.
        """
        unknown = [
            found
            for key in KEYS
            if key not in self.changed and (found := overwrite_of(document.name, key, self.config))
        ]
        if unknown:
            places = " and ".join(dict.fromkeys(each.place for each in unknown))
            keys = [key for key in KEYS if any(each.key == key for each in unknown)] or [MICRO]
            raise ResolveError(
                f"{places} writes `{'`, `'.join(keys)}` before DeepSpeed starts, so that {document.name} "
                "does not tell the batch",
                [f"give what it writes: `set={{{', '.join(f'{json.dumps(key)}: N' for key in keys)}}}`"],
            )

    def overwritten(self, document: Document) -> list[Message]:
        """Say which other values a program of the repository writes before DeepSpeed starts."""
        return [
            Message(
                "note", f"{found.place} writes `{found.key}` before DeepSpeed starts: here it is as written"
            )
            for found in overwrites(document.name)
            if "*" not in found.key
            and found.key not in self.changed
            and found.key not in KEYS
            and overwrite_of(document.name, found.key, self.config)
        ][:_MOST]


_MOST = 5
"""So many of them are said."""


def read_written(document: Document, release: str, consumer: str, changes: Mapping[str, Json]) -> Written:
    """The config as the release reads it, with `changes` by dotted path.

    Raises:
        ResolveError: the release or the consumer cannot read it.
        ValueError: a change names no key.
    """
    seen = context(document, release, consumer)
    config = copied(seen.whole)
    for key, value in changes.items():
        _put(config, key, value)
    return Written(config, seen.from_file, frozenset(changes))


def context(document: Document, release: str, consumer: str) -> Context:
    """The document in the eyes of the release.

    Raises:
        ResolveError: the release or the consumer cannot read it.
    """
    seen = Context(Source(document, consumer, None), NUMBERS[release])
    if seen.is_config and document.readable(seen.parser):
        return seen
    report = report_on(document, release, consumer)
    errors = [found for found in report if found.severity == "error" and found.code.startswith(OF_TEXT)]
    why = f"{errors[0].code} {errors[0].message}" if errors else "it is not an object"
    raise ResolveError(f"{document.name} cannot be read: {why}", (), errors)


def _put(config: JsonObject, key: str, value: Json) -> None:
    """Write a value at a dotted path, making sections on the way."""
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise ValueError(f"{key!r} is not a key: expected a dotted path such as `zero_optimization.stage`")
    here = config
    for depth, section in enumerate(sections, 1):
        inner = here.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key!r} cannot be set: `{'.'.join(sections[:depth])}` is not an object")
        here = inner
    here[last] = copied(value)
