"""`migrate` keeps its promises on generated configs; `python -m tests.fuzz.migrate` tests far more of them."""

from __future__ import annotations

import pytest

from tests.fuzz.migrate import migrated, trips
from tests.fuzz.migrations import broken


@pytest.mark.parametrize("seed", range(4))
def test_the_later_release_accepts_the_result_or_a_reason_is_given(seed: int) -> None:
    for trip in trips(30, seed):
        assert list(broken(trip.text, trip.way, migrated(trip))) == [], trip
