"""The pages of releases: one per minor series, and a comparison of any two releases."""

from __future__ import annotations

import json
from itertools import groupby

from dsconfig.core.releases import NUMBERS, RELEASES, release_number
from dsconfig.rules import RULES
from pages import key_entries, markdown
from pages.key_history import changes, periods


def pages() -> dict[str, str]:
    """The index, a page per minor series, and the comparison with its data."""
    series = {
        f"releases/{name}.md": _page(name, list(members)) for name, members in groupby(RELEASES, _series)
    }
    return {
        "releases/index.md": _index(),
        **series,
        "releases/compare.md": _compare(),
        "releases/changes.json": data(),
    }


def _series(release: str) -> str:
    return release.rpartition(".")[0]


def _changed(release: str) -> list[tuple[str, str]]:
    """Keys that a release changes, each with the change."""
    index = RELEASES.index(release)
    if not index:
        return []
    return [(path, change) for path in key_entries.entries() for change in changes(path, index - 1, index)]


def _index() -> str:
    description = f"Keys that each of DeepSpeed's {len(RELEASES)} releases adds, removes and changes."
    rows = []
    for name, members in groupby(RELEASES, _series):
        texts = [text for release in members for _, text in _changed(release)]
        counts = (
            sum(text.startswith(word) for text in texts)
            for word in ("added", "removed", "accepts", "default")
        )
        rows.append((f"[{name}]({name}.md)", *map(str, counts)))
    head = f"{description} [Compare two releases](compare.md) lists the changes between any two."
    table = markdown.table(("series", "added", "removed", "type changed", "default changed"), rows[::-1])
    return markdown.page("Releases", description, head, table)


def _page(name: str, members: list[str]) -> str:
    description = f"Config keys that DeepSpeed {members[0]} to {members[-1]} add, remove and change."
    parts = []
    for release in reversed(members):
        rows = [(key_entries.link(path), change) for path, change in _changed(release)]
        parts += [f"## {release}", markdown.table(("key", "change"), rows) or "No key changed."]
        rules = [
            f"[{rule.code} {rule.name}](../rules/{rule.code}.md) {word}: {rule.title}"
            for rule in RULES.values()
            for word in _rule_words(rule.since, rule.until, release)
        ]
        parts.append(markdown.bullets(rules))
    return markdown.page(f"DeepSpeed {name}", description, "[All releases](index.md)", *parts)


def _rule_words(since: str | None, until: str | None, release: str) -> list[str]:
    """How a rule changes in a release."""
    index = RELEASES.index(release)
    words = (
        ["applies from this release on"]
        if since and index and release_number(since) == NUMBERS[release]
        else []
    )
    before = RELEASES[index - 1] if index else None
    return words + (
        ["no longer applies"] if until and before and release_number(until) == NUMBERS[before] else []
    )


def _compare() -> str:
    description = (
        "Changes between two DeepSpeed releases that affect a config: keys removed, rejected, changed."
    )
    return markdown.page(
        "Compare two releases",
        description,
        '<div id="compare" data-source="../changes.json" markdown="0"><p>The table of keys needs JavaScript; '
        'the pages of the <a href="../">releases</a> list the same changes.</p></div>',
        "`dsconfig migrate --from OLD --to NEW ds_config.json` updates a config, and lists what "
        "you have to decide.",
        '<script src="../../assets/compare.js" defer></script>',
    )


def data() -> str:
    """The history of every key, for the comparison: states, and the releases that have them."""
    states: dict[tuple[object, ...], int] = {}
    history = {
        path: [(each.first, each.last, states.setdefault(each.state, len(states))) for each in periods(path)]
        for path in key_entries.entries()
    }
    rules = [
        (rule.code, rule.name, rule.title, _index_of(rule.since, 0), _last(rule.until), rule.effect.value)
        for rule in RULES.values()
        if rule.since or rule.until
    ]
    homes = {path: key_entries.page_name(path) for path in history}
    history_data = {
        "releases": RELEASES,
        "states": list(states),
        "keys": history,
        "homes": homes,
        "rules": rules,
    }
    return json.dumps(history_data, ensure_ascii=False, separators=(",", ":")) + "\n"


def _index_of(release: str | None, default: int) -> int:
    if release is None:
        return default
    return next(
        (index for index, each in enumerate(RELEASES) if NUMBERS[each] >= release_number(release)),
        len(RELEASES),
    )


def _last(release: str | None) -> int:
    if release is None:
        return len(RELEASES) - 1
    return max(
        (index for index, each in enumerate(RELEASES) if NUMBERS[each] <= release_number(release)), default=-1
    )
