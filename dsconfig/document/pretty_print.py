"""Format JSON and YAML compactly, but with one key per line, so that diffs are readable."""

from __future__ import annotations

import json
from collections.abc import Iterator

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject


_WIDTH = 118
_DEEPEST = 6
"""Maximum depth at which values are spread over lines; values nested deeper stay on one line."""


def format_generated_file(value: JsonObject) -> str:
    """Format the JSON of a generated file, such as a schema or test cases.

    The first key is on the line of the opening brace, so that the first line identifies the file.
    """
    return "".join(_json_lines(value, 0)).replace("{\n  ", "{ ", 1) + "\n"


def format_config(config: JsonObject) -> str:
    """Format a config as JSON for editing; a value that fits on one line is not split."""
    return "".join(_json_lines(config, 0, 80)) + "\n"


def format_yaml(config: JsonObject) -> str:
    """Format a config as YAML, keeping the order of its keys."""
    import yaml

    # PyYAML 6.0 writes these line ends unescaped and reads each as a space (`Emitter.write_single_quoted`,
    # `Scanner.scan_flow_scalar_breaks`). Without `allow_unicode` they are escaped, like all non-ASCII text.
    breaks = any(char in json.dumps(config, ensure_ascii=False) for char in "\x85\u2028\u2029")
    text: str = yaml.safe_dump(config, sort_keys=False, allow_unicode=not breaks)
    return text


def format_config_for_file(name: str, config: JsonObject, *, comments: bool = True) -> str:
    """Format a config in the format that a file name implies; keys that start with `//` become comments if possible.

    `comments` says whether the consumer accepts comments in Hjson.
    """
    suffix = name.lower().rpartition(".")[2]
    if suffix in ("yaml", "yml"):
        return "".join(_yaml_lines(config))
    if suffix not in ("hjson", "jsonc") or not comments:
        return format_config(config)
    mark = "#" if suffix == "hjson" else "//"
    entries = {key: value for key, value in config.items() if not key.startswith("//")}
    lines = ["{\n"]
    for key, value in config.items():
        if key in entries:
            comma = "," if key != [*entries][-1] else ""
            lines += ["".join(_json_lines({key: value}, 0, 80))[2:-2].rstrip("\n"), f"{comma}\n"]
        else:
            lines.append(f"  {mark} {value}\n" + "\n" * (key == "//"))
    return "".join([*lines, "}\n"])


def _yaml_lines(config: JsonObject) -> Iterator[str]:
    for key, value in config.items():
        if key.startswith("//"):
            yield f"# {value}\n" + "\n" * (key == "//")
        else:
            yield format_yaml({key: value})


def _json_lines(value: JsonObject | list[Json], depth: int, width: int = _WIDTH) -> Iterator[str]:
    indent = "  " * (depth + 1)
    entries: list[tuple[str, Json]]
    if isinstance(value, dict):
        entries = [(f"{_json_on_one_line(key)}: ", item) for key, item in value.items()]
        opening, closing = "{}"
    else:
        entries = [("", item) for item in value]
        opening, closing = "[]"
    yield f"{opening}\n"
    for number, (key, item) in enumerate(entries, 1):
        comma = "," if number < len(entries) else ""
        line = f"{indent}{key}{_json_on_one_line(item)}{comma}"
        if isinstance(item, dict | list) and item and len(line) > width and depth < _DEEPEST:
            yield f"{indent}{key}"
            yield from _json_lines(item, depth + 1, width)
            yield f"{comma}\n"
        else:
            yield f"{line}\n"
    yield f"{'  ' * depth}{closing}"


def _json_on_one_line(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
