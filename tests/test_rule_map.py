"""Every constraint that is known of DeepSpeed has a rule and a case, or a stated reason why it has none."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from dsconfig.rules import RULES
from tests.rule_map import PAGE, ROOT, Entry, entries, page

KNOWN = 410
"""Constraints collected from DeepSpeed's sources and by running its releases."""
MOST = 60
"""As many may need a fact that no config holds."""

ALL = list(entries())
WITH_RULE = [(name, entry) for name, entry in ALL if "needs" not in entry]


def test_every_constraint_is_mapped_once() -> None:
    assert [name for name, count in Counter(name for name, _ in ALL).items() if count > 1] == []
    assert len(ALL) == KNOWN


def test_few_need_another_fact() -> None:
    reasons = [entry["needs"] for _, entry in ALL if "needs" in entry]
    assert len(reasons) <= MOST
    assert all(len(reason) > 10 for reason in reasons)


@pytest.mark.parametrize(("name", "entry"), WITH_RULE, ids=[name for name, _ in WITH_RULE])
def test_rule_and_case_exist(name: str, entry: Entry) -> None:
    code, path = entry["code"], ROOT / entry["case"]
    assert code in RULES, name
    assert path.parent.name == f"{code}-{RULES[code].name}", "the case is one of the rule's own"
    assert json.loads(path.read_text("utf-8"))["finds"], "the case is one in which the rule fires"


def test_page_of_contributors_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.rule_map`"
