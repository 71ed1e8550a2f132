from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elastic.constants import HCN_LIST
from elastic.divisors import divisors_up_to, drop_divisors, drop_multiples, prime_powers, world_sizes


@given(st.integers(1, 5000), st.integers(0, 6000))
def test_divisors(number: int, limit: int) -> None:
    assert divisors_up_to(number, limit) == [d for d in range(1, min(number, limit) + 1) if number % d == 0]


@given(st.integers(1, 10**12))
def test_prime_powers_multiply_back(number: int) -> None:
    product = 1
    for prime, exponent in prime_powers(number, number):
        product *= prime**exponent
    assert product == number


@given(
    st.one_of(
        st.lists(st.integers(1, 60), max_size=30),
        st.lists(st.integers(1, 12).map(lambda n: n * 10**9) | st.integers(1, 10**10), max_size=30),
    )
)
def test_dominance(numbers: list[int]) -> None:
    assert drop_multiples(numbers) == sorted(
        n for n in set(numbers) if not any(n % o == 0 for o in set(numbers) - {n})
    )
    assert set(drop_divisors(numbers)) == {
        n for n in numbers if not any(o % n == 0 for o in set(numbers) - {n})
    }


@given(
    st.integers(1, 3000),
    st.lists(st.integers(1, 30), min_size=1, max_size=5),
    st.integers(1, 50),
    st.integers(0, 3000),
)
def test_world_sizes(batch: int, micros: list[int], low: int, more: int) -> None:
    expected = [w for w in range(low, low + more + 1) if any(batch % (micro * w) == 0 for micro in micros)]
    assert world_sizes(batch, micros, low, low + more) == expected


def test_highly_composite_numbers() -> None:
    # Counted by a sieve up to the largest listed that keeps the test quick.
    limit = 60000
    counts = [0] * (limit + 1)
    for divisor in range(1, limit + 1):
        for multiple in range(divisor, limit + 1, divisor):
            counts[multiple] += 1
    record, numbers = 0, []
    for number in range(1, limit + 1):
        if counts[number] > record:
            record = counts[number]
            numbers.append(number)
    assert [number for number in HCN_LIST if number <= limit] == numbers
    assert HCN_LIST[-1] == 720720
    assert len(HCN_LIST) == 38


class Counted(int):
    """A number that counts how often it is divided."""

    divided = 0

    def __mod__(self, other: int) -> int:
        Counted.divided += 1
        return int(self) % other


def test_dominance_of_many_is_told_by_their_multiples() -> None:
    spread = random.Random(0)
    numbers = [Counted(spread.randrange(1, 10**5)) for _ in range(4000)]
    Counted.divided = 0
    assert drop_multiples(numbers)
    assert drop_divisors(numbers)
    assert Counted.divided < 40 * len(numbers)
