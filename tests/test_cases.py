"""Corner cases of the rules, as data: tests/cases/<domain>/<CODE>-<name>/<case>.json.

A case holds `config` (given as a dict) or `text` (given as a file's text), perhaps `target`, `world_size` and
`consumer`, and `finds`: what this code finds, each as "path effect"; an empty list means that it must not
fire.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig.checking.check import check
from dsconfig.rules import RULES

CASES = sorted(Path(__file__).parent.glob("cases/*/*/*.json"))


def test_cases_are_found() -> None:
    assert len(CASES) > 30


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    code, _, name = path.parent.name.partition("-")
    assert RULES[code].name == name, "the folder names the rule"
    report = check(
        case["config"] if "config" in case else case["text"],
        case.get("target"),
        case.get("world_size"),
        case.get("consumer"),
    )
    found = [f"{d.dotted} {d.effect.value}".strip() for d in report if d.code == code]
    assert sorted(found) == sorted(case["finds"]), case["why"]


def test_every_rule_has_a_case() -> None:
    with_case = {path.parent.name.partition("-")[0] for path in CASES}
    assert set(RULES) - with_case == set()
