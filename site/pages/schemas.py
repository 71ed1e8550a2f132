"""The pages of the JSON Schemas, which are served at stable URLs, and of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from dsconfig.core.diagnostic import SITE
from dsconfig.schema.schema_files import (
    BASE,
    newest_release_by_schema_file,
    release_by_inference_schema,
    settings_schema,
)
from pages import markdown

FOLDER = Path(__file__).resolve().parents[2] / "schema"


def pages() -> dict[str, str]:
    """The schemas with their index, and the page of settings."""
    files = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.json"))}
    served = {
        f"schema/{name}": text.replace(f'"$id": "{BASE}', f'"$id": "{SITE}schema/')
        for name, text in files.items()
    }
    return {"schema/index.md": _index(files), **served, "settings/index.md": _settings()}


def _index(files: Mapping[str, str]) -> str:
    description = (
        "JSON Schemas for editors: DeepSpeed configs by release, inference configs, Accelerate's config file."
    )
    release_by_name = newest_release_by_schema_file()
    inference = release_by_inference_schema()
    others = [name for name in files if name not in release_by_name | inference]
    newest_first = [*reversed(release_by_name), *reversed(inference), *others]
    rows = [
        (
            f"[{name}]({name})",
            f"DeepSpeed {release_by_name[name]}"
            if name in release_by_name
            else f"inference configs of DeepSpeed {inference[name]}"
            if name in inference
            else OTHERS[name],
        )
        for name in newest_first
        if name in files and name != "catalog.json"
    ]
    return markdown.page(
        "Schemas",
        description,
        "The URLs are stable. `dsconfig editor` configures an editor to use the schemas; `dsconfig schema "
        "--target 0.18.9` prints the schema for any release and consumer.",
        markdown.fence(json.dumps({"$schema": f"{SITE}schema/deepspeed.json"}, indent=2), "json"),
        markdown.table(("file", "schema of"), rows),
    )


OTHERS = {
    "accelerate.json": "Accelerate's config file, with DeepSpeed",
    "deepspeed-in-yaml.json": "a DeepSpeed config in YAML, newest release",
    "dsconfig.json": "the settings of dsconfig itself",
}


def _settings() -> str:
    description = "Settings of dsconfig in pyproject.toml or dsconfig.toml: target, rules, files, overrides."
    schema = settings_schema()
    return markdown.page(
        "Settings",
        description,
        "Settings are in `[tool.dsconfig]` of `pyproject.toml`, or in `dsconfig.toml`. The nearest file in the "
        "folder of the config or its parents applies. Options on the command line take precedence.",
        markdown.table(("setting", "meaning", "type"), _rows(schema["properties"])),
        "`[[overrides]]` applies to some `files` only; the [schema](../schema/dsconfig.json) lists its keys.",
    )


def _rows(properties: object) -> Iterator[tuple[str, str, str]]:
    assert isinstance(properties, dict)
    for name, schema in properties.items():
        yield f"`{name}`", schema.get("description", ""), _type(schema)


def _type(schema: Mapping[str, object]) -> str:
    """The type of a setting in words."""
    if isinstance(values := schema.get("enum"), list):
        return ", ".join(f"`{word}`" for word in values)
    kind = schema.get("type")
    if kind == "array":
        return "a list"
    return {"object": "a table", "integer": "an integer", "string": "a string"}.get(str(kind), "a string")
