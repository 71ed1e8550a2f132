"""Schema files in `schema/`: configs for training and inference, YAML files with a config, and settings of dsconfig.

Each minor series has a file for its last release. The newest series also has one for each release after which the
schema changes. The wheel contains only those of the newest release, in `dsconfig/_schema/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from dsconfig.core.releases import LATEST, NUMBERS, RELEASES, ReleaseTarget
from dsconfig.document.config_file_names import CONFIGS, INFERENCE_CONFIGS, LAUNCH_FILES
from dsconfig.document.pretty_print import format_generated_file
from dsconfig.job.consumers import CONSUMERS, INFERENCE
from dsconfig.job.consumers.consumer_versions import VERSION_PATTERN
from dsconfig.job.settings_file import FAIL_ON, HOST_KINDS, MIN_SEVERITY, OVERRIDES
from dsconfig.model._generated import SECTIONS, TYPES
from dsconfig.model.key_table import section_view_of_release
from dsconfig.rules import RULES
from dsconfig.schema import json_schema
from dsconfig.schema.accelerate_launch import accelerate_launch_schema
from dsconfig.schema.schema_keywords import DRAFT, Schema

BASE = "https://www.schemastore.org/"
"""URL at which the schemas are published, also in the catalog."""
COMMENT = "Generated from dsconfig/model by `make generate`; do not edit."
FIRST_SERIES = (0, 9)
_CATALOG = "catalog.json"


def schema_folder() -> Path:
    """Return the folder with the schemas, in the wheel or in the repository."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_schema"
    return shipped if shipped.is_dir() else package.parent / "schema"


def schema_file_of_target(target: ReleaseTarget) -> Path | None:
    """Return the schema file for the newest release of a target, or None if there is none."""
    release = target.releases[-1]
    for name, kept in newest_release_by_schema_file().items():
        if kept == release or (
            _minor_series(kept) == _minor_series(LATEST)
            and _schema_equality_key(kept) == _schema_equality_key(release)
        ):
            path = schema_folder() / name
            return path if path.exists() else None
    return None


def schema_texts_by_file() -> dict[str, Callable[[], str]]:
    """Map the name of each schema file to a function that generates its text."""
    wrapped: dict[str, Callable[[], Schema]] = {
        "accelerate.json": accelerate_launch_schema,
        "deepspeed-in-yaml.json": yaml_schema,
        "dsconfig.json": settings_schema,
    }
    return {
        **{
            name: partial(_schema_text, name, release)
            for name, release in newest_release_by_schema_file().items()
        },
        **{
            name: partial(_schema_text, name, release, INFERENCE)
            for name, release in release_by_inference_schema().items()
        },
        **{name: partial(_schema_file_text, name, make) for name, make in wrapped.items()},
        _CATALOG: _schemastore_catalog,
    }


@cache
def newest_release_by_schema_file() -> dict[str, str]:
    """Map each schema file to its release: `deepspeed.json` first, then oldest to newest."""
    by_name = {"deepspeed.json": LATEST}
    for series in dict.fromkeys(map(_minor_series, RELEASES)):
        if series >= FIRST_SERIES:
            last = _releases_of_series(series)[-1]
            by_name[f"deepspeed-{series[0]}.{series[1]}.json"] = last
    by_name |= {
        f"deepspeed-{release}.json": release
        for release in _releases_before_schema_change(_minor_series(LATEST))
    }
    return by_name


@cache
def release_by_inference_schema() -> dict[str, str]:
    """Map each schema file of inference configs to its release: the newest, then the last of each series."""
    series_files = {
        f"deepspeed-inference-{series[0]}.{series[1]}.json": _releases_of_series(series)[-1]
        for series in dict.fromkeys(map(_minor_series, RELEASES))
        if FIRST_SERIES <= series < _minor_series(LATEST)
    }
    return {"deepspeed-inference.json": LATEST, **series_files}


def _minor_series(release: str) -> tuple[int, int]:
    major, minor, _ = release.split(".")
    return int(major), int(minor)


def _releases_of_series(series: tuple[int, int]) -> list[str]:
    return [release for release in RELEASES if _minor_series(release) == series]


def _releases_before_schema_change(series: tuple[int, int]) -> Iterator[str]:
    """Yield the releases of a series, except the last, after which the schema changes."""
    members = _releases_of_series(series)
    for release, following in pairwise(members):
        if _schema_equality_key(release) != _schema_equality_key(following):
            yield release


@cache
def _schema_equality_key(release: str) -> tuple[object, ...]:
    """Return a key that is the same for releases with the same schema."""
    number = NUMBERS[release]
    types = tuple(
        first <= number <= last for entries in TYPES.values() for _, _, first, last, *_ in entries.values()
    )
    return (*(section_view_of_release(section, number).releases for section in SECTIONS), types)


