"""Schema files in `schema/` of the repository, with those of YAML hosts and of dsconfig's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.consumer_versions import VERSIONED
from dsconfig.core.releases import LATEST, NUMBERS, RELEASES, Target
from dsconfig.document.file_names import CONFIGS, LAUNCH_FILES
from dsconfig.document.json_format import pretty_file
from dsconfig.job.settings_file import FAIL_ON, MIN_SEVERITY, OVERRIDES
from dsconfig.model._generated import SECTIONS, TYPES
from dsconfig.model.keyinfo import view
from dsconfig.rules import RULES
from dsconfig.schema import json_schema
from dsconfig.schema.accelerate import launch_schema
from dsconfig.schema.keywords import DRAFT, Schema

# The schemas that are kept as files, in `schema/` of the repository.
#
# There is one for the last release of each minor series, and in the newest series one for each release that
# takes something else than the next. `dsconfig/_schema/` of the wheel has those of the newest release
# alone.

BASE = "https://www.schemastore.org/"
"""Where the schemas are published; the catalogue points there."""
COMMENT = "Generated from dsconfig/model by `make generate`; do not edit."
FIRST_SERIES = (0, 9)
_CATALOGUE = "catalog.json"


def folder() -> Path:
    """The folder of the schemas: in the wheel, or in the repository."""
    package = Path(__file__).resolve().parents[1]
    shipped = package / "_schema"
    return shipped if shipped.is_dir() else package.parent / "schema"


def file_of(target: Target) -> Path | None:
    """The file that holds for the newest release of a target; None where none is kept."""
    release = target.releases[-1]
    for name, kept in releases().items():
        if kept == release or (_series(kept) == _series(LATEST) and _alike(kept) == _alike(release)):
            path = folder() / name
            return path if path.exists() else None
    return None


def texts() -> dict[str, Callable[[], str]]:
    """Every file by its name, with what makes its text."""
    wrapped: dict[str, Callable[[], Schema]] = {
        "accelerate.json": launch_schema,
        "deepspeed-in-yaml.json": yaml_schema,
        "dsconfig.json": settings_schema,
    }
    return {
        **{name: partial(_text, name, release) for name, release in releases().items()},
        **{name: partial(_wrapped, name, make) for name, make in wrapped.items()},
        _CATALOGUE: _catalogue,
    }


@cache
def releases() -> dict[str, str]:
    """The files that stand for one release each: `deepspeed.json` for the newest, then oldest first."""
    found = {"deepspeed.json": LATEST}
    for series in dict.fromkeys(map(_series, RELEASES)):
        if series >= FIRST_SERIES:
            last = _members(series)[-1]
            found[f"deepspeed-{series[0]}.{series[1]}.json"] = last
    found |= {f"deepspeed-{release}.json": release for release in _different(_series(LATEST))}
    return found


def _series(release: str) -> tuple[int, int]:
    major, minor, _ = release.split(".")
    return int(major), int(minor)


def _members(series: tuple[int, int]) -> list[str]:
    return [release for release in RELEASES if _series(release) == series]


def _different(series: tuple[int, int]) -> Iterator[str]:
    """The releases of a series after which something changes; its last one has a file already."""
    members = _members(series)
    for release, following in pairwise(members):
        if _alike(release) != _alike(following):
            yield release


@cache
def _alike(release: str) -> tuple[object, ...]:
    """Equal for releases that read every section alike."""
    number = NUMBERS[release]
    types = tuple(
        first <= number <= last for entries in TYPES.values() for _, _, first, last, *_ in entries.values()
    )
    return (*(view(section, number).releases for section in SECTIONS), types)


def _catalogue() -> str:
    """What SchemaStore's catalogue needs to know, in its own form."""
    versions = {
        name.removeprefix("deepspeed-").removesuffix(".json"): f"{BASE}{name}"
        for name in releases()
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
            "name": "Hugging Face Accelerate",
            "description": "Configuration of accelerate launch, with DeepSpeed",
            "fileMatch": list(LAUNCH_FILES),
            "url": f"{BASE}accelerate.json",
        },
    ]
    return pretty_file({"$comment": COMMENT, "schemas": entries})


