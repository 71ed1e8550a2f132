"""Helpers of commands that resolve a config: overrides, errors, and values JSON cannot express."""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
from collections.abc import Iterable

from dsconfig.cli.errors import refuse
from dsconfig.render.terminal import printable

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn, TextIO

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError


# What the verbs share that resolve a config: values to write first, and why it cannot be resolved.

WORLD_SIZE = "WORLD_SIZE"


def assignment(text: str) -> tuple[str, Json]:
    """A dotted key and its value: JSON, or else the text itself."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got `{text}`")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


def tell(lines: Iterable[str], style: Style, stream: TextIO) -> None:
    """Show lines, as wide as the terminal is."""
    from dsconfig.render.terminal import flowed

    stream.writelines(flowed(line, style) for line in lines)


def refuse_open(error: UnknownWorldSizeError, how: str = "--world-size") -> NoReturn:
    """Refuse what hangs on the number of ranks where nobody knows that: it is wrong use, as without a file.

    `how`: the options that say it.
    """
    give = f"give {how}, or set {WORLD_SIZE} in the environment"
    formula = [error.formula] if error.formula else []
    told = [error.source, *formula, give] if error.source else [give, *formula]
    refuse(printable(f"no world size: {'; '.join((*told, *error.advice))}"))


_FLAGS = {
    "`training_args`": "`--training-args FILE`",
    "`world_size`": "`--world-size N`",
    "`model`": "`--model`",
    "`micro_batch`": "`--micro-batch 1`",
    **{f"`{name}`": f"`--{name}`" for name in ("tp", "pp", "sp", "ep")},
}
"""What the parameters of functions, which errors name, are called on the command line."""


def in_flags(text: str) -> str:
    """An error's words with the command's options in place of the parameters of a function."""
    for parameter, flag in _FLAGS.items():
        text = text.replace(parameter, flag)
    return re.sub(r"`set=\{([^}]*)\}`", lambda found: f"`{_as_options(found[1])}`", text)


def _as_options(entries: str) -> str:
    """Entries of a dict of values to set as options: `"bf16.enabled": True` as `--set bf16.enabled=true`."""
    pairs = re.findall(r'"([^"]+)": (\w+)', entries)
    return " ".join(
        f"--set {key}={value.lower() if value in ('True', 'False') else value}" for key, value in pairs
    )


def explain(error: ResolveError, stream: TextIO, advice: tuple[str, ...] = ()) -> None:
    """Say why a config cannot be resolved, and what to change; `advice`: what else the verb has to offer."""
    from dsconfig.render.terminal import flowed, style_of

    style = style_of(stream)
    lines = [f"{style.paint('error', 'error')}: {style.paint(printable(in_flags(error.reason)), 'bold')}\n"]
    lines += [
        f"  {style.paint('=', 'place')} {printable(hint)}\n"
        for hint in (*map(in_flags, error.hints), *advice)
    ]
    stream.write(flowed("".join(lines), style))


# Values that YAML and JavaScript have words for, and JSON has none: dates, sets, bytes, NaN, infinity.


def plain(value: Json) -> Json:
    """The value in words of JSON: a date, NaN or bytes (base64) as text, a set as a list."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def unspeakable(value: Json, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every value for which JSON has no word: where it stands, and what it is."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unspeakable(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unspeakable(item, (*path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "NaN" if math.isnan(value) else "infinity"
    elif value is not None and not isinstance(value, bool | int | float | str):
        yield path, _KINDS.get(type(value).__name__, "of a type of its own")


_KINDS = {"date": "a date", "datetime": "a date and time", "set": "a set", "bytes": "binary data"}
