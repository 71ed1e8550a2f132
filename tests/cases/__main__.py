"""`make cases`: writes what the rules say today into their case files, for a reviewer to read in the diff.

A verdict is never rewritten: a case whose rule finds something at another path, or with another effect, is
left to its author. Every file is put where its rule belongs, and laid out in one way.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dsconfig.document.pretty_print import format_generated_file
from dsconfig.rules import RULES
from tests.cases import Case, Content, files, place, read
from tests.cases.words import found, verdicts


def rewrite(rule: str, content: Content) -> list[str]:
    """Put today's words into the content of a rule's file; returns what is wrong with its verdicts."""
    wrong = []
    for entry in content["cases"]:
        case = Case(rule, entry)
        finds = found(case)
        if verdicts(finds) == verdicts(case.finds):
            entry["finds"] = finds
        else:
            wrong.append(f"{case.label} says {verdicts(case.finds)}, the rule finds {verdicts(finds)}")
    return wrong


def laid_out(content: Content) -> str:
    """The text of a case file: entries sorted by name, invisible characters escaped."""
    ordered = {kind: sorted(entries, key=_name) for kind, entries in content.items()}
    return "".join(map(_visible, format_generated_file(ordered)))


def _name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


def _visible(char: str) -> str:
    return char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1]


def _moved(path: Path) -> Path:
    """The file, moved to where its rule belongs."""
    home = place(RULES[path.stem.partition("-")[0]])
    if home != path:
        if home.exists():
            raise FileExistsError(f"{path} and {home} hold the cases of one rule: make one file of them")
        home.parent.mkdir(exist_ok=True)
        path.rename(home)
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    return home


def main() -> int:
    """Rewrite every file; 1 where a verdict is wrong."""
    wrong = []
    for path in [_moved(path) for path in files()]:
        content = read(path)
        wrong += rewrite(path.stem, content)
        path.write_text(laid_out(content), encoding="utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
