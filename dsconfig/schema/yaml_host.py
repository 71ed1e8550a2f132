"""The schema of YAML that holds a config."""

from __future__ import annotations

from dsconfig.core.releases import LATEST
from dsconfig.schema import json_schema
from dsconfig.schema.keywords import DRAFT, Schema


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
