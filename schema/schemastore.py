"""What SchemaStore asks for, ready to submit: `python -m schema.schemastore CHECKOUT` writes it into theirs.

The schemas, for each a folder of files that it takes and one of files that it refuses, the entries of their
catalogue and of their `schema-validation.jsonc`. `make schemastore CHECKOUT=…` runs their own checks. The
test files are configs of `tests/cases`: taken where a check has nothing to say, refused where DeepSpeed does.
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
from dsconfig.schema import files
from tests.cases import cases

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

MOST = 12
"""Test files of each kind for one schema."""
KEYWORDS = ("deprecationMessage", "doNotSuggest", "errorMessage", "patternErrorMessage")
"""Editors know them, and SchemaStore's validator does not."""
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
"""Accelerate's, taken and refused."""


class Sample(NamedTuple):
    """A config of the tests."""

    name: str
    config: Json


def samples() -> Iterator[Sample]:
    """The configs of all cases, smallest first, each once."""
    found = {
        json.dumps(case.entry["config"]): case.label
        for case in cases()
        if isinstance(case.entry.get("config"), dict) and case.consumer == "deepspeed"
    }
    for text, label in sorted(found.items(), key=lambda each: (len(each[0]), each)):
        yield Sample(re.sub(r"[^\w-]+", "-", label), json.loads(text))


def chosen(schema: JsonObject, release: str) -> dict[bool, dict[str, Json]]:
    """Configs that the schema takes and DeepSpeed too, and such that both refuse; at most one of a rule."""
    judge = jsonschema.Draft7Validator(schema)
    found: dict[bool, dict[str, Json]] = {True: {}, False: {}}
    for sample in samples():
        rule = "-".join(sample.name.split("-")[:1])
        takes = judge.is_valid(sample.config)
        told = {each.effect for each in check(sample.config, target=release, consumer="deepspeed")}
        right = not told if takes else Effect.REJECTED in told
        if right and len(found[takes]) < MOST and not any(name.startswith(rule) for name in found[takes]):
            found[takes][sample.name] = sample.config
    return found


def written(checkout: Path) -> Iterator[str]:
    """Write schemas and their test files; the names of the schemas."""
    known = files.releases()
    for name in (*known, "accelerate.json"):
        text = (files.folder() / name).read_text("utf-8")
        put(checkout / "src" / "schemas" / "json" / name, json.loads(text))
        tested = chosen(json.loads(text), known[name]) if name in known else LAUNCH_FILES
        for takes, documents in tested.items():
            folder = checkout / "src" / ("test" if takes else "negative_test") / name.removesuffix(".json")
            for label, document in documents.items():
                put(folder / f"{label}.json", document)
        yield name


def put(path: Path, value: Json) -> None:
    """Write JSON as their formatter does, nearly: `npm run prettier:fix` does the rest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def catalogue(checkout: Path) -> None:
    """Add our entries to their catalogue, in its order."""
    path = checkout / "src" / "api" / "json" / "catalog.json"
    theirs = json.loads(path.read_text("utf-8"))
    ours = json.loads((files.folder() / "catalog.json").read_text("utf-8"))["schemas"]
    names = {entry["name"] for entry in ours}
    others = [entry for entry in theirs["schemas"] if entry["name"] not in names]
    for entry in ours:
        place = next(
            (at for at, each in enumerate(others) if each["name"].lower() > entry["name"].lower()),
            len(others),
        )
        others.insert(place, entry)
    put(path, {**theirs, "schemas": others})


def options(checkout: Path, names: list[str]) -> None:
    """Say how their validator is to read ours, at the beginning of both lists, as text: it has comments.

    Most of their schemas are not read in its full strict mode either, which wants a type beside each keyword.
    """
    path = checkout / "src" / "schema-validation.jsonc"
    text = path.read_text("utf-8")
    told = ", ".join(f'"{word}"' for word in (*KEYWORDS, "x-dsconfig-consumer", "x-dsconfig-target"))
    new = [name for name in names if f'"{name}"' not in text]
    added = "".join(f'    "{name}": {{ "unknownKeywords": [{told}] }},\n' for name in new)
    lenient = "".join(f'    "{name}",\n' for name in new)
    for head, lines in (('  "options": {\n', added), ('  "ajvNotStrictMode": [\n', lenient)):
        text = text.replace(head, head + lines, 1)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Write all of it into a checkout of SchemaStore."""
    checkout = Path(sys.argv[1])
    names = list(written(checkout))
    catalogue(checkout)
    options(checkout, names)
    print("\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
