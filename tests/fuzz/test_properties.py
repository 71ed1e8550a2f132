"""The properties of fixes, on a sample; at full size by `python -m tests.fuzz.properties`."""

from __future__ import annotations

import pytest

from tests.fuzz.properties import PROPERTIES, violations


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_holds(name: str) -> None:
    for _, case, wrong in violations([name], cases=40, seed=3):
        pytest.fail(f"{case.draft[1:]}\n{case.document.text}\n=> {wrong}")
