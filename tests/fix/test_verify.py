"""Verification of fixes: independent fixes share a trial, all others are tried one by one."""

from __future__ import annotations

import json

import pytest

from dsconfig.check.check import check_document, recheck_text
from dsconfig.check.report import Report
from dsconfig.core.releases import resolve_target
from dsconfig.document import Document, read_text
from dsconfig.fix.verify_fixes import verify_fixes_of_report


def verified_with_trials(config: dict[str, object]) -> tuple[Report, int]:
    """The report with verified fixes, and the number of texts that were checked for them."""
    report = check_document(read_text(json.dumps(config, indent=2)), resolve_target("0.19.8"))
    texts: list[str] = []

    def checker(document: Document) -> Report:
        texts.append(document.text)
        return recheck_text(report, document)

    return verify_fixes_of_report(report, checker), len(texts)


def test_independent_fixes_share_a_trial() -> None:
    config: dict[str, object] = {
        "train_batch_size": 8,
        "gradient_cliping": 1.0,
        "prescale_gradient": True,
        "fp16": {"enabled": True, "initial_scale_powr": 16},
    }
    report, trials = verified_with_trials(config)
    assert [bool(each.fix) for each in report] == [True] * 3
    assert trials == 1


@pytest.mark.parametrize("also", [{}, {"prescale_gradient": True}])
def test_fixes_with_the_same_new_key_are_tried_one_by_one(also: dict[str, object]) -> None:
    config: dict[str, object] = {
        "train_batch_size": 8,
        "gradient_cliping": 1.0,
        "gradient_clippin": 1.0,
        **also,
    }
    report, trials = verified_with_trials(config)
    fixable = [each for each in report if each.fix]
    assert len(fixable) == 2 + len(also)
    assert trials >= len(fixable)


def test_fixes_are_tried_one_by_one_if_one_of_them_is_harmful() -> None:
    config: dict[str, object] = {
        "train_batch_size": 8,
        "wall_clock_breakdown": True,
        "aio": {"thread_count": 1},
    }
    report, trials = verified_with_trials(config)
    assert [(each.code, bool(each.fix)) for each in report] == [("DSC921", True), ("DSC104", False)]
    assert trials == 1 + 2
