"""The JSON Schemas, to be served at fixed addresses, and the settings, from their own schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from dsconfig.core.diagnostic import SITE
from dsconfig.schema.files import BASE, releases, settings_schema
from pages import markdown

FOLDER = Path(__file__).resolve().parents[2] / "schema"


def pages() -> dict[str, str]:
    """The page of the schemas, the schemas, and the page of settings."""
    files = {path.name: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.json"))}
    served = {
        f"schema/{name}": text.replace(f'"$id": "{BASE}', f'"$id": "{SITE}schema/')
        for name, text in files.items()
    }
    return {"schema/index.md": _index(files), **served, "settings/index.md": _settings()}


def _index(files: Mapping[str, str]) -> str:
    told = "JSON Schemas of the DeepSpeed config, by release, and of Accelerate's launch file: for editors."
    known = releases()
    rows = [
        (f"[{name}]({name})", f"DeepSpeed {known[name]}" if name in known else OTHERS[name])
        for name in sorted(
            files, key=lambda name: (name not in known, -list(known).index(name) if name in known else 0)
        )
        if name != "catalog.json"
    ]
    return markdown.page(
        "Schemas",
        told,
        "The files keep their addresses. `dsconfig editor` connects an editor with them, `dsconfig schema "
        "--target 0.18.9` writes one for any release and reader.",
        markdown.fence(json.dumps({"$schema": f"{SITE}schema/deepspeed.json"}, indent=2), "json"),
        markdown.table(("file", "for"), rows),
    )


OTHERS = {
    "accelerate.json": "Accelerate's launch file, with DeepSpeed",
    "deepspeed-in-yaml.json": "a DeepSpeed config in YAML, newest release",
    "dsconfig.json": "the settings of dsconfig itself",
}


def _settings() -> str:
    told = "The settings of dsconfig, in pyproject.toml or dsconfig.toml: targets, rules, files, overrides."
    schema = settings_schema()
    return markdown.page(
        "Settings",
        told,
        "They stand in `[tool.dsconfig]` of `pyproject.toml`, or in `dsconfig.toml`; from its folder "
        "upwards, the nearest counts. An option on the command line has the last word.",
        markdown.table(("setting", "what it says", "takes"), _rows(schema["properties"])),
        "`[[overrides]]` is for some `files` only; the [schema](../schema/dsconfig.json) "
        "lists what it may say.",
    )


def _rows(properties: object) -> Iterator[tuple[str, str, str]]:
    assert isinstance(properties, dict)
    for name, schema in properties.items():
        yield f"`{name}`", schema.get("description", ""), _takes(schema)


def _takes(schema: Mapping[str, object]) -> str:
    """The type in words."""
    if isinstance(words := schema.get("enum"), list):
        return ", ".join(f"`{word}`" for word in words)
    kind = schema.get("type")
    if kind == "array":
        return "a list"
    return {"object": "a table", "integer": "an integer", "string": "a text"}.get(str(kind), "a text")
