from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastic
from elastic import ElasticityConfigError
from elastic.divisors import drop_multiples
from elastic.planning import exact_search
from tests.elastic.conftest import published, whole


def brute_force(
    cap: int, micros: list[int], wanted: list[int], prefer_larger: bool
) -> tuple[int, list[int], int]:
    """Best batch, its sizes and the ties, by trying every batch, size and micro batch."""
    admitted = {
        batch: [size for size in wanted if any(batch % (micro * size) == 0 for micro in micros)]
        for batch in range(1, cap + 1)
    }
    most = max(map(len, admitted.values()))
    best = [batch for batch, sizes in admitted.items() if len(sizes) == most]
    batch = best[-1] if prefer_larger else best[0]
    return batch, admitted[batch], len(best)


micro_lists = st.lists(st.integers(1, 12), min_size=1, max_size=4)


@given(st.integers(12, 600), micro_lists, st.integers(1, 9), st.integers(0, 60), st.booleans())
def test_range_against_brute_force(cap: int, micros: list[int], low: int, more: int, larger: bool) -> None:
    block = {
        "max_train_batch_size": cap,
        "micro_batch_sizes": micros,
        "min_gpus": low,
        "max_gpus": low + more,
        "prefer_larger_batch": larger,
        "version": 0.1,
    }
    batch, sizes, ties = brute_force(cap, micros, list(range(low, low + more + 1)), larger)
    if not sizes:
        with pytest.raises(ElasticityConfigError, match="no batch up to"):
            elastic.search(whole(block))
        return
    result: elastic.BatchSearchResult = elastic.search(whole(block))
    assert (result.exact.batch_size, list(result.exact.world_sizes), result.ties) == (batch, sizes, ties)
    assert result.lost >= 0
    assert len(result.missed) >= result.lost


@given(st.integers(12, 600), micro_lists, st.sets(st.integers(1, 80), min_size=1, max_size=12))
def test_given_sizes_against_brute_force(cap: int, micros: list[int], wanted: set[int]) -> None:
    block = {"max_train_batch_size": cap, "micro_batch_sizes": micros, "version": 0.1}
    batch, sizes, ties = brute_force(cap, micros, sorted(wanted), True)
    if sizes:
        result: elastic.BatchSearchResult = elastic.search(whole(block), wanted)
        assert (result.exact.batch_size, list(result.exact.world_sizes), result.ties) == (batch, sizes, ties)
        assert result.wanted == tuple(sorted(wanted))


@given(st.integers(100, 2000), st.sampled_from((1, 2, 4)), st.sampled_from((4, 8)), st.integers(1, 40))
def test_whole_nodes_against_brute_force(cap: int, model: int, node: int, least: int) -> None:
    block = {
        "max_train_batch_size": cap,
        "micro_batch_sizes": [2, 3],
        "min_gpus": least,
        "max_gpus": 64,
        "num_gpus_per_node": node,
        "model_parallel_size": model,
        "version": 0.2,
    }
    ranks = node // model
    wanted = [n * ranks for n in range(1, 65) if least <= n * node <= 64]
    batch, sizes, _ = brute_force(cap, [2, 3], wanted, True)
    if sizes:
        result: elastic.BatchSearchResult = elastic.search(whole(block))
        assert (result.exact.batch_size, list(result.exact.world_sizes)) == (batch, sizes)
        assert all(row.gpus == row.nodes * node for row in result.exact.rows)


def test_what_the_heuristic_loses() -> None:
    assert elastic.search(published()).lost == 0
    result = elastic.search(whole({"max_train_batch_size": 60, "micro_batch_sizes": [2, 3], "version": 0.1}))
    assert result.heuristic is not None
    assert (result.exact.batch_size, result.heuristic.batch_size) == (60, 48)
    assert (len(result.exact.rows), len(result.heuristic.rows), result.lost) == (10, 9, 1)
    assert result.missed == (5, 10, 15, 20, 30)
    for row in result.exact.rows:
        assert row.micro_batch_size * row.accumulation_steps * row.world_size == result.exact.batch_size


def test_heuristic_may_find_no_plan() -> None:
    block = {
        "max_train_batch_size": 22,
        "micro_batch_sizes": [1],
        "min_gpus": 11,
        "max_gpus": 11,
        "version": 0.1,
    }
    result = elastic.search(whole(block))
    assert (result.exact.batch_size, result.heuristic, result.lost, result.missed) == (22, None, 1, (11,))


@pytest.mark.parametrize("sizes", [[0], [1.0], [True], ["8"], [8, np.int64(4)], [10**9]])
def test_bad_world_sizes_are_named(sizes: list[Any]) -> None:
    with pytest.raises(ElasticityConfigError, match=r"`world_sizes\["):
        elastic.search(published(), sizes)


def test_cap_too_large_to_count_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ElasticityConfigError, match=r"max_train_batch_size.*\(100000000\)"):
        elastic.search(published(max_train_batch_size=10**9))
    monkeypatch.setattr(exact_search, "find_spec", lambda name: None)  # as where it is not installed
    with pytest.raises(
        ElasticityConfigError, match=r"\(10000000, .*: install `deepspeed-config\[search\]`\)"
    ):
        elastic.search(published(max_train_batch_size=10**7 + 1))


@given(
    st.integers(1, 3000),
    micro_lists,
    st.lists(st.integers(1, 3500), unique=True, max_size=30).map(sorted),
    st.booleans(),
)
def test_numpy_counts_the_same(cap: int, micros: list[int], wanted: list[int], larger: bool) -> None:
    units = drop_multiples(micros)
    plain = exact_search.best_batch_without_numpy(cap, units, wanted, larger=larger)
    assert exact_search.best_batch_with_numpy(cap, units, wanted, larger=larger) == plain


def test_numpy_counts_where_it_pays() -> None:
    for cap, used in ((exact_search.LARGE_CAP, "False"), (exact_search.LARGE_CAP + 1, "True")):
        program = (
            "import sys; from elastic.planning import exact_search\n"
            f"assert exact_search.best_batch({cap}, [2, 3], range(1, 9), larger=True)[0] > {cap} - 5040\n"
            "print('numpy' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == used


@given(st.integers(1, 3000), st.one_of(st.none(), micro_lists), st.integers(1, 40), st.integers(1, 200))
def test_fixed_batch_against_brute_force(batch: int, micros: list[int] | None, low: int, high: int) -> None:
    expected = {}
    for size in range(low, high + 1):
        if batch % size == 0:
            share = batch // size
            fitting = [
                m for m in (range(1, share + 1) if micros is None else sorted(set(micros))) if share % m == 0
            ]
            if fitting:
                expected[size] = tuple(fitting)
    assert elastic.keeping_batch(batch, micros, min_world_size=low, max_world_size=high) == expected


@pytest.mark.parametrize("value", [0, -1, 2.0, True, None, "8"])
def test_fixed_batch_needs_a_positive_int(value: Any) -> None:
    with pytest.raises(ElasticityConfigError, match="batch_size"):
        elastic.keeping_batch(value)
    with pytest.raises(ElasticityConfigError, match="micro_batch_sizes"):
        elastic.keeping_batch(8, [value])
