"""Read a config whose path a job passes to a consumer, with that consumer's parser, whatever the file's suffix."""

from __future__ import annotations

import re

from dsconfig.core.file_access import MAX_NOTEBOOK_SIZE, read_contents
from dsconfig.document import Document, Format, kept_document, read_bytes
from dsconfig.document.config_file_names import is_notebook_name, is_python_name
from dsconfig.job.consumers import ELASTIC
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.launch.config_references import consumer_given_config_path, deepspeed_program_texts
from dsconfig.launch.launch_file_formats import detect_launch_format

# DeepSpeed parses the file as Hjson (runtime/config.py, `DeepSpeedConfig.__init__`). Accelerate and the
# Trainer use `json.load` (accelerate utils/deepspeed.py, `HfDeepSpeedConfig.__init__`), and so does Lightning
# (strategies/deepspeed.py, `_load_config`). None of them reads YAML, but a program can load YAML itself and
# pass on a dict.

_SECTIONS = ("zero_optimization", "fp16", "bf16", "optimizer", "scheduler")
"""Sections that every release reads; Hjson turns the indented lines below such a YAML key into one string."""
_LOADS_YAML = rb"\b(?:(?:import|from) yaml|[Oo]mega[Cc]onf|ruamel|hydra|(?:load|read)_yaml)\b"


def read_config_at_path(path: str) -> Document:
    """Read the config at a path with the parser of its consumer.

    Raises:
        OSError: the file cannot be read.
    """
    data = read_contents(path, MAX_NOTEBOOK_SIZE) if is_notebook_name(path) else read_contents(path)
    if is_python_name(path):
        from dsconfig.launch.python.config_dicts import config_documents_in_source

        if configs := config_documents_in_source(data, path):
            return configs[0]
    syntax: Format = "yaml" if _has_yaml_suffix(path) else "json"
    document = kept_document(data, path, syntax, is_last=True) or read_bytes(data, path, syntax)
    if not _has_yaml_suffix(path) or _is_launch_document(document):
        return document
    reader = consumer_given_config_path(path, flags_only=not _is_json(data))
    if reader is not None:
        document = parse_passed_config(data, path, reader)
    elif _is_json(data) and not _is_loaded_as_yaml(path):
        # Every consumer opens a path as JSON, in which `2e8` is a number; in YAML 1.1 it is a string.
        json_document = read_bytes(data, path, "json")
        document = json_document if json_document.is_readable("json") else document
    return _resolve_yaml_interpolations(document)


def _resolve_yaml_interpolations(document: Document) -> Document:
    """Resolve the interpolations of a YAML config; JSON that contains `${...}` is a template and stays as it is."""
    if document.format != "yaml" or "${" not in document.text:
        return document
    from dsconfig.launch.omegaconf import resolve_interpolations

    return resolve_interpolations(document)


def parse_passed_config(data: bytes, path: str, reader: str, *, is_direct: bool = False) -> Document:
    """Parse a config file as the consumer `reader` does when it gets the file's path.

    `is_direct`: whether no program in between could load the file itself.
    """
    document = read_bytes(data, path, "json")
    if not _has_yaml_suffix(path) or _is_json(data):
        return document
    yaml = read_bytes(data, path, "yaml")
    if _is_launch_document(yaml) or reader == ELASTIC:
        return yaml
    value = document.value()
    has_strings = isinstance(value, dict) and any(isinstance(value.get(key), str) for key in _SECTIONS)
    if document.is_readable("hjson" if reader == "deepspeed" else "json") and not has_strings:
        return document
    if not isinstance(yaml.value(), dict):
        return yaml
    # A program that loads YAML itself passes on a dict, which every consumer accepts.
    return yaml if not is_direct and _is_loaded_as_yaml(path) else yaml.passed_as_json()


def _is_loaded_as_yaml(path: str) -> bool:
    """Return whether a program in the config's repository loads YAML itself."""
    return any(re.search(_LOADS_YAML, each) for each in deepspeed_program_texts(path))


def _is_launch_document(document: Document) -> bool:
    value = document.value()
    return is_launch_file(value) or detect_launch_format(value) is not None


def _is_json(data: bytes) -> bool:
    return data.lstrip().startswith(b"{")


def _has_yaml_suffix(path: str) -> bool:
    return path.lower().endswith((".yaml", ".yml"))
