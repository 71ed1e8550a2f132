"""Decide which open documents the server checks, including new configs with few keys."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.check.build_job import why_not_config
from dsconfig.check.discover import is_config_text
from dsconfig.document.config_file_names import SUFFIXES
from dsconfig.job.consumers.accelerate_launch_file import ROOT_KEYS, is_launch_file
from dsconfig.job.job_facts import DSCONFIG_KEY
from dsconfig.launch.classify_config_file import (
    has_mostly_unknown_keys,
    mentions_config_key,
    without_comment_keys,
)
from dsconfig.launch.config_references import launch_files_naming_config
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.model.key_table import ROOT, child_section, keys_of_section_class

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.lsp.open_documents import OpenDocument


# An editor may open every JSON and YAML file with the server, so most of them are not configs.

LANGUAGE_PREFIX = "deepspeed"
"""Prefix of the editor's language names for configs, which a user selects deliberately."""
_MARKED = re.compile(rf"""["']{re.escape(DSCONFIG_KEY)}["']|dsconfig:""".encode())
"""Pattern of what marks a text as a config: the `"$dsconfig"` block, or a comment for dsconfig."""
_SCHEMA = re.compile(rb"\$schema\b.{0,3}[:=]")
_NAME = re.compile(rb"[\w.-]+")
_SCHEMA_NAME = re.compile(rb"\b(?:deepspeed|accelerate)")
"""Prefix of the names of dsconfig's schemas, wherever they are stored."""


def is_document_relevant(text: OpenDocument) -> bool:
    """Return whether a document is a config, a launch file that uses one, or the start of a config."""
    if text.language.startswith(LANGUAGE_PREFIX):
        return True
    data = text.text.encode("utf-8", "surrogatepass")
    if is_shell_script_name(text.name):
        return b"deepspeed" in data and not why_not_config(text.document)
    if (
        _MARKED.search(data)
        or _names_our_schema(data)
        or is_config_text(text.name, data, yaml=text.yaml)
        or looks_like_config(text)
    ):
        return True
    may_be_launched = mentions_config_key(data) and not text.name.startswith("<")
    return (
        may_be_launched and bool(launch_files_naming_config(text.name)) and not why_not_config(text.document)
    )


def _names_our_schema(data: bytes) -> bool:
    """Return whether a text's `$schema` is one of dsconfig's."""
    for line in data.split(b"\n") if b"$schema" in data else ():
        if key := _SCHEMA.search(line):
            for name in _NAME.finditer(line, key.end()):
                match = _SCHEMA_NAME.search(name[0])
                if match and b".json" in name[0][match.end() :]:
                    return True
    return False


# New documents are recognized by their name and first keys, so that a user gets help from the first key on.
# Files in a directory need more evidence (`dsconfig.launch.classify_config_file`).

CONFIG = r"deepspeed|(?<![a-z])(ds\d*|zero[-_.]?\d?|z\d|stage[-_.]?\d)(?![a-z])"
"""Pattern in the names of configs, such as `zero3.json`, `ds_z3_offload.yaml` and `stage2.hjson`."""
LAUNCH = "accelerate"
"""Pattern in the names of Accelerate's launch files."""
_NUMBERS = frozenset((
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "prescale_gradients",
    "steps_per_print",
    "communication_data_type",
))  # fmt: skip
"""Keys with scalar values, two of which identify a DeepSpeed config."""
_GENERIC = frozenset(("optimizer", "scheduler"))
"""Sections that configs of other programs have in the same form."""
_THRESHOLD = 2
_LARGEST = 1 << 14
"""Maximal size in bytes of a new document."""


def looks_like_config(text: OpenDocument) -> bool:
    """Return whether all keys of a document, even if it is only one, are DeepSpeed's."""
    data = text.text.encode("utf-8", "surrogatepass")
    if len(data) > _LARGEST or not (mentions_config_key(data) or b"DEEPSPEED" in data):
        return False
    root = _root_object(text)
    if is_launch_file(root):
        return True
    if has_config_name(text.name) and not _all_root_keys().isdisjoint(root):
        return not has_mostly_unknown_keys(root.keys())
    return (
        _all_root_keys() >= root.keys()
        and sum(_weight_of_key(key, value) for key, value in root.items()) >= _THRESHOLD
    )


def is_draft_config(text: OpenDocument) -> bool:
    """Return whether a document has the name of a config or launch file, and is empty or has one unfinished key."""
    root = _root_object(text)
    return (len(without_comment_keys(root)) <= 1 and has_config_name(text.name)) or is_draft_launch_file(
        text.name, root
    )


def has_config_name(name: str) -> bool:
    """Return whether a file name looks like that of a config."""
    return _name_matches_pattern(name, CONFIG)


def is_draft_launch_file(name: str, root: Json) -> bool:
    """Return whether a document has the name of an Accelerate launch file, and no keys of other programs."""
    return _name_matches_pattern(name, LAUNCH) and (
        not isinstance(root, dict) or len(root.keys() - ROOT_KEYS) <= 1
    )


def _name_matches_pattern(name: str, pattern: str) -> bool:
    return name.lower().endswith(SUFFIXES) and re.search(pattern, os.path.basename(name).lower()) is not None


def _root_object(text: OpenDocument) -> JsonObject:
    value = text.document.value()
    return value if isinstance(value, dict) else {}


def _weight_of_key(key: str, value: Json) -> int:
    """Return how strongly a key suggests a config; a nonempty section counts as two scalars."""
    section = child_section(keys_of_section_class(ROOT)[key].type)
    if section is None:
        return key in _NUMBERS and not isinstance(value, dict | list)
    inside = {} if value is None else value
    if not isinstance(inside, dict) or not keys_of_section_class(section).keys() >= inside.keys():
        return 0
    return int(bool(inside)) if key in _GENERIC else 1 + bool(inside)


@cache
def _all_root_keys() -> frozenset[str]:
    return frozenset(keys_of_section_class(ROOT))
