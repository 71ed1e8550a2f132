"""Read any config source that `check` accepts: a path, text, bytes, URL-safe base64, a dict or a `Config`.

A config at a path is parsed as the consumer that receives the path parses it, whatever its suffix.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from dsconfig.core.file_access import MAX_NOTEBOOK_SIZE, read_contents
from dsconfig.document import (
    Document,
    Format,
    kept_document,
    read_base64,
    read_bytes,
    read_mapping,
    read_text,
)
from dsconfig.document.config_file_names import is_notebook_name, is_python_name
from dsconfig.job.consumers import ELASTIC
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.launch.config_references import consumer_given_config_path, deepspeed_program_texts
from dsconfig.launch.launch_file_formats import detect_launch_format

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    from dsconfig.core.json_types import Json, JsonObject

    class ConfigObject(Protocol):
        """An object with a `to_dict` method that returns a config, such as `dsconfig.Config`."""

        def to_dict(self) -> JsonObject:
            """Return the keys that were set, as a dict."""


ConfigSource: TypeAlias = "str | bytes | os.PathLike[str] | Mapping[str, Json] | ConfigObject"

_BASE64 = r"[A-Za-z0-9_-]{8,}={0,2}"


def read_config_source(source: ConfigSource) -> Document:
    """Read a config source of any supported kind into a document.

    A string with a bracket, quote, line end or colon that is not an existing path is text. URL-safe base64
    that decodes to an object is a config as launchers encode it. Any other string is a path.

    Raises:
        OSError: the path cannot be read.
        TypeError: the source is of another type.
    """
    if isinstance(source, Mapping):
        return read_mapping(source)
    if isinstance(source, bytes):
        return read_bytes(source, "<bytes>")
    if isinstance(source, str) and is_config_text(source):
        return read_text(source)
    if isinstance(source, str) and _is_base64_config(source):
        return read_base64(source)
    if isinstance(source, str | os.PathLike):
        return read_config_at_path(os.fspath(source))
    if hasattr(source, "to_dict"):
        return read_mapping(source.to_dict(), "<config>")
    raise TypeError(f"expected a path, text, bytes, a dict or a Config, not {type(source).__name__}")


def is_config_text(source: str) -> bool:
    """Return whether a string is the text of a config rather than a path."""
    if not source or "\0" in source:
        return True
    # A file may have a colon or a brace in its name, so an existing path wins.
    looks = any(char in source for char in '{}[]\n\r"') or ": " in source
    return looks and not os.path.exists(source)


def _is_base64_config(source: str) -> bool:
    """Return whether a string is a URL-safe base64 config rather than an existing path.

    DeepSpeed accepts a base64 config wherever a path is expected: runtime/config.py:DeepSpeedConfig.__init__.
    """
    if not re.fullmatch(_BASE64, source) or os.path.exists(source):
        return False
    return "{" in read_base64(source).text


# Configs whose paths a job passes to a consumer.
#
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
    """Resolve the interpolations of a YAML config; JSON with `${...}` is a template and is left unchanged."""
    if document.format != "yaml" or "${" not in document.text:
        return document
    from dsconfig.launch.omegaconf import resolve_interpolations

    return resolve_interpolations(document)


def parse_passed_config(data: bytes, path: str, reader: str, *, is_direct: bool = False) -> Document:
    """Parse a config file as `reader` does when it receives the path to the file.

    If `is_direct`, the consumer receives the path directly, not through a program that could load the file itself.
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
