"""Published measurements on GPUs: the expected range, and verdicts that hardly any run contradicts."""

from __future__ import annotations

import statistics

from tests.parity.published import NEAR, comparisons


def test_predictions_are_near_published_measurements() -> None:
    results = comparisons(step=2, without_deepspeed=False)
    errors = [abs(result.error) for result in results if result.error is not None]
    assert len(errors) > 30
    assert statistics.median(errors) < 0.1
    assert sum(error <= NEAR for error in errors) / len(errors) > 0.75
    ran = [result.verdict for result in results if result.measured is not None]
    failed = [result.verdict for result in results if result.measured is None]
    assert ran.count("does not fit") <= 0.05 * len(ran)
    assert failed.count("fits") <= 0.15 * len(failed)
