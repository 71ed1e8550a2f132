"""Entries of keys on pages, and the rules about each key, derived from the cases in `tests/cases`."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dsconfig.model.key_table import KeyInfo, iter_keys
from dsconfig.rules import RULES
from tests.cases import files, read

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject

SHOWCASES = Path(__file__).resolve().parents[1] / "showcases.json"
TOP_LEVEL = "top-level"
GENERAL = ("document", "keys", "types")
"""Domains of rules that apply to all keys."""


@cache
def entries() -> dict[str, list[KeyInfo]]:
    """Every key by its dotted path, parents first; several infos if the key depends on the type of its section."""
    infos: dict[str, list[KeyInfo]] = {}
    for path, info in iter_keys():
        infos.setdefault(".".join(path), []).append(info)
    return infos


@cache
def is_section(path: str) -> bool:
    """Whether the key contains other keys."""
    return any(other.startswith(f"{path}.") for other in entries())


def page_name(path: str) -> str:
    """The name of the page with the entry of the key."""
    first = path.partition(".")[0]
    return first if "." in path or is_section(first) else TOP_LEVEL


def link(path: str, folder: str = "../keys/", text: str = "") -> str:
    """A link to the entry of a key, with another text than its path if there is one."""
    return f"[`{text or path}`]({folder}{page_name(path)}.md#{path})"


@cache
def key_of_path(path: str) -> str | None:
    """The key to which the path of a diagnostic belongs, with `*` for free names and list indices, if any."""
    words = re.sub(r"\[\d+\]", ".*", path).split(".")
    while words:
        for key in entries():
            parts = key.split(".")
            if len(parts) == len(words) and all(a in ("*", b) for a, b in zip(parts, words, strict=True)):
                return key
        words.pop()
    return None


@cache
def _pairs() -> frozenset[tuple[str, str]]:
    """Pairs of a rule and a key to which it applies."""
    pairs = set()
    for file in files():
        code = file.name.partition("-")[0]
        if code in RULES and file.parent.name not in GENERAL:
            paths = [each["path"] for case in read(file)["cases"] for each in case["finds"]]
            paths += re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)*)`", RULES[code].doc)
            pairs |= {(code, path) for each in paths if (path := _specific_key(each))}
    return frozenset(pairs)


def _specific_key(path: str) -> str | None:
    """The key of a path; None for the parent section of an unknown key."""
    key = key_of_path(path) if path else None
    return key if key and (key == path or not is_section(key)) else None


def keys_of_rule(code: str) -> list[str]:
    """The keys to which a rule applies, in the order of the model."""
    named = {path for other, path in _pairs() if other == code}
    return [path for path in entries() if path in named]


def rules_of_key(path: str) -> list[str]:
    """The codes of the rules that apply to a key."""
    return sorted(code for code, other in _pairs() if other == path)


@cache
def clean_configs() -> list[tuple[str, str]]:
    """Configs of the cases without diagnostics, shortest first: release and text."""
    configs = {
        (str(case["target"]), json.dumps(case["config"]))
        for file in files()
        for case in read(file)["cases"]
        if not case["finds"] and isinstance(case.get("config"), dict) and "consumer" not in case
    }
    return sorted(configs, key=lambda each: (len(each[1]), each))


@cache
def showcases() -> list[tuple[str, JsonObject]]:
    """Releases and configs for keys that require many others."""
    entries_of_file = json.loads(SHOWCASES.read_text("utf-8"))["showcases"]
    return [(entry["release"], entry["config"]) for entry in entries_of_file]
