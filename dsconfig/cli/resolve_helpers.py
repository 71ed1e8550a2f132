"""What the verbs share that resolve a config: values to write first, and why it cannot be resolved."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dsconfig.cli.errors import refuse
from dsconfig.render.printable import printable

WORLD_SIZE = "WORLD_SIZE"

if TYPE_CHECKING:
    from typing import NoReturn, TextIO

    from dsconfig.core.json_types import Json
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError


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
    from dsconfig.render.wrap import flowed

    stream.writelines(flowed(line, style) for line in lines)


def refuse_open(error: UnknownWorldSizeError, how: str = "--world-size") -> NoReturn:
    """Refuse what hangs on the number of ranks where nobody knows that: it is wrong use, as without a file.

    `how`: the options that say it.
    """
    give = f"give {how}, or set {WORLD_SIZE} in the environment"
    formula = [error.formula] if error.formula else []
    told = [error.source, *formula, give] if error.source else [give, *formula]
    refuse(printable(f"no world size: {'; '.join((*told, *error.advice))}"))


def explain(error: ResolveError, stream: TextIO, advice: tuple[str, ...] = ()) -> None:
    """Say why a config cannot be resolved, and what to change; `advice`: what else the verb has to offer."""
    from dsconfig.render.terminal import style_of
    from dsconfig.render.wrap import flowed

    style = style_of(stream)
    lines = [f"{style.paint('error', 'error')}: {style.paint(printable(error.reason), 'bold')}\n"]
    lines += [f"  {style.paint('=', 'place')} {printable(hint)}\n" for hint in (*error.hints, *advice)]
    stream.write(flowed("".join(lines), style))
