"""The whole config, with the definitions of its sections."""

from __future__ import annotations

from dsconfig.schema import snippets
from dsconfig.schema.keywords import Schema, any_case
from dsconfig.schema.sections import Builder

_REMARKS = ("comment", "comments", "description", "note", "notes")
REMARK_PATTERN = f"^(_|//|#)|{any_case(_REMARKS)}"
"""Names of remarks, as `check` knows them."""


def root(release: int, consumer: str | None) -> Schema:
    """The keywords of the whole config, definitions last."""
    builder = Builder(release, consumer)
    body = builder.body("Config")
    properties: Schema = body.pop("properties")
    meta: Schema = {
        "$schema": {"type": "string", "description": "The JSON Schema that editors check this file with."},
        "$dsconfig": {"type": "object", "description": "Settings of dsconfig for this file."},
    }
    return {
        "type": "object",
        "properties": {**meta, **properties},
        "patternProperties": {REMARK_PATTERN: {}},
        "defaultSnippets": list(snippets.whole(release, consumer)),
        **body,
        "definitions": dict(sorted(builder.definitions.items())),
    }
