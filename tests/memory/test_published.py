"""Published measurements on GPUs: the expected range, and verdicts that no run contradicts."""

from __future__ import annotations

import statistics

from tests.parity.published import NEAR, comparisons


def test_predictions_are_near_published_measurements() -> None:
    results = comparisons()
    errors = [abs(result.error) for result in results if result.error is not None]
    assert len(errors) > 70
    assert statistics.median(errors) < 0.06
    assert sum(error <= NEAR for error in errors) / len(errors) > 0.85
    assert not [
        result for result in results if result.measured is not None and result.verdict == "does not fit"
    ]
    assert not [result for result in results if result.measured is None and result.verdict == "fits"]
