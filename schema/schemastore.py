"""Write the files for a pull request to SchemaStore: `python -m schema.schemastore CHECKOUT`.

It writes the schemas, valid and invalid test files for each, and the entries of SchemaStore's catalog and
`schema-validation.jsonc`. `make schemastore CHECKOUT=…` runs SchemaStore's checks. The test files are configs of
`tests/cases`: valid ones have no diagnostics, invalid ones are rejected by DeepSpeed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jsonschema

from dsconfig.api.check import check
from dsconfig.core.diagnostic import Effect
from dsconfig.job.consumers import INFERENCE
from dsconfig.schema import schema_files
from tests.cases import cases

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

MAX_FILES = 12
"""Maximum number of valid, and of invalid, test files per schema."""
KEYWORDS = ("deprecationMessage", "doNotSuggest", "errorMessage", "patternErrorMessage")
"""Keywords of editors that SchemaStore's validator does not know."""
LAUNCH = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "DEEPSPEED", "num_processes": 8}
LAUNCH_FILES: dict[bool, dict[str, JsonObject]] = {
    True: {
        "config-file": {**LAUNCH, "deepspeed_config": {"deepspeed_config_file": "ds_config.json"}},
        "plugin": {**LAUNCH, "deepspeed_config": {"zero_stage": 3, "offload_param_device": "cpu"}},
    },
    False: {
        "no-such-stage": {**LAUNCH, "deepspeed_config": {"zero_stage": 7}},
        "no-such-device": {**LAUNCH, "deepspeed_config": {"offload_param_device": "gpu"}},
    },
}
"""Valid and invalid test files for Accelerate."""


class SampleConfig(NamedTuple):
    """A config from the test cases, used as a sample."""

    name: str
    config: Json


def sample_configs(consumer: str = "deepspeed") -> Iterator[SampleConfig]:
    """Yield the distinct configs of all cases for a consumer, smallest first."""
    label_by_text = {
        json.dumps(case.entry["config"]): case.label
        for case in cases()
        if isinstance(case.entry.get("config"), dict) and case.consumer == consumer
    }
    for text, label in sorted(label_by_text.items(), key=lambda each: (len(each[0]), each)):
        yield SampleConfig(re.sub(r"[^\w-]+", "-", label), json.loads(text))


def choose_samples(
    schema: JsonObject, release: str, consumer: str = "deepspeed"
) -> dict[bool, dict[str, Json]]:
    """Return configs that both schema and DeepSpeed accept, and configs that both reject, at most one per rule."""
    validator = jsonschema.Draft7Validator(schema)
    samples_by_validity: dict[bool, dict[str, Json]] = {True: {}, False: {}}
    for sample in sample_configs(consumer):
        rule = "-".join(sample.name.split("-")[:1])
        is_valid = validator.is_valid(sample.config)
        effects = {each.effect for each in check(sample.config, target=release, consumer=consumer)}
        agrees = not effects if is_valid else Effect.REJECTED in effects
        if (
            agrees
            and len(samples_by_validity[is_valid]) < MAX_FILES
            and not any(name.startswith(rule) for name in samples_by_validity[is_valid])
        ):
            samples_by_validity[is_valid][sample.name] = sample.config
    return samples_by_validity


def write_schemas(checkout: Path) -> Iterator[str]:
    """Write the schemas and their test files, and yield the names of the schemas."""
    releases = schema_files.newest_release_by_schema_file()
    inference = schema_files.release_by_inference_schema()
    for name in (*releases, *inference, "accelerate.json"):
        text = (schema_files.schema_folder() / name).read_text("utf-8")
        write_json(checkout / "src" / "schemas" / "json" / name, json.loads(text))
        test_files = LAUNCH_FILES
        if name in releases:
            test_files = choose_samples(json.loads(text), releases[name])
        elif name in inference:
            test_files = choose_samples(json.loads(text), inference[name], INFERENCE)
        for is_valid, documents in test_files.items():
            folder = checkout / "src" / ("test" if is_valid else "negative_test") / name.removesuffix(".json")
            for label, document in documents.items():
                write_json(folder / f"{label}.json", document)
        yield name


def write_json(path: Path, value: Json) -> None:
    """Write JSON; SchemaStore's `npm run prettier:fix` formats it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def update_catalog(checkout: Path) -> None:
    """Add our entries to SchemaStore's catalog, preserving its order."""
    path = checkout / "src" / "api" / "json" / "catalog.json"
    catalog = json.loads(path.read_text("utf-8"))
    entries = json.loads((schema_files.schema_folder() / "catalog.json").read_text("utf-8"))["schemas"]
    names = {entry["name"] for entry in entries}
    others = [entry for entry in catalog["schemas"] if entry["name"] not in names]
    for entry in entries:
        position = next(
            (index for index, other in enumerate(others) if other["name"].lower() > entry["name"].lower()),
            len(others),
        )
        others.insert(position, entry)
    write_json(path, {**catalog, "schemas": others})


def update_validator_options(checkout: Path, names: list[str]) -> None:
    """Add options for our schemas to SchemaStore's validator, by editing the text to keep its comments.

    Like most of SchemaStore's schemas, ours do not pass Ajv's strict mode, which requires a type next to each keyword.
    """
    path = checkout / "src" / "schema-validation.jsonc"
    text = path.read_text("utf-8")
    keywords = ", ".join(f'"{word}"' for word in (*KEYWORDS, "x-dsconfig-consumer", "x-dsconfig-target"))
    new = [name for name in names if f'"{name}"' not in text]
    added = "".join(f'    "{name}": {{ "unknownKeywords": [{keywords}] }},\n' for name in new)
    lenient = "".join(f'    "{name}",\n' for name in new)
    for head, lines in (('  "options": {\n', added), ('  "ajvNotStrictMode": [\n', lenient)):
        text = text.replace(head, head + lines, 1)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Write all files into a SchemaStore checkout."""
    checkout = Path(sys.argv[1])
    names = list(write_schemas(checkout))
    update_catalog(checkout)
    update_validator_options(checkout, names)
    print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
