"""What DeepSpeed prints where a rule holds: `tests.parity.errors` and `crashes` asked real releases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dsconfig.rules import Rule
from tests.cases import files, read

FILE = Path(__file__).resolve().parents[1] / "errors.json"


@cache
def _refused() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = json.loads(FILE.read_text("utf-8"))["rules"]
    return found


def of(rule: Rule) -> list[tuple[str, str]]:
    """Releases and their words: errors of loading, then those of engines."""
    refused = [
        (each["release"], f"{each['error']}: {each['message']}") for each in _refused().get(rule.code, [])
    ]
    return [*refused, *dict.fromkeys(_crashed(rule.code))]


def _crashed(code: str) -> Iterator[tuple[str, str]]:
    """Of an engine's words only the part is known that tells the error."""
    for file in files(code):
        for entry in read(file).get("crashes", []):
            yield str(entry.get("release", "0.19.8")), f"… {entry['raises']} …"
