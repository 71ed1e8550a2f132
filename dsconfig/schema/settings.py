"""The schema of dsconfig's own settings."""

from __future__ import annotations

from dsconfig.consumers import CONSUMERS
from dsconfig.consumers.consumer_versions import VERSIONED
from dsconfig.core.releases import LATEST
from dsconfig.job.settings_file import FAIL_ON, MIN_SEVERITY, OVERRIDES
from dsconfig.rules import RULES
from dsconfig.schema.keywords import DRAFT, Schema

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
