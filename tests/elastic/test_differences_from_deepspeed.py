from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastic
from elastic.deepspeed.differences_from_deepspeed import DIFFERENCES, SolverDifference
from elastic.errors import NoWorldSizesError
from tests.elastic.conftest import strict_configs, whole

BY_NAME: dict[str, SolverDifference] = {difference.name: difference for difference in DIFFERENCES}
NODES = {"max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6], "num_gpus_per_node": 4, "version": 0.2}
# name, block, release, world size given, WORLD_SIZE set
CASES: list[tuple[str, dict[str, Any], str, int, str | None]] = [
    (
        "no-world-sizes",
        {"max_train_batch_size": 10, "micro_batch_sizes": [4], "min_gpus": 9, "max_gpus": 9, "version": 0.1},
        "0.19.7",
        0,
        None,
    ),
    ("nonpositive-world-size", NODES, "0.19.7", -4, None),
    ("nonpositive-world-size", {**NODES, "model_parallel_size": 2}, "0.19.7", 0, "1"),
    ("zero-batch", {**NODES, "max_train_batch_size": 100}, "0.19.7", 51, None),
    (
        "above-cap",
        {"max_train_batch_size": 100, "micro_batch_sizes": [8, 12, 16, 17], "version": 0.1},
        "0.19.5",
        0,
        None,
    ),
    (
        "no-micro-batch",
        {**NODES, "max_train_batch_size": 44, "micro_batch_sizes": [3, 5], "model_parallel_size": 2},
        "0.19.7",
        0,
        "8",
    ),
    (
        "uneven-share",
        {**NODES, "max_train_batch_size": 78, "micro_batch_sizes": [2, 3], "model_parallel_size": 2},
        "0.19.7",
        0,
        "16",
    ),
]


@pytest.mark.parametrize(("name", "block", "release", "size", "variable"), CASES)
def test_unusable_answer_is_refused(
    name: str,
    block: dict[str, Any],
    release: str,
    size: int,
    variable: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("WORLD_SIZE", variable)
    semantics = elastic.semantics_for(release)
    micro = block["version"] == 0.2 and size <= 0
    arguments = (whole(block), release, size, micro)
    try:
        answer = elastic.as_released(*arguments, semantics=semantics)
    except NoWorldSizesError:
        assert name == "no-world-sizes"
    else:
        assert next(entry.name for entry in DIFFERENCES if entry.holds(answer)) == name
    error = BY_NAME[name].error
    assert error is not None
    with pytest.raises(error) as raised:
        elastic.compute_elastic_config(*arguments, semantics=semantics)
    assert raised.type is error
    assert len(str(raised.value)) > 40


def test_the_list_is_closed_and_documented() -> None:
    tested = {case[0] for case in CASES} | {"int64-overflow"}
    assert tested == set(BY_NAME)
    assert len(BY_NAME) == len(DIFFERENCES)
    assert all(entry.summary for entry in DIFFERENCES)


def test_integers_beyond_64_bits_are_exact() -> None:
    primes = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]
    block = {"max_train_batch_size": 2000, "micro_batch_sizes": primes, "version": 0.1}
    answer = elastic.as_released(whole(block), "0.19.7")
    assert BY_NAME["int64-overflow"].holds(answer)
    batch, sizes = elastic.compute_elastic_config(whole(block), "0.19.7")[:2]
    assert batch <= 2000
    assert all(any(batch % (size * prime) == 0 for prime in primes) for size in sizes)


@given(strict_configs(), st.integers(1, 400), st.booleans(), st.sampled_from(elastic.SEMANTICS[3:]))
def test_what_passes_can_be_trained_with(
    config: dict[str, Any], gpus: int, micro: bool, semantics: elastic.ElasticitySemantics
) -> None:
    try:
        answer = elastic.compute_elastic_config(config, "0.19.7", gpus, micro, semantics=semantics)
    except elastic.ElasticityError:
        return
    except ValueError:
        assert config["elasticity"]["version"] == 0.2
        return
    batch, sizes, chosen = (*answer, None)[:3]
    assert 0 < batch <= config["elasticity"]["max_train_batch_size"]
    assert gpus in sizes
    assert chosen is not None
    assert batch % (chosen * gpus) == 0
