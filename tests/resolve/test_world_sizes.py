"""The world sizes of a batch by arithmetic, held against trying each of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsconfig.core.batch_triplet import ImpossibleTriplet, derive_batch_triplet
from dsconfig.rules._batch_triplet import divisors, working_world_sizes

TRIED = 300
WHOLE = st.one_of(
    st.sampled_from([1, 2, 4, 6, 8, 12, 16, 24, 60, 64, 96, 128, 360, 0, -8]), st.integers(1, 500)
)
BROKEN = st.sampled_from([0.5, 1.5, 2.0, 8.0, 0.1, 0.3, 0.7, 2.5, 4.5, 96.0, 1 / 3, -2.0, 0.0, 6.4, 1e300])
ODD = st.sampled_from([True, False, "8", "auto", [1], {}, 10**20, 10**400])
VALUE = st.one_of(st.none(), WHOLE, BROKEN, ODD)


@settings(max_examples=1500, deadline=None)
@given(VALUE, VALUE, VALUE)
def test_arithmetic_finds_what_trying_finds(train: object, micro: object, steps: object) -> None:
    found = working_world_sizes(train, micro, steps)
    tried = [
        size
        for size in range(1, TRIED + 1)
        if not isinstance(derive_batch_triplet(train, micro, steps, size), ImpossibleTriplet)
    ]
    assert tried == [size for size in range(1, TRIED + 1) if found is None or size in found]


@pytest.mark.parametrize("batch", [10**12, 2**61 - 1, 10**400, 10**4000 + 1])
def test_large_batches_have_sizes_at_once(batch: int) -> None:
    found = working_world_sizes(batch, None, None)
    assert found is not None
    assert found[0] == 1
    assert all(Fraction(batch, size).denominator == 1 for size in found)


def test_text_is_not_repeated() -> None:
    """`"auto"` times a number of steps is a text in Python, of any length."""
    assert isinstance(derive_batch_triplet(None, "auto", 10**15, 10**9), ImpossibleTriplet)


def test_divisors() -> None:
    assert divisors(12) == (1, 2, 3, 4, 6, 12)
    assert divisors(0) == divisors(-4) == ()
