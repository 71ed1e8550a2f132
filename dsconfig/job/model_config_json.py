"""Locate and read a model's `config.json`."""

from __future__ import annotations

import json
import os
import re

from dsconfig.core.file_access import is_on_network_share, may_read_file, read_contents
from dsconfig.core.json_types import JsonObject

CONFIG_NAME = "config.json"
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)
_MAX_NAME = 4096
_MAX_FILE = 4 << 20
"""Size limit of a `config.json` in bytes; one with the names of 20,000 classes has 1 MiB."""


def resolve_model_in_folder(name: str, folder: str) -> str:
    """Resolve a model path relative to `folder`; return `name` unchanged if it does not exist."""
    path = os.path.join(folder, name)
    return path if path != name and find_config_json(path) is not None else name


def is_model_outside_repository(name: str, launch: str) -> bool:
    """Return whether a model exists outside the repository of the file that names it."""
    if "\0" in name or len(name) > _MAX_NAME:
        return False
    if may_read_file(name, launch) and may_read_file(os.path.join(name, CONFIG_NAME), launch):
        return False
    return is_on_network_share(name) or os.path.exists(name)


def find_config_json(name: str) -> str | None:
    """Return the path to the `config.json` in a file, directory or Hugging Face cache entry, or None."""
    if "\0" in name or len(name) > _MAX_NAME:
        return None
    if os.path.isfile(name):
        return name
    if os.path.isdir(name):
        return os.path.join(name, CONFIG_NAME)
    return _config_in_hugging_face_cache(name) if _HUB_NAME.fullmatch(name) else None


def _config_in_hugging_face_cache(name: str) -> str | None:
    """Return the path in the Hugging Face cache (huggingface_hub `try_to_load_from_cache`), or None."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(cache, "models--" + name.replace("/", "--"))
    try:
        # `refs/main` contains the commit of the last download from the branch.
        with open(os.path.join(folder, "refs", "main"), encoding="ascii") as file:
            revision = file.read(64).strip()
    except (OSError, ValueError):
        return None
    path = os.path.join(folder, "snapshots", revision, CONFIG_NAME)
    # A revision is a path component; a crafted file must not lead out of the cache.
    return path if revision.isalnum() and os.path.isfile(path) else None


def read_config_json(path: str) -> JsonObject:
    """Read a model's `config.json`.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not contain a JSON object; the message says why.
    """
    data = read_contents(path, _MAX_FILE)
    if len(data) > _MAX_FILE:
        raise ValueError(f"longer than {_MAX_FILE >> 20} MiB, the size limit")
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except ValueError as error:  # invalid JSON, or an integer beyond sys.get_int_max_str_digits
        raise ValueError(f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value
