"""What DeepSpeed itself prints where it refuses a config: `python -m tests.parity.errors` asks real releases.

Every config of a rule's page and of its cases that nothing but that rule rejects is given to the release that
it is about; the words go into `site/errors.json`, by rule, and from there onto the rule's page, so that who
searches for an error finds what it means. Needs `python -m tests.parity.environment --all`, or some of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from dsconfig.api.check import check
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Effect
from dsconfig.core.releases import LATEST, NEVER
from dsconfig.document.pretty_print import format_generated_file
from dsconfig.model.key_table import iter_keys
from dsconfig.rules import RULES
from tests.cases import cases
from tests.examples import examples
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.judges import judging

FILE = environment.ROOT / "site" / "errors.json"
MOST, LONGEST = 16, 900
"""Messages of one rule, and characters of one."""
_VALUE = re.compile(r"(?m)'[^']*'|\d+|^[\w.]+$|\{[^}]*\}")


class Question(NamedTuple):
    """A config that one rule rejects, and the release that is asked."""

    code: str
    release: str
    case: Case


def questions() -> Iterator[Question]:
    """Every config of a page or a case that exactly one rule rejects."""
    for rule in RULES.values():
        for example in examples(rule):
            if example.kind == "Bad" and example.consumer == "deepspeed":
                content = {"config": json.loads(example.text)} if example.as_dict else {"text": example.text}
                yield from _asked(rule.code, example.target, example.world_size, example.check(), content)
    for path, info in iter_keys():
        if info.refused_from < NEVER:
            config: Any = None
            for word in reversed(path):
                config = {word: config if config is not None else {}}
            config["train_batch_size"] = 8
            yield from _asked("DSC104", LATEST, None, check(config, target=LATEST), {"config": config})
    for case in cases():
        if case.consumer == "deepspeed":
            content = {name: case.entry[name] for name in ("config", "text") if name in case.entry}
            yield from _asked(case.code, case.target, case.entry.get("world_size"), case.check(), content)


def _asked(
    code: str, target: str, size: int | None, report: Report, content: dict[str, Any]
) -> Iterator[Question]:
    rejecting = {found.code for found in report if found.effect is Effect.REJECTED}
    if rejecting == {code} and target in environment.available():
        yield Question(code, target, Case(repr(content), "valid", "", size or 1, **content))


def answers() -> dict[str, list[dict[str, str]]]:
    """What the releases say, by rule; sayings that differ in their values alone are told once."""
    by_release: dict[str, list[Question]] = defaultdict(list)
    for question in questions():
        by_release[question.release].append(question)
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    for release, asked in sorted(by_release.items(), key=lambda each: environment.order(each[0])):
        verdicts = judging.judge(release, list({each.case.id: each.case for each in asked}.values()))
        for each in asked:
            verdict = verdicts[each.case.id]
            if verdict.ok is False:
                said = {"release": release, "error": verdict.error or "", "message": _told(verdict.message)}
                found[each.code].setdefault(_VALUE.sub("…", f"{verdict.error}{verdict.message}"), said)
    return {code: list(said.values())[-MOST:] for code, said in sorted(found.items())}


def _told(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return "\n".join(line for line in lines if "errors.pydantic.dev" not in line)[:LONGEST]


def main() -> int:
    """Write the file."""
    said = answers()
    told: Any = {"$comment": "Written by `python -m tests.parity.errors` from real releases.", "rules": said}
    FILE.write_text(format_generated_file(told), encoding="utf-8")
    print(f"{sum(map(len, said.values()))} messages of {len(said)} rules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
