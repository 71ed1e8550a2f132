"""Every constraint that is known of DeepSpeed has a rule and a case, or a stated reason why it has none."""

from __future__ import annotations

from collections import Counter

import pytest

from dsconfig.rules import RULES
from tests.cases import cases
from tests.rule_map import PAGE, Entry, entries, page

KNOWN = 410
"""Constraints collected from DeepSpeed's sources and by running its releases."""
MOST = 60
"""As many may need a fact that no config holds."""

ALL = list(entries())
FIRING = {case.label for case in cases() if case.finds}
"""The cases in which their rule finds something."""
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
    rule = RULES[entry["code"]]
    assert f"{rule.code}-{rule.name}/{entry['case']}" in FIRING, name


def test_page_of_contributors_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.rule_map`"