def _schemastore_catalog() -> str:
    """Return our entries for the SchemaStore catalog, in its format."""
    versions = {
        name.removeprefix("deepspeed-").removesuffix(".json"): f"{BASE}{name}"
        for name in newest_release_by_schema_file()
        if name != "deepspeed.json"
    }
    entries = [
        {
            "name": "DeepSpeed",
            "description": "DeepSpeed training configuration",
            "fileMatch": list(CONFIGS),
            "url": f"{BASE}deepspeed.json",
            "versions": versions,
        },
        {
            "name": "DeepSpeed inference",
            "description": "Configuration of deepspeed.init_inference",
            "fileMatch": list(INFERENCE_CONFIGS),
            "url": f"{BASE}deepspeed-inference.json",
            "versions": {
                name.removeprefix("deepspeed-inference-").removesuffix(".json"): f"{BASE}{name}"
                for name in release_by_inference_schema()
                if name != "deepspeed-inference.json"
            },
        },
        {
            "name": "Hugging Face Accelerate",
            "description": "Configuration of accelerate launch, with DeepSpeed",
            "fileMatch": list(LAUNCH_FILES),
            "url": f"{BASE}accelerate.json",
        },
    ]
    return format_generated_file({"$comment": COMMENT, "schemas": entries})


@cache
def _schema_file_text(name: str, make: Callable[[], Schema]) -> str:
    return published_schema_text(name, make())


@cache
def _schema_text(name: str, release: str, consumer: str | None = None) -> str:
    return published_schema_text(name, json_schema(release, consumer))


def published_schema_text(name: str, schema: Schema) -> str:
    """Return the text of a schema file."""
    draft = schema.pop("$schema")
    return format_generated_file({"$comment": COMMENT, "$schema": draft, "$id": f"{BASE}{name}", **schema})


# The schema of YAML files with an embedded config.


def yaml_schema(release: str = LATEST) -> Schema:
    """Return the schema of a YAML file with a config, or the path to one, under `deepspeed`.

    Source: transformers 5.24 training_args.py, TrainingArguments.deepspeed.
    """
    config = json_schema(release)
    definitions: Schema = config.pop("definitions")
    for key in ("$schema", "title", "x-dsconfig-target"):
        del config[key]
    return {
        "$schema": DRAFT,
        "title": f"YAML with a DeepSpeed {release} config",
        "x-dsconfig-target": release,
        "type": "object",
        "properties": {
            "deepspeed": {
                "$ref": "#/definitions/ConfigOrPath",
                "description": "A DeepSpeed config, or the path to one.",
            }
        },
        "definitions": {
            "ConfigOrPath": {**config, "type": ["object", "string", "null"]},
            **definitions,
        },
    }


# The schema of dsconfig's own settings.

_CONSUMERS: list[Schema] = [{"enum": list(CONSUMERS)}, {"type": "string", "pattern": VERSION_PATTERN}]
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}


def settings_schema() -> Schema:
    """Return the schema of dsconfig.toml and of `[tool.dsconfig]` in pyproject.toml."""
    properties = {
        key: {"description": text, **value} for key, (text, value) in _settings_properties().items()
    }
    files: Schema = {"description": "Patterns of the files to which the override applies.", **_TEXTS}
    override: Schema = {
        "type": "object",
        "properties": {"files": files, **properties},
        "required": ["files"],
        "additionalProperties": False,
    }
    description = "Settings for some files only; the last override that matches a file takes precedence."
    overrides: Schema = {"description": description, "type": "array", "items": override}
    return {
        "$schema": DRAFT,
        "title": "dsconfig settings",
        "type": "object",
        "properties": {**properties, OVERRIDES: overrides},
        "additionalProperties": False,
    }


def _settings_properties() -> dict[str, tuple[str, Schema]]:
    """Return the description and schema of each setting."""
    rule: Schema = {"anyOf": [{"enum": sorted(RULES)}, {"type": "string"}]}
    rules: Schema = {"type": "array", "items": rule}
    return {
        "target": (
            "DeepSpeed release, or range of releases, to check against; `installed` works too.",
            {"type": "string", "examples": [LATEST, f">=0.14,<{LATEST}", "installed"]},
        ),
        "world-size": ("Number of processes.", {"type": "integer", "minimum": 1}),
        "consumer": (
            "Consumer: the program that loads the configs; detected by default.",
            {"anyOf": _CONSUMERS},
        ),
        "model": (
            "Model: path of its config.json or of its folder, or a name such as llama-3-8b.",
            {"type": "string", "minLength": 1},
        ),
        "host-memory": ("Memory per node, such as 512GiB.", {"type": "string", "examples": ["512GiB"]}),
        "gpus-per-node": ("GPUs (ranks) per node; 8 by default.", {"type": "integer", "minimum": 1}),
        "select": ("Rules to enable: codes, prefixes of codes, names, or `ALL`.", rules),
        "ignore": ("Rules to disable.", rules),
        "extend-select": ("Additional rules to enable.", rules),
        "fixable": ("Rules whose diagnostics are fixed; all by default.", rules),
        "unfixable": ("Rules whose diagnostics are not fixed.", rules),
        "fail-on": (
            "Lowest severity that causes exit code 1.",
            {"enum": list(FAIL_ON), "default": "warning"},
        ),
        "min-severity": ("Lowest severity that is shown.", {"enum": list(MIN_SEVERITY)}),
        "exclude": ("Patterns of files and folders to exclude.", _TEXTS),
        "extend-exclude": ("Additional patterns to exclude, if `exclude` is set elsewhere.", _TEXTS),
        "skip": (
            "Kinds of files that are not checked as part of a folder. They still say how a config is launched.",
            {"type": "array", "items": {"enum": list(HOST_KINDS)}},
        ),
        "per-file-ignores": (
            "Rules to disable in the files that match a pattern.",
            {"type": "object", "additionalProperties": rules},
        ),
    }
