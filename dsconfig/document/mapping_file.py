"""A JSON or YAML file beside the config that holds an object: training arguments, or a model's `config.json`."""

from __future__ import annotations

import os

from dsconfig.core.json_types import JsonObject
from dsconfig.document import Parser, read_file
from dsconfig.document.tree import KINDS


def read_mapping(path: str | os.PathLike[str]) -> JsonObject:
    """A JSON or YAML file that holds an object.

    Raises:
        OSError: the path cannot be read.
        ValueError: it is not a JSON or YAML object.
    """
    document = read_file(path)
    parser: Parser = "yaml" if document.format == "yaml" else "json"
    value = document.value(parser)
    if not document.readable(parser) or not isinstance(value, dict):
        problem = next(iter(document.problems), None)
        detail = f" ({problem.detail})" if problem and problem.detail else ""
        told = f": {KINDS[problem.kind]}{detail}" if problem else ""
        raise ValueError(f"{os.fspath(path)} holds no {parser.upper()} object{told}")
    return value
