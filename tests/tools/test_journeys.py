"""The journeys of `make journeys` that need no installation give their answers, and a journey without one fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.tools import journeys

HERE = [each for each in journeys.JOURNEYS if each.name != "pre-commit"]


@pytest.fixture
def variables() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "COLUMNS": "80"}


@pytest.mark.parametrize("journey", HERE, ids=lambda journey: journey.name)
def test_a_journey_gives_its_answer(
    journey: journeys.Journey, variables: dict[str, str], tmp_path: Path
) -> None:
    result = journeys.run_journey(journey, tmp_path, variables, wheel=None)
    assert result.failure == "", result.transcript


def test_no_journey_has_more_commands_than_allowed() -> None:
    names = [each.name for each in (*journeys.JOURNEYS, journeys.VSCODE)]
    assert len(set(names)) == 5
    assert all(len(each.commands) <= 3 for each in (*journeys.JOURNEYS, journeys.VSCODE))


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({"answers": ("no such words",)}, "no match of no such words"),
        ({"exit_code": 0}, "ended with exit code 1"),
        ({"commands": ("true", "true", "true", "dsconfig check")}, "4 commands"),
    ],
)
def test_a_journey_that_does_not_keep_to_the_limits_fails(
    changes: dict[str, object], failure: str, variables: dict[str, str], tmp_path: Path
) -> None:
    journey = journeys.JOURNEYS[0]._replace(**changes)  # type: ignore[arg-type]
    result = journeys.run_journey(journey, tmp_path, variables, wheel=None)
    assert failure in result.failure
    assert failure in "\n".join(journeys.report([(journey, result)]))
