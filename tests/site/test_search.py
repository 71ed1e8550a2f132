"""The site's search, in the theme's own worker: keys, written well or not, and DeepSpeed's errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random

from pages import deepspeed_messages, key_entries

from dsconfig.rules import RULES
from dsconfig.rules.error_messages import known_error_messages
from tests.site.conftest import ROOT

LETTERS = "aeiourst"


def hits(built: Path, asked: list[str]) -> list[list[str]]:
    """The addresses that each text finds, the best first."""
    done = subprocess.run(
        ["node", ROOT / "tests" / "site" / "search.mjs", built],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def pages(found: list[str]) -> list[str]:
    """The pages of hits, without their sections."""
    return list(dict.fromkeys(each.partition("#")[0] for each in found))


def entry(path: str) -> str:
    """Where a key stands on the site: a section of a page, or a page of its own."""
    home = key_entries.page_name(path)
    return f"keys/{home}/" if path == home else f"keys/{home}/#{path}"


def misspelt(path: str, random: Random) -> str:
    """A key with one letter of its last word lost, added, or changed with its neighbour."""
    section, dot, word = path.rpartition(".")
    at = random.randrange(1, len(word) - 1)
    ways = (
        word[:at] + word[at + 1 :],
        word[:at] + random.choice(LETTERS) + word[at:],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    return section + dot + random.choice(ways)


def test_each_key_is_the_first_hit_for_its_own_name(built: Path) -> None:
    keys = list(key_entries.entries())
    found = hits(built, keys)
    other = {key: place[:2] for key, place in zip(keys, found, strict=True) if place[0] != entry(key)}
    assert not other


def test_a_misspelt_key_is_found(built: Path) -> None:
    random = Random(7)
    keys = [key for key in key_entries.entries() if len(key.rpartition(".")[2]) >= 6]
    asked = [misspelt(key, random) for key in keys]
    other = {
        word: place[:3]
        for key, word, place in zip(keys, asked, hits(built, asked), strict=True)
        if entry(key) not in place[:3]
    }
    assert len(other) <= len(keys) / 100, other


def test_an_error_leads_to_its_rule(built: Path) -> None:
    told = [
        (rule.code, words)
        for rule in RULES.values()
        for _, words in deepspeed_messages.messages(rule)
        if len(words.strip("… ").split()) > 1  # the name of an exception alone is in dozens of pages
    ]
    other = {}
    of_rule = {
        rule: {f"messages/{each.id}/" for each in known_error_messages() if rule in each.rules}
        for rule in RULES
    }
    for (code, words), place in zip(told, hits(built, [words for _, words in told]), strict=True):
        if not {f"rules/{code}/", *of_rule[code]}.intersection(pages(place)[:5]):
            other[f"{code}: {words}"] = pages(place)[:5]
    # Where DeepSpeed prints no more than "division by zero", nothing can be found.
    assert len(other) <= len(told) / 20, other


def test_what_readers_type(built: Path) -> None:
    asked = json.loads((ROOT / "tests" / "site" / "queries.json").read_text("utf-8"))
    other = {}
    for (words, wanted, *most), place in zip(asked, hits(built, [words for words, *_ in asked]), strict=True):
        found = place if "#" in wanted else pages(place)
        if not any(each.startswith(wanted) for each in found[: most[0] if most else 1]):
            other[words] = found[:6]
    assert not other
