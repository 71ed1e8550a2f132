"""What the verbs share that resolve a config: values to write first, and why it cannot be resolved."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from dsconfig.render.text import printable

if TYPE_CHECKING:
    from typing import TextIO

    from dsconfig.json_types import Json
    from dsconfig.resolving.errors import ResolveError


def assignment(text: str) -> tuple[str, Json]:
    """A dotted key and its value: JSON, or else the text itself."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got `{text}`")
    try:
        return key.strip(), json.loads(value)
    except ValueError:
        return key.strip(), value


def explain(error: ResolveError, stream: TextIO) -> None:
    """Say why a config cannot be resolved, and what to change."""
    from dsconfig.render.style import style_of

    style = style_of(stream)
    stream.write(f"{style.paint('error', 'error')}: {style.paint(printable(error.reason), 'bold')}\n")
    stream.writelines(f"  {style.paint('=', 'place')} {printable(hint)}\n" for hint in error.hints)
