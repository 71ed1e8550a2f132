"""Verdicts on inference configs: those of real releases that are recorded, and those of the releases at hand."""

from __future__ import annotations

from collections import Counter

import pytest

import dsconfig
from dsconfig.job.consumers import INFERENCE
from tests.parity import environment, inference
from tests.parity.generators.inference import generate
from tests.parity.judges import compare

RECORDED = list(inference.recorded())


def test_recorded_verdicts_are_of_several_releases() -> None:
    by_release = Counter((release, is_accepted) for release, _, is_accepted in RECORDED)
    assert len({release for release, _ in by_release}) >= 8
    assert min(by_release.values()) >= 5


@pytest.mark.parametrize("release", sorted({release for release, *_ in RECORDED}))
def test_agrees_with_the_recorded_verdicts(release: str) -> None:
    for judged_by, case, is_accepted in RECORDED:
        if judged_by == release:
            report = dsconfig.check(case.source, target=release, consumer=INFERENCE)
            rejected = [each for each in report if each.effect == "rejected"]
            assert bool(rejected) != is_accepted, (case.source, rejected)


def test_same_seed_same_cases() -> None:
    first, again = (list(generate("0.19.8", 60, 3)) for _ in range(2))
    assert first == again


def test_agrees_with_deepspeed() -> None:
    available = [each for each in environment.available() if environment.order(each) >= inference.FIRST]
    if not available:
        pytest.skip("no DeepSpeed to compare with here: `make parity` fetches one")
    judged = inference.outcomes(available[-1], 90, seed=7)
    wrong = [line for each in judged if each.decided and not each.agrees for line in compare.describe(each)]
    assert compare.agreement(judged) == 1, "\n".join(wrong)
