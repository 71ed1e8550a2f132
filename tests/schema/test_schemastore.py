"""What is submitted to SchemaStore: files that each schema takes, and files that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dsconfig.schema import schema_files
from schema import schemastore


@pytest.mark.parametrize("name", ["deepspeed.json", "deepspeed-0.9.json", "deepspeed-0.19.6.json"])
def test_a_schema_takes_and_refuses_its_test_files(name: str) -> None:
    schema = json.loads((schema_files.schema_folder() / name).read_text("utf-8"))
    found = schemastore.choose_samples(schema, schema_files.newest_release_by_schema_file()[name])
    assert all(len(found[takes]) >= 8 for takes in (True, False))
    judge = jsonschema.Draft7Validator(schema)
    assert all(judge.is_valid(config) is takes for takes in found for config in found[takes].values())


def test_launch_files_of_accelerate() -> None:
    judge = jsonschema.Draft7Validator(
        json.loads((schema_files.schema_folder() / "accelerate.json").read_text("utf-8"))
    )
    for takes, documents in schemastore.LAUNCH_FILES.items():
        assert documents
        assert all(judge.is_valid(each) is takes for each in documents.values())


def test_entries_keep_their_catalogs_order(tmp_path: Path) -> None:
    path = tmp_path / "src" / "api" / "json" / "catalog.json"
    theirs = [{"name": "Deep"}, {"name": "DeepSpeed"}, {"name": "Zed"}]
    schemastore.write_json(path, {"version": 1, "schemas": theirs})
    schemastore.update_catalog(tmp_path)
    names = [entry["name"] for entry in json.loads(path.read_text("utf-8"))["schemas"]]
    assert names == ["Deep", "DeepSpeed", "DeepSpeed inference", "Hugging Face Accelerate", "Zed"]


def test_options_are_added_once(tmp_path: Path) -> None:
    path = tmp_path / "src" / "schema-validation.jsonc"
    path.parent.mkdir()
    path.write_text(
        '{\n  "ajvNotStrictMode": [\n    "a.json"\n  ],\n  // a comment\n  "options": {\n  }\n}\n'
    )
    schemastore.update_validator_options(tmp_path, ["deepspeed.json"])
    first = path.read_text("utf-8")
    schemastore.update_validator_options(tmp_path, ["deepspeed.json"])
    assert first.count('"deepspeed.json"') == 2
    assert path.read_text("utf-8") == first
