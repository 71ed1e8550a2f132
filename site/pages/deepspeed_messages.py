"""Messages of DeepSpeed for the problems that rules report.

`python -m tests.parity.errors` and `crashes` collect them from real releases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dsconfig.rules import Rule
from tests.cases import files, read

FILE = Path(__file__).resolve().parents[1] / "errors.json"


@cache
def _loading_errors() -> dict[str, list[dict[str, str]]]:
    rules: dict[str, list[dict[str, str]]] = json.loads(FILE.read_text("utf-8"))["rules"]
    return rules


def messages(rule: Rule) -> list[tuple[str, str]]:
    """Releases and their messages: errors while the config is loaded, then errors of engines."""
    loading = [
        (each["release"], f"{each['error']}: {each['message']}")
        for each in _loading_errors().get(rule.code, [])
    ]
    return [*loading, *dict.fromkeys(_engine_errors(rule.code))]


def _engine_errors(code: str) -> Iterator[tuple[str, str]]:
    """Errors of engines, of which the cases hold only a characteristic part."""
    for file in files(code):
        for entry in read(file).get("crashes", []):
            yield str(entry.get("release", "0.19.8")), f"… {entry['raises']} …"
