"""JSON text that people read: small, and yet a line for each key, so that differences can be seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject


_WIDTH = 118
_DEEPEST = 6
"""Values nested deeper than this stay on one line, however long it gets."""


def pretty_file(value: JsonObject) -> str:
    """The text of a file that is generated: a schema, a file of cases.

    The first key shares the line of the opening brace, so that the first line tells what the file is.
    """
    return "".join(_opened(value, 0)).replace("{\n  ", "{ ", 1) + "\n"


def pretty_config(config: JsonObject) -> str:
    """A config as text that people go on to edit: what fits on a line stands on one."""
    return "".join(_opened(config, 0, 80)) + "\n"


def in_yaml(config: JsonObject) -> str:
    """A config as YAML, its keys in their order."""
    import yaml

    # PyYAML 6.0 writes these line ends as they are and reads each as a space (`Emitter.write_single_quoted`,
    # `Scanner.scan_flow_scalar_breaks`); without `allow_unicode` they are escaped, as all that is not ASCII.
    breaks = any(char in json.dumps(config, ensure_ascii=False) for char in "\x85\u2028\u2029")
    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=not breaks)
    return text


def pretty_for(name: str, config: JsonObject, *, comments: bool = True) -> str:
    """The same in the format that a file's name says; keys that begin with `//` become comments there.

    `comments`: whether its readers take them in Hjson.
    """
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("yaml", "yml"):
        return "".join(_yaml(config))
    if suffix not in ("hjson", "jsonc") or not comments:
        return pretty_config(config)
    mark = "#" if suffix == "hjson" else "//"
    entries = {key: value for key, value in config.items() if not key.startswith("//")}
    lines = ["{\n"]
    for key, value in config.items():
        if key in entries:
            comma = "," if key != [*entries][-1] else ""
            lines += ["".join(_opened({key: value}, 0, 80))[2:-2].rstrip("\n"), f"{comma}\n"]
        else:
            lines.append(f"  {mark} {value}\n" + "\n" * (key == "//"))
    return "".join([*lines, "}\n"])


def _yaml(config: JsonObject) -> Iterator[str]:
    for key, value in config.items():
        if key.startswith("//"):
            yield f"# {value}\n" + "\n" * (key == "//")
        else:
            yield in_yaml({key: value})


def _opened(value: JsonObject | list[Json], depth: int, width: int = _WIDTH) -> Iterator[str]:
    indent = "  " * (depth + 1)
    entries: list[tuple[str, Json]]
    if isinstance(value, dict):
        entries = [(f"{_plain(key)}: ", item) for key, item in value.items()]
        first, last = "{}"
    else:
        entries = [("", item) for item in value]
        first, last = "[]"
    yield f"{first}\n"
    for number, (key, item) in enumerate(entries, 1):
        comma = "," if number < len(entries) else ""
        line = f"{indent}{key}{_plain(item)}{comma}"
        if isinstance(item, dict | list) and item and len(line) > width and depth < _DEEPEST:
            yield f"{indent}{key}"
            yield from _opened(item, depth + 1, width)
            yield f"{comma}\n"
        else:
            yield f"{line}\n"
    yield f"{'  ' * depth}{last}"


def _plain(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
