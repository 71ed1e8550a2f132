"""Which rule and which case stand for each constraint that DeepSpeed puts on a config, as data.

The files beside this one, one for each domain of config keys, map names of constraints to the code of a rule
and the name of one of its cases, or to what the answer `needs`: a fact that neither the config nor the world
size, release or consumer holds.
`python -m tests.rule_map` writes the latter as a page for contributors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER.parents[1] / "site" / "docs" / "contributing" / "needs.md"
Entry = Mapping[str, str]


def entries() -> Iterator[tuple[str, Entry]]:
    """Every constraint with its entry, in the order of the files."""
    for path in sorted(FOLDER.glob("*.json")):
        yield from json.loads(path.read_text("utf-8")).items()


def page() -> str:
    """The page of constraints that no check of a file can see."""
    lines = [
        "<!-- Written by `python -m tests.rule_map` from tests/rule_map/*.json. -->",
        "",
        "# What a config alone does not tell",
        "",
        "Every constraint that DeepSpeed puts on a config is a rule here, but for these. Each would take",
        "a fact that is neither in the config nor in the world size, the release or the reading program.",
        "",
        "| constraint | would need |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {entry['needs']} |" for name, entry in sorted(entries()) if "needs" in entry]
    return "\n".join(lines) + "\n"
