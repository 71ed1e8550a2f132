"""Helpers for commands that resolve a config: overrides, errors, and values that JSON cannot represent."""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
from collections.abc import Iterable

from dsconfig.cli.errors import fail_with_usage_error
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn, TextIO

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.render.terminal_style import TerminalStyle
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError


# Overrides, and errors of resolving.

WORLD_SIZE = "WORLD_SIZE"


def parse_assignment(text: str) -> tuple[str, Json]:
    """Parse KEY=VALUE into a dotted key and a value, which is JSON or plain text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got `{text}`")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


def print_wrapped_lines(lines: Iterable[str], style: TerminalStyle, stream: TextIO) -> None:
    """Print lines wrapped to the width of the terminal."""
    from dsconfig.render.terminal_style import wrap_lines

    stream.writelines(wrap_lines(line, style) for line in lines)


def fail_without_world_size(error: UnknownWorldSizeError, options: str = "--world-size") -> NoReturn:
    """End the run with an error because the world size is unknown; `options` are the options that set it."""
    advice = f"pass {options}, or set {WORLD_SIZE} in the environment"
    formula = [error.formula] if error.formula else []
    parts = [error.source, *formula, advice] if error.source else [advice, *formula]
    fail_with_usage_error(escape_unprintable(f"no world size: {'; '.join((*parts, *error.advice))}"))


_FLAGS = {
    "`training_args`": "`--training-args FILE`",
    "`world_size`": "`--world-size N`",
    "`model`": "`--model`",
    "`micro_batch`": "`--micro-batch 1`",
    **{f"`{name}`": f"`--{name}`" for name in ("tp", "pp", "sp", "ep")},
}
"""Command-line options for the parameters that errors of the Python functions name."""


def use_option_names(text: str) -> str:
    """Replace Python parameter names in an error message with command-line options."""
    for parameter, flag in _FLAGS.items():
        text = text.replace(parameter, flag)
    return re.sub(r"`set=\{([^}]*)\}`", lambda match: f"`{_entries_as_set_options(match[1])}`", text)


def _entries_as_set_options(entries: str) -> str:
    """Convert the entries of a `set` dict to options: `"bf16.enabled": True` to `--set bf16.enabled=true`."""
    pairs = re.findall(r'"([^"]+)": (\w+)', entries)
    return " ".join(
        f"--set {key}={value.lower() if value in ('True', 'False') else value}" for key, value in pairs
    )


def print_resolve_error(error: ResolveError, stream: TextIO, advice: tuple[str, ...] = ()) -> None:
    """Print why a config cannot be resolved, followed by hints, including the command's own in `advice`."""
    from dsconfig.render.terminal_style import style_of, wrap_lines

    style = style_of(stream)
    lines = [
        f"{style.paint('error', 'error')}: {style.paint(escape_unprintable(use_option_names(error.reason)), 'bold')}\n"
    ]
    lines += [
        f"  {style.paint('=', 'place')} {escape_unprintable(hint)}\n"
        for hint in (*map(use_option_names, error.hints), *advice)
    ]
    stream.write(wrap_lines("".join(lines), style))


# YAML values that JSON cannot represent: dates, sets, bytes, NaN, infinity.


def to_json_value(value: Json) -> Json:
    """Convert a value to JSON: dates, NaN and bytes (base64) to text, sets to lists."""
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_json_value(item) for item in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def non_json_values(value: Json, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path and description of each value that JSON cannot represent."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from non_json_values(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from non_json_values(item, (*path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "NaN" if math.isnan(value) else "infinity"
    elif value is not None and not isinstance(value, bool | int | float | str):
        yield path, _KINDS.get(type(value).__name__, "of a YAML type")


_KINDS = {"date": "a date", "datetime": "a date and time", "set": "a set", "bytes": "binary data"}
