"""The releases, a page for each series, and what breaks between any two."""

from __future__ import annotations

import json
from itertools import groupby

from dsconfig.core.releases import NUMBERS, RELEASES, number
from dsconfig.rules import RULES
from pages import markdown, places
from pages.changes import between, stretches


def pages() -> dict[str, str]:
    """The index, a page for each series, the page of pairs and its data."""
    made = {f"releases/{name}.md": _page(name, list(members)) for name, members in groupby(RELEASES, _series)}
    return {
        "releases/index.md": _index(),
        **made,
        "releases/compare.md": _compare(),
        "releases/changes.json": data(),
    }


def _series(release: str) -> str:
    return release.rpartition(".")[0]


def _changed(release: str) -> list[tuple[str, str]]:
    """Keys and what happens to them in a release."""
    place = RELEASES.index(release)
    if not place:
        return []
    return [(path, said) for path in places.entries() for said in between(path, place - 1, place)]


def _index() -> str:
    told = (
        f"What each of DeepSpeed's {len(RELEASES)} releases added, removed and changed in its configuration."
    )
    rows = []
    for name, members in groupby(RELEASES, _series):
        said = [each[1] for release in members for each in _changed(release)]
        counts = (
            sum(each.startswith(word) for each in said) for word in ("added", "removed", "takes", "default")
        )
        rows.append((f"[{name}]({name}.md)", *map(str, counts)))
    head = f"{told} [What breaks between two releases](compare.md) tells it for any pair."
    shown = markdown.table(
        ("series", "added", "removed", "takes something else", "other default"), rows[::-1]
    )
    return markdown.page("Releases", told, head, shown)


def _page(name: str, members: list[str]) -> str:
    told = f"What DeepSpeed {members[0]} to {members[-1]} added, removed and changed in its configuration."
    parts = []
    for release in reversed(members):
        rows = [(places.link(path), said) for path, said in _changed(release)]
        parts += [f"## {release}", markdown.table(("key", "change"), rows) or "No key changed."]
        rules = [
            f"[{rule.code} {rule.name}](../rules/{rule.code}.md) {word}: {rule.title}"
            for rule in RULES.values()
            for word in _rule_words(rule.since, rule.until, release)
        ]
        parts.append(markdown.bullets(rules))
    return markdown.page(f"DeepSpeed {name}", told, "[All releases](index.md)", *parts)


def _rule_words(since: str | None, until: str | None, release: str) -> list[str]:
    """How a rule changes in a release."""
    place = RELEASES.index(release)
    found = ["holds from here on"] if since and place and number(since) == NUMBERS[release] else []
    before = RELEASES[place - 1] if place else None
    return found + (["holds no more"] if until and before and number(until) == NUMBERS[before] else [])


def _compare() -> str:
    told = "What breaks for a DeepSpeed config from one release to another: keys removed, refused, changed."
    return markdown.page(
        "What breaks between two releases",
        told,
        '<div id="compare" data-source="../changes.json" markdown="0"><p>The table of keys needs JavaScript; '
        'the pages of the <a href="../">releases</a> say the same, release by release.</p></div>',
        "`dsconfig migrate --from OLD --to NEW ds_config.json` makes the changes in a config, and says what "
        "is left to decide.",
        '<script src="../../assets/compare.js" defer></script>',
    )


def data() -> str:
    """The history of every key, for the page of pairs: states, and the releases that have them."""
    states: dict[tuple[object, ...], int] = {}
    history = {
        path: [
            (each.first, each.last, states.setdefault(each.state, len(states))) for each in stretches(path)
        ]
        for path in places.entries()
    }
    rules = [
        (rule.code, rule.name, rule.title, _place(rule.since, 0), _last(rule.until), rule.effect.value)
        for rule in RULES.values()
        if rule.since or rule.until
    ]
    homes = {path: places.home(path) for path in history}
    told = {"releases": RELEASES, "states": list(states), "keys": history, "homes": homes, "rules": rules}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")) + "\n"


def _place(release: str | None, otherwise: int) -> int:
    if release is None:
        return otherwise
    return next(
        (place for place, each in enumerate(RELEASES) if NUMBERS[each] >= number(release)), len(RELEASES)
    )


def _last(release: str | None) -> int:
    if release is None:
        return len(RELEASES) - 1
    return max((place for place, each in enumerate(RELEASES) if NUMBERS[each] <= number(release)), default=-1)
