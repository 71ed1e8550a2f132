"""Where keys have their entries, and which rules speak of which keys: the findings in `tests/cases` tell."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dsconfig.model.keyinfo import KeyInfo, keys
from dsconfig.rules import RULES
from tests.cases import files, read

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject

SHOWCASES = Path(__file__).resolve().parents[1] / "showcases.json"
TOP = "top-level"
GENERAL = ("document", "keys", "types")
"""Domains of rules that speak of keys of every kind."""


@cache
def entries() -> dict[str, list[KeyInfo]]:
    """Every key by its dotted path, parents first; more than one where the type of a section decides."""
    found: dict[str, list[KeyInfo]] = {}
    for path, info in keys():
        found.setdefault(".".join(path), []).append(info)
    return found


@cache
def is_section(path: str) -> bool:
    """Whether other keys stand in the key."""
    return any(other.startswith(f"{path}.") for other in entries())


def home(path: str) -> str:
    """The name of the page on which the key has its entry."""
    first = path.partition(".")[0]
    return first if "." in path or is_section(first) else TOP


def link(path: str, above: str = "../keys/") -> str:
    """A link to the entry of a key."""
    return f"[`{path}`]({above}{home(path)}.md#{path})"


@cache
def known(path: str) -> str | None:
    """The key that a finding's path means, free names and places in lists as `*`, if any."""
    words = re.sub(r"\[\d+\]", ".*", path).split(".")
    while words:
        for found in entries():
            parts = found.split(".")
            if len(parts) == len(words) and all(a in ("*", b) for a, b in zip(parts, words, strict=True)):
                return found
        words.pop()
    return None


@cache
def _pairs() -> frozenset[tuple[str, str]]:
    """Rule and key, for each rule that is about certain keys."""
    found = set()
    for file in files():
        code = file.name.partition("-")[0]
        if code in RULES and file.parent.name not in GENERAL:
            paths = [each["path"] for case in read(file)["cases"] for each in case["finds"]]
            paths += re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)*)`", RULES[code].doc)
            found |= {(code, path) for each in paths if (path := _meant(each))}
    return frozenset(found)


def _meant(path: str) -> str | None:
    """The key that is meant; sections that hold everything else are not."""
    found = known(path) if path else None
    return found if found and (found == path or not is_section(found)) else None


def of_rule(code: str) -> list[str]:
    """The keys that a rule speaks of, in the order of the model."""
    named = {path for other, path in _pairs() if other == code}
    return [path for path in entries() if path in named]


def of_key(path: str) -> list[str]:
    """The codes of the rules that speak of a key."""
    return sorted(code for code, other in _pairs() if other == path)


@cache
def configs() -> list[tuple[str, str]]:
    """Configs of the cases in which their rules find nothing, shortest first: release and text."""
    found = {
        (str(case["target"]), json.dumps(case["config"]))
        for file in files()
        for case in read(file)["cases"]
        if not case["finds"] and isinstance(case.get("config"), dict) and "consumer" not in case
    }
    return sorted(found, key=lambda each: (len(each[1]), each))


@cache
def showcases() -> list[tuple[str, JsonObject]]:
    """Releases and configs that have the keys which need many others."""
    told = json.loads(SHOWCASES.read_text("utf-8"))["showcases"]
    return [(each["release"], each["config"]) for each in told]
