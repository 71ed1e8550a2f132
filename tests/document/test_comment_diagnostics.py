"""A file full of comments has one diagnostic, whose fix removes them all."""

from __future__ import annotations

import dsconfig
from dsconfig.fix.apply_fixes import fix

LINES = [f'  "key_{number}": {number}, // {number}' for number in range(278)]
TEXT = "{\n" + "\n".join(LINES) + '\n  "train_batch_size": 8, "zero_optimization": {"stage": 0}\n}\n'


def test_comments_are_one_diagnostic() -> None:
    report = dsconfig.check(TEXT, target="0.19.8", consumer="transformers")
    (finding,) = (finding for finding in report if finding.code == "DSC001")
    assert "(278 occurrences)" in finding.message
    assert len(finding.related) == 3
    assert finding.fix is not None
    assert len(finding.fix.operations) == 278


def test_the_fix_removes_them_all() -> None:
    fixed = fix(TEXT, unsafe=True, target="0.19.8", consumer="transformers").text
    assert "//" not in fixed
    assert not [
        f for f in dsconfig.check(fixed, target="0.19.8", consumer="transformers") if f.code == "DSC001"
    ]


def test_a_comment_behind_an_unclosed_bracket_is_recorded_once() -> None:
    (finding,) = (
        f for f in dsconfig.check('{"a": [0, 0 # why', consumer="lightning") if "comment" in f.message
    )
    assert finding.message.startswith("the file has a comment: ")
