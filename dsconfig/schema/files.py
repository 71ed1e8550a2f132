"""The schemas that are kept as files, in `schema/` of the repository.

There is one for the last release of each minor series, and in the newest series one for each release that
takes something else than the next. `dsconfig/_schema/` of the wheel has those of the newest release alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from dsconfig.core.releases import LATEST, NUMBERS, RELEASES, Target
from dsconfig.document.file_names import CONFIGS, LAUNCH_FILES
from dsconfig.document.json_format import pretty_file
from dsconfig.model._table import SECTIONS, TYPES
from dsconfig.model.release_view import view
from dsconfig.schema import json_schema
from dsconfig.schema.accelerate import launch_schema
from dsconfig.schema.keywords import Schema
from dsconfig.schema.settings import settings_schema
from dsconfig.schema.yaml_host import yaml_schema

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
