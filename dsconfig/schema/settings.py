"""The schema of dsconfig's own settings."""

from __future__ import annotations

from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.versions import VERSIONED
from dsconfig.releases import LATEST
from dsconfig.rules import RULES
from dsconfig.schema.keywords import DRAFT, Schema
from dsconfig.settings import FAIL_ON, MIN_SEVERITY, OVERRIDES

_READERS: list[Schema] = [{"enum": list(CONSUMERS)}, {"type": "string", "pattern": VERSIONED}]


def settings_schema() -> Schema:
    """`[tool.dsconfig]` of pyproject.toml, and dsconfig.toml."""
    texts: Schema = {"type": "array", "items": {"type": "string"}}
    rule: Schema = {"anyOf": [{"enum": sorted(RULES)}, {"type": "string"}]}
    rules: Schema = {"type": "array", "items": rule}
    properties: dict[str, tuple[str, Schema]] = {
        "target": (
            "DeepSpeed release, or range of releases, to check against; `installed` works too.",
            {"type": "string", "examples": [LATEST, f">=0.14,<{LATEST}", "installed"]},
        ),
        "world-size": ("Number of processes.", {"type": "integer", "minimum": 1}),
        "consumer": (
            "Who reads the configs; found out by default.",
            {"anyOf": _READERS},
        ),
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
        "exclude": ("Patterns of files and folders to pass over.", texts),
        "extend-exclude": ("More of them, where `exclude` is given elsewhere.", texts),
        "per-file-ignores": (
            "Rules that are switched off in the files of a pattern.",
            {"type": "object", "additionalProperties": rules},
        ),
    }
    own = {key: {"description": told, **value} for key, (told, value) in properties.items()}
    files: Schema = {"description": "Patterns of the files that this is for.", **texts}
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
