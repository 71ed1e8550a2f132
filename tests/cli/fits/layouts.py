"""The same config as people write it: JSON, with comments, Hjson, YAML; minimal, and each value on a line."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

LAYOUTS = {
    "minimal": ".json",
    "one line": ".json",
    "json": ".json",
    "tabs": ".json",
    "crlf": ".json",
    "comments": ".json",
    "hjson": ".json",
    "bare hjson": ".hjson",
    "yaml": ".yaml",
    "flow yaml": ".yml",
    "compact sections": ".json",
}
"""By their names: the end of a file's name."""
FREE = ("comments", "hjson", "bare hjson", "yaml", "flow yaml")
"""Layouts that Transformers and Accelerate do not read."""


def laid_out(config: dict[str, Any], layout: str, rng: random.Random) -> str:
    """The text of a config."""
    end = rng.choice(["\n", "\n", ""])
    match layout:
        case "minimal":
            return json.dumps(config, separators=(",", ":"))
        case "one line":
            return json.dumps(config) + end
        case "json":
            return json.dumps(config, indent=rng.choice([2, 4])) + end
        case "tabs":
            return json.dumps(config, indent="\t") + end
        case "crlf":
            return (json.dumps(config, indent=2) + end).replace("\n", "\r\n")
        case "compact sections":
            return (
                "{\n"
                + ",\n".join(f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in config.items())
                + "\n}"
                + end
            )
        case "flow yaml":
            return (
                "".join(
                    f"{_word(key)}: {_flow(each)}  # note {n}.\n"
                    for n, (key, each) in enumerate(config.items())
                )
                or "{}\n"
            )
        case "yaml":
            return "\n".join(_yaml(config, "", count(), rng)) + end if config else "{}"
    return "\n".join(_commented(config, layout, rng)) + end


def _word(key: str) -> str:
    return key if key.isidentifier() else json.dumps(key)


def _flow(value: Any) -> str:
    return json.dumps(value)


def _yaml(section: dict[str, Any], indent: str, notes: Iterator[int], rng: random.Random) -> Iterator[str]:
    for key, value in section.items():
        if rng.random() < 0.3:
            yield f"{indent}# note {next(notes)}."
        note = f"  # note {next(notes)}." if rng.random() < 0.4 else ""
        if isinstance(value, dict) and value:
            yield f"{indent}{_word(key)}:{note}"
            yield from _yaml(value, indent + "  ", notes, rng)
        else:
            yield f"{indent}{_word(key)}: {_scalar(value)}{note}"


def _scalar(value: Any) -> str:
    """As YAML 1.1 reads it back: 1e9 without a dot is a string there."""
    if isinstance(value, float):
        return str(value) if "e" not in str(value) else re.sub(r"^(\d+)e", r"\1.0e", str(value))
    return json.dumps(value)


def _commented(config: dict[str, Any], layout: str, rng: random.Random) -> Iterator[str]:
    """With comments of every kind; Hjson besides without commas and quotes."""
    notes = count()
    if layout == "bare hjson" and config:
        yield from _entries(config, "", notes, rng, layout)
        return
    yield "{"
    yield from _entries(config, "  ", notes, rng, layout)
    yield "}"


def _entries(
    section: dict[str, Any], indent: str, notes: Iterator[int], rng: random.Random, layout: str
) -> Iterator[str]:
    free = layout != "comments"
    for number, (key, value) in enumerate(section.items(), 1):
        if rng.random() < 0.3:
            mark = rng.choice(["// {}", "# {}", "/* {} */"])
            yield indent + mark.format(f"note {next(notes)}.")
        comma = "," if number < len(section) and not (free and rng.random() < 0.5) else ""
        note = rng.choice(["", "", f" // note {next(notes)}.", f"  # note {next(notes)}."])
        named = _word(key) if free and rng.random() < 0.5 else json.dumps(key)
        if isinstance(value, dict) and value:
            yield f"{indent}{named}: {{{note}"
            yield from _entries(value, indent + "  ", notes, rng, layout)
            yield f"{indent}}}{comma}"
        else:
            yield f"{indent}{named}: {json.dumps(value)}{comma}{note}"
