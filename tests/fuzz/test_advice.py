"""What advice says, when done, ends the finding: over all cases of the rules, and some generated configs."""

from __future__ import annotations

import pytest

from tests.fuzz.advice.__main__ import Question, generated, pinned
from tests.fuzz.advice.follow import attempts
from tests.fuzz.advice.sentences import Beyond, Move, Put, Remove, Rename, Unread, ways

IN_STAGES = {"DSC732", "DSC930", "DSC934", "DSC949", "DSC950"}
"""What a curriculum, a group or a fused kernel needs depends on what it is given: advice comes in stages."""


def faults(question: Question) -> list[str]:
    """The helps that lead astray, each with its way and outcome."""
    return [
        f"{attempt.found.code} {attempt.outcome}: {attempt.found.help} {attempt.way}"
        for attempt in attempts(*question)
        if attempt.fault and attempt.found.code not in IN_STAGES
    ]


def test_advice_of_all_cases() -> None:
    assert [fault for question in pinned() for fault in faults(question)] == []


def test_advice_on_generated_configs() -> None:
    """Few lead astray, and those only where the config has several faults at once."""
    found = [faults(question) for question in generated(160, 0)]
    assert sum(bool(each) for each in found) <= 0.03 * len(found), found


def test_every_help_of_a_case_is_read() -> None:
    said = [attempt.way for question in pinned() for attempt in attempts(*question)]
    assert not [way for way in said if any(isinstance(step, Unread) for step in way)]


@pytest.mark.parametrize(
    ("help", "expected"),
    [
        ("remove it: the default is 1", [(Remove(),)]),
        ("remove `a` and `b.c`, or set `d` to 2", [(Remove(("a", "b.c")),), (Put("d", "2"),)]),
        (
            "use stage 1 or 2",
            [(Put("zero_optimization.stage", "1"),), (Put("zero_optimization.stage", "2"),)],
        ),
        ("move it to `a.b`", [(Move("a.b"),)]),
        ("rename `name` to `type`", [(Rename("name", "type"),)]),
        ("did you mean `stage`?", [(Rename("", "stage"),)]),
        ('write `a.b`: `{"c": 1}` instead', [(Remove(), Put("a.b", '`{"c": 1}`'))]),
        ('add `"device": "cpu"` or `"nvme"`', [(Put("device", '"cpu"'),), (Put("device", '"nvme"'),)]),
        ("upgrade DeepSpeed to 0.19.2 or later", [(Beyond("upgrade DeepSpeed to 0.19.2 or later"),)]),
        ("frobnicate it", [(Unread("frobnicate it"),)]),
    ],
)
def test_forms_are_read(help: str, expected: list[object]) -> None:
    assert list(ways(help)) == expected
