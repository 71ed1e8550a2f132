"""The text of a config whose path its job hands over: parsed as the job does, whatever the file is called.

DeepSpeed opens a path as Hjson (runtime/config.py, `DeepSpeedConfig.__init__`); Accelerate, and with it the
Trainer, with `json.load` (accelerate utils/deepspeed.py, `HfDeepSpeedConfig.__init__`), as Lightning does
(strategies/deepspeed.py, `_load_config`). Nobody reads YAML there; a program may, which passes on a dict.
"""

from __future__ import annotations

import re

from dsconfig.consumers import ELASTIC
from dsconfig.consumers.accelerate_launch_file import is_launch_file
from dsconfig.core.file_bytes import contents
from dsconfig.document import Document, read_bytes
from dsconfig.launch.config_references import passed_to, program_texts
from dsconfig.launch.format_table import format_of

_SECTIONS = ("zero_optimization", "fp16", "bf16", "optimizer", "scheduler")
"""Sections that every release opens: it raises where Hjson makes a string of the lines below such a key."""
_LOADS_YAML = re.compile(rb"\b(?:(?:import|from) yaml|[Oo]mega[Cc]onf|ruamel|hydra|(?:load|read)_yaml)\b")


def read_config(path: str) -> Document:
    """The config at a path; where the repository says that a job passes that path, as the job reads it.

    Raises:
        OSError: it cannot be read.
    """
    data = contents(path)
    document = read_bytes(data, path, "yaml" if _is_yaml(path) else "json")
    if not _is_yaml(path) or _is_launch(document):
        return document
    reader = passed_to(path, surely=not _is_json(data))
    return document if reader is None else read_passed(data, path, reader)


def read_passed(data: bytes, path: str, reader: str, *, surely: bool = False) -> Document:
    """The text of a file whose path is passed to this reader.

    `surely`: no program stands between, which may load the file itself.
    """
    document = read_bytes(data, path, "json")
    if not _is_yaml(path) or _is_json(data):
        return document
    yaml = read_bytes(data, path, "yaml")
    if _is_launch(yaml) or reader == ELASTIC:
        return yaml
    value = document.value()
    strings = isinstance(value, dict) and any(isinstance(value.get(key), str) for key in _SECTIONS)
    if document.readable("hjson" if reader == "deepspeed" else "json") and not strings:
        return document
    if not isinstance(yaml.value(), dict):
        return yaml
    # A program that loads YAML itself passes on a dict, of which nothing is wrong.
    own = not surely and any(map(_LOADS_YAML.search, program_texts(path)))
    return yaml if own else yaml.passed_as_json()


def _is_launch(document: Document) -> bool:
    value = document.value()
    return is_launch_file(value) or format_of(value) is not None


def _is_json(data: bytes) -> bool:
    return data.lstrip().startswith(b"{")


def _is_yaml(path: str) -> bool:
    return path.lower().endswith((".yaml", ".yml"))
