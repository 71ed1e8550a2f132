"""Documents that the server checks, with the detection of new configs that are barely started."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.check.build_job import why_not_config
from dsconfig.check.discover import reads_as_config
from dsconfig.consumers.accelerate_launch_file import ROOT_KEYS, is_launch_file
from dsconfig.document.file_names import SUFFIXES
from dsconfig.job.run_facts import DSCONFIG_KEY
from dsconfig.launch.config_references import launchers_of
from dsconfig.launch.detect_config import is_mostly_unknown, mentions_config_key, without_comments
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.model.keyinfo import ROOT, child_section, section_keys

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.lsp.open_documents import OpenText


# Which texts are any business of this server: an editor may hand over every JSON and YAML file there is.

LANGUAGES = "deepspeed"
"""How an editor's names of our languages begin: who chooses one means it."""
_MEANT = re.compile(rf"""["']{re.escape(DSCONFIG_KEY)}["']|dsconfig:""".encode())
"""What a text says of itself: our block, or a comment for us."""
_SCHEMA = re.compile(rb"\$schema\b.{0,3}[:=]")
_NAME = re.compile(rb"[\w.-]+")
_SCHEMAS = re.compile(rb"\b(?:deepspeed|accelerate)")
"""How the names of our schemas begin, wherever those are kept."""


def is_ours(text: OpenText) -> bool:
    """Whether a text is a config, or a launch file that leads to one, or is about to become one."""
    if text.language.startswith(LANGUAGES):
        return True
    data = text.text.encode("utf-8", "surrogatepass")
    if text.name.endswith(SCRIPTS):
        return b"deepspeed" in data and not why_not_config(text.document)
    if (
        _MEANT.search(data)
        or _has_schema(data)
        or reads_as_config(text.name, data, yaml=text.yaml)
        or holds_config(text)
    ):
        return True
    named = mentions_config_key(data) and not text.name.startswith("<")
    return named and bool(launchers_of(text.name)) and not why_not_config(text.document)


def _has_schema(data: bytes) -> bool:
    """Whether a text says that one of our schemas is its own."""
    for line in data.split(b"\n") if b"$schema" in data else ():
        if key := _SCHEMA.search(line):
            for name in _NAME.finditer(line, key.end()):
                begin = _SCHEMAS.search(name[0])
                if begin and b".json" in name[0][begin.end() :]:
                    return True
    return False


# Texts that have hardly begun: by its name, and by its first keys, one is about to become a config.
#
# A folder's files need more than that (`dsconfig.launch.detect_config`): nobody looks at them. Here
# somebody types, and is to be helped from the first key on.

CONFIG = r"deepspeed|(?<![a-z])(ds\d*|zero[-_.]?\d?|z\d|stage[-_.]?\d)(?![a-z])"
"""What the name of a config has in it: `zero3.json`, `ds_z3_offload.yaml`, `stage2.hjson`."""
LAUNCH = "accelerate"
"""What the name of a launch file of Accelerate has in it."""
_NUMBERS = frozenset((
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "prescale_gradients",
    "steps_per_print",
    "communication_data_type",
))  # fmt: skip
"""Keys with plain values that together mean DeepSpeed."""
_ANYBODYS = frozenset(("optimizer", "scheduler"))
"""Sections that other programs have, too, of the same form."""
_TOLD = 2
_LARGEST = 1 << 14
"""Bytes of a text that has hardly begun."""


def holds_config(text: OpenText) -> bool:
    """Whether what stands in a text so far is DeepSpeed's, though it may be a single key."""
    data = text.text.encode("utf-8", "surrogatepass")
    if len(data) > _LARGEST or not (mentions_config_key(data) or b"DEEPSPEED" in data):
        return False
    root = _root(text)
    if is_launch_file(root):
        return True
    if is_named(text.name) and not _known().isdisjoint(root):
        return not is_mostly_unknown(root.keys())
    return _known() >= root.keys() and sum(_weight(key, value) for key, value in root.items()) >= _TOLD


def is_empty(text: OpenText) -> bool:
    """Whether a text that is named like a config, or a launch file, has no more than the start of a key."""
    root = _root(text)
    return (len(without_comments(root)) <= 1 and is_named(text.name)) or begins_launch(text.name, root)


def is_named(name: str) -> bool:
    """Whether a file may be a config by its name."""
    return _has(name, CONFIG)


def begins_launch(name: str, root: Json) -> bool:
    """Whether a file is a launch file of Accelerate by its name, and by what stands in it so far."""
    return _has(name, LAUNCH) and (not isinstance(root, dict) or len(root.keys() - ROOT_KEYS) <= 1)


def _has(name: str, pattern: str) -> bool:
    return name.lower().endswith(SUFFIXES) and re.search(pattern, os.path.basename(name).lower()) is not None


def _root(text: OpenText) -> JsonObject:
    value = text.document.value()
    return value if isinstance(value, dict) else {}


def _weight(key: str, value: Json) -> int:
    """What a key and its value tell: a section with keys of its own tells as much as two numbers."""
    section = child_section(section_keys(ROOT)[key].type)
    if section is None:
        return key in _NUMBERS and not isinstance(value, dict | list)
    inside = {} if value is None else value
    if not isinstance(inside, dict) or not section_keys(section).keys() >= inside.keys():
        return 0
    return int(bool(inside)) if key in _ANYBODYS else 1 + bool(inside)


@cache
def _known() -> frozenset[str]:
    return frozenset(section_keys(ROOT))
