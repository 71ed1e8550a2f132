"""Recognize dicts in a Python program that look like a DeepSpeed config, by their keys, values and variables."""

from __future__ import annotations

import ast
import re

from dsconfig.document.python_source import is_dict_expression, literal_keys_of_dict, value_of_literal_key

CONFIG_NAME = re.compile(
    r"(?i)(?:\w*_)?(?:ds|deepspeed|deep_speed|zero\d?)_?(?:\w*_)?(?:config|cfg|conf|params|dict)\w*"
)
ROOT_KEYS = frozenset(
    {
        "activation_checkpointing",
        "bf16",
        "fp16",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "optimizer",
        "scheduler",
        "steps_per_print",
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "wall_clock_breakdown",
        "zero_allow_untested_optimizer",
        "zero_optimization",
    }
)
_SECTIONS = ("zero_optimization", "fp16", "bf16", "optimizer", "scheduler", "activation_checkpointing")
BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
UNIQUE_KEYS = frozenset({"train_micro_batch_size_per_gpu", "zero_optimization"})
"""Top-level keys that are found only in a DeepSpeed config."""
_SCHEMA_WORDS = frozenset(
    ("properties", "description", "anyOf", "oneOf", "$ref", "items", "help", "doc", "choices")
)
"""Keys of a JSON Schema, or of a table that documents settings."""
_TYPES = frozenset(("int", "float", "bool", "str", "dict", "list", "object", "Any", "Optional", "Union"))


def has_config_values(value: ast.expr) -> bool:
    """Return whether the values of a dict look like those of a config, rather than of a JSON Schema or a help table."""
    items = [value_of_literal_key(value, key) for key in literal_keys_of_dict(value)]
    constants = [item.value for item in items if isinstance(item, ast.Constant)]
    strings = [each for each in constants if isinstance(each, str)]
    if len(items) == len(strings) > 1 and "auto" not in strings:
        return False
    for key in literal_keys_of_dict(value):
        item = value_of_literal_key(value, key)
        if isinstance(item, ast.Name) and item.id in _TYPES:
            return False
        if key in _SECTIONS and isinstance(item, ast.JoinedStr | ast.List | ast.Tuple):
            return False
        if key in (*_SECTIONS, *BATCH_KEYS) and isinstance(item, ast.Constant) and _is_prose(item.value):
            return False
        if item is not None and is_dict_expression(item):
            inner = [value_of_literal_key(item, each) for each in literal_keys_of_dict(item)]
            texts = [each.value for each in inner if isinstance(each, ast.Constant)]
            if not _SCHEMA_WORDS.isdisjoint(literal_keys_of_dict(item)) or (
                texts and all(map(_is_prose, texts))
            ):
                return False
    return True


def _is_prose(value: object) -> bool:
    """Return whether a value is a string of several words, such as a description."""
    return isinstance(value, str) and " " in value.strip() and not value.strip().startswith(("$", "{", "<"))