@cache
def _wrapped(name: str, make: Callable[[], Schema]) -> str:
    return published(name, make())


@cache
def _text(name: str, release: str) -> str:
    return published(name, json_schema(release))


def published(name: str, schema: Schema) -> str:
    """The text of a schema that is kept as a file."""
    draft = schema.pop("$schema")
    return pretty_file({"$comment": COMMENT, "$schema": draft, "$id": f"{BASE}{name}", **schema})


# The schema of YAML that holds a config.


def yaml_schema(release: str = LATEST) -> Schema:
    """YAML that holds or names a config under `deepspeed`: training arguments, Axolotl, LLaMA-Factory.

    Source: transformers 5.23 training_args.py, TrainingArguments.deepspeed.
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
                "description": "A DeepSpeed config, or the path of one.",
            }
        },
        "definitions": {
            "ConfigOrPath": {**config, "type": ["object", "string", "null"]},
            **definitions,
        },
    }


# The schema of dsconfig's own settings.

_READERS: list[Schema] = [{"enum": list(CONSUMERS)}, {"type": "string", "pattern": VERSIONED}]
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}


def settings_schema() -> Schema:
    """`[tool.dsconfig]` of pyproject.toml, and dsconfig.toml."""
    own = {key: {"description": told, **value} for key, (told, value) in _properties().items()}
    files: Schema = {"description": "Patterns of the files that this is for.", **_TEXTS}
    override: Schema = {
        "type": "object",
        "properties": {"files": files, **own},
        "required": ["files"],
        "additionalProperties": False,
    }
    told = "Settings for some files only; the last that names a file has the last word."
    overrides: Schema = {"description": told, "type": "array", "items": override}
    return {
        "$schema": DRAFT,
        "title": "dsconfig settings",
        "type": "object",
        "properties": {**own, OVERRIDES: overrides},
        "additionalProperties": False,
    }


def _properties() -> dict[str, tuple[str, Schema]]:
    """Each setting in words, and what it takes."""
    rule: Schema = {"anyOf": [{"enum": sorted(RULES)}, {"type": "string"}]}
    rules: Schema = {"type": "array", "items": rule}
    return {
        "target": (
            "DeepSpeed release, or range of releases, to check against; `installed` works too.",
            {"type": "string", "examples": [LATEST, f">=0.14,<{LATEST}", "installed"]},
        ),
        "world-size": ("Number of processes.", {"type": "integer", "minimum": 1}),
        "consumer": (
            "Who reads the configs; found out by default.",
            {"anyOf": _READERS},
        ),
        "model": (
            "Model that is trained: path of its config.json or of its folder, or a name such as llama-3-8b.",
            {"type": "string", "minLength": 1},
        ),
        "host-memory": ("Memory of a host, such as 512GiB.", {"type": "string", "examples": ["512GiB"]}),
        "gpus-per-node": ("Ranks that share a host; 8 by default.", {"type": "integer", "minimum": 1}),
        "select": ("Rules that are switched on: codes, starts of codes, or names, or `ALL`.", rules),
        "ignore": ("Rules that are switched off.", rules),
        "extend-select": ("Rules that are switched on besides.", rules),
        "fixable": ("Rules whose findings are fixed; all by default.", rules),
        "unfixable": ("Rules whose findings are not fixed.", rules),
        "fail-on": (
            "Least severity that ends in exit code 1.",
            {"enum": list(FAIL_ON), "default": "warning"},
        ),
        "min-severity": ("Least severity that is shown; less is not.", {"enum": list(MIN_SEVERITY)}),
        "exclude": ("Patterns of files and folders to pass over.", _TEXTS),
        "extend-exclude": ("More of them, where `exclude` is given elsewhere.", _TEXTS),
        "per-file-ignores": (
            "Rules that are switched off in the files of a pattern.",
            {"type": "object", "additionalProperties": rules},
        ),
    }
