from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import elastic
from elastic import ElasticityConfigError, ElasticityError, ElasticityIncompatibleWorldSize
from tests.elastic.conftest import published, whole

NODES = {
    "max_train_batch_size": 2000,
    "micro_batch_sizes": [2, 4, 6],
    "num_gpus_per_node": 4,
    "model_parallel_size": 2,
    "version": 0.2,
}


def compute(config: Any, world_size: Any = 0, release: str = "0.19.7", **more: Any) -> Any:
    semantics = elastic.semantics_for(release)
    return elastic.compute_elastic_config(config, release, world_size, semantics=semantics, **more)


@pytest.mark.parametrize("release", ["0.3.16", "0.6.7", "0.10.3", "0.19.5", "0.19.7"])
def test_published_case(release: str) -> None:
    batch, sizes = compute(published(), release=release)
    assert (batch, len(sizes)) == (9792, 23)
    assert compute(published(), 64, release) == (9792, sizes, 17)
    with pytest.raises(ElasticityIncompatibleWorldSize, match="world size 128"):
        compute(published(), 128, release)


def test_plain_ints_come_out() -> None:
    batch, sizes, micro = compute(published(max_train_batch_size=10000.0, min_gpus=32.0), 64.0)
    assert [type(number) for number in (batch, micro, *sizes)] == [int] * 25


def test_numpy_integers_come_out_plain() -> None:
    block = {key: np.int64(1500) for key in ("max_gpus", "max_train_batch_size")}
    batch, sizes, micro = compute(published(**block, min_gpus=np.int64(1)), np.int64(4))
    assert [type(number) for number in (batch, micro, *sizes)] == [int] * (len(sizes) + 2)


def test_odd_but_usable_input_passes() -> None:
    assert compute(published(max_train_batch_size=10000.0, min_time=False)) == compute(published())
    assert (
        compute(whole({"max_train_batch_size": 8, "micro_batch_sizes": [True, 2], "version": "0.1"}))[0] == 8
    )


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ([], ValueError),
        ({}, ElasticityConfigError),
        ({"elasticity": None}, AttributeError),
        ({"elasticity": {"enabled": False}}, ElasticityConfigError),
        ({"elasticity": {"enabled": True, "micro_batch_sizes": [2]}}, ElasticityConfigError),
        ({"elasticity": {"enabled": True, "max_train_batch_size": 2}}, ElasticityConfigError),
        (published(micro_batch_sizes=8), ElasticityConfigError),
        (published(micro_batch_sizes=["a"]), ElasticityConfigError),
        (published(micro_batch_sizes=[0]), ElasticityConfigError),
        (published(micro_batch_sizes=[]), TypeError),
        (published(micro_batch_sizes=[True]), TypeError),
        (published(min_gpus=0), ElasticityConfigError),
        (published(max_gpus=31), ElasticityConfigError),
        (published(max_gpus="many"), TypeError),
        (published(min_time=-1), ElasticityConfigError),
        (published(model_parallel_size=0), ElasticityConfigError),
        (published(num_gpus_per_node=0), ElasticityConfigError),
        (published(model_parallel_size=2), ElasticityConfigError),
        (published(version=0.3), ElasticityConfigError),
        (published(version=0.15), NotImplementedError),
        (published(version=None), TypeError),
        (published(max_train_batch_size=16), ValueError),
        (published(max_train_batch_size=None), TypeError),
        (published(version=0.2, model_parallel_size=3, num_gpus_per_node=4), ElasticityError),
    ],
)
def test_errors_are_deepspeeds(config: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        compute(config, 32)
    assert str(raised.value)


def test_type_errors_name_the_key() -> None:
    with pytest.raises(TypeError, match="`max_gpus`"):
        compute(published(max_gpus="many"))
    with pytest.raises(TypeError, match="`max_train_batch_size`"):
        compute(published(max_train_batch_size="many"))


@pytest.mark.parametrize(
    ("target", "release", "error"),
    [
        ("0.3.7", "0.19.7", ElasticityError),
        ("0.3", "0.19.7", ElasticityError),
        ("0.3.8rc1", "0.19.7", ElasticityError),
        ("newest", "0.19.7", ValueError),
        ("0..9", "0.19.7", ValueError),
        ("0.4.0", "0.3.16", ElasticityError),
        ("newest", "0.3.16", AssertionError),
    ],
)
def test_target_release(target: str, release: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        elastic.compute_elastic_config(published(), target, semantics=elastic.semantics_for(release))


@pytest.mark.parametrize("target", ["0.3.8", "0.4.0", "1.0", "0.3.16+cu118", "0.19.8", "9" * 30 + ".0"])
def test_target_release_new_enough(target: str) -> None:
    assert elastic.compute_elastic_config(published(), target)[0] == 9792


def test_cap_error_by_release() -> None:
    for release, error in (("0.5.7", AssertionError), ("0.5.8", ValueError)):
        with pytest.raises(error):
            compute(published(max_train_batch_size=16), release=release)


def test_lcm_above_the_cap_by_release() -> None:
    config = published(max_train_batch_size=100, min_gpus=1)
    assert compute(config)[0] <= 100
    assert elastic.as_released(config, "0.19.5", semantics=elastic.semantics_for("0.19.5")).batch_size == 816


def test_v01_micro_batch_without_world_size(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        compute(published(), release="0.19.5", return_microbatch=True)
    with pytest.raises(ElasticityConfigError, match="WORLD_SIZE"):
        compute(published(), return_microbatch=True)
    monkeypatch.setenv("WORLD_SIZE", "64")
    assert compute(published(), return_microbatch=True)[2] == 17
    with pytest.raises(TypeError, match="return_microbatch"):
        compute(published(), release="0.6.7", return_microbatch=True)


def test_v02_reads_world_size(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ElasticityConfigError, match="WORLD_SIZE"):
        compute(whole(NODES))
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(ElasticityConfigError, match="many"):
        compute(whole(NODES))
    monkeypatch.setenv("WORLD_SIZE", "8")
    batch, sizes = compute(whole(NODES))
    assert all(size % 2 == 0 and any(batch % (size * micro) == 0 for micro in (2, 4, 6)) for size in sizes)


def test_v02_falls_back_to_a_batch_for_one_size() -> None:
    config = whole({**NODES, "model_parallel_size": 1})
    batch, sizes, micro = compute(config, 7)
    assert (batch, sizes, micro) == (1988, [7], 4)
    assert compute(config, 8)[0] != batch


def test_v02_micro_batch_depends_on_written_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    block = {**NODES, "model_parallel_size": 1, "prefer_larger_batch": False}
    for order in ([2, 4, 6], [6, 4, 2]):
        answer = compute(whole({**block, "micro_batch_sizes": order}), return_microbatch=True)
        assert answer[2] == order[0]


def test_elasticity_enabled() -> None:
    assert not elastic.elasticity_enabled({})
    assert not elastic.elasticity_enabled({"elasticity": {}})
    assert elastic.elasticity_enabled(published())


def test_immutable_block(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    block = published()["elasticity"]
    elastic.ensure_immutable_elastic_config(block)
    assert "DEEPSPEED_ELASTICITY_CONFIG" in caplog.text
    monkeypatch.setenv("DEEPSPEED_ELASTICITY_CONFIG", json.dumps({**block, "min_gpus": 1}))
    elastic.ensure_immutable_elastic_config(block)
    for key, value in (("max_train_batch_size", 1), ("micro_batch_sizes", [1]), ("version", 0.2)):
        with pytest.raises(ElasticityConfigError, match=key):
            elastic.ensure_immutable_elastic_config({**block, key: value})


def test_config_shows_itself_as_json() -> None:
    config = elastic.ElasticityConfig(published()["elasticity"])
    assert json.loads(repr(config)) == config.repr()
    assert config.repr()["micro_batches"] == [8, 12, 16, 17]
    defaults = elastic.ElasticityConfig({})
    assert (defaults.max_acceptable_batch_size, defaults.micro_batches, defaults.version) == (
        2000,
        [2, 4, 6],
        0.2,
    )
    assert elastic.ElasticityConfig({}, semantics=elastic.semantics_for("0.6.7")).version == 0.1


def test_building_blocks() -> None:
    assert sorted(elastic.get_candidate_batch_sizes([4, 6, 12, 120], 100)) == [72, 96]
    assert 120 in elastic.get_candidate_batch_sizes([120], 100, semantics=elastic.semantics_for("0.19.5"))
    assert elastic.get_valid_gpus(48, [4, 6], 2, 8) == [2, 3, 4, 6, 8]
    assert elastic.get_best_candidates([48, 96], [4, 6], 1, 100, True)[0] == 96
    with pytest.raises(ElasticityConfigError, match="widen"):
        elastic.get_best_candidates([48], [4, 6], 50, 60, True)
    assert elastic.get_compatible_gpus_v01([8, 12, 16, 17], 10000, 32, 1500)[0] == 9792
    with pytest.raises(ElasticityConfigError, match="widen"):
        elastic.get_compatible_gpus_v01([8], 10, 5, 6)
    assert elastic.get_compatible_gpus_v02([2, 4, 6], 2000, 7, num_gpus_per_node=4) == (1988, [7], 4)


@pytest.mark.parametrize(("release", "name"), [("0.3.9", "0.3.9"), ("0.5.7", "0.4.0"), ("0.6.7", "0.5.8")])
def test_semantics_for_old_releases(release: str, name: str) -> None:
    assert elastic.semantics_for(release).name == name


@pytest.mark.parametrize(
    ("release", "name"), [("0.19.5", "0.7.0"), ("0.19.8", "0.19.6"), ("1.0+x", "0.19.6")]
)
def test_semantics_for_new_releases(release: str, name: str) -> None:
    assert elastic.semantics_for(release).name == name


@pytest.mark.parametrize("release", ["0.3.8", "newest", "1"])
def test_semantics_need_a_release_with_elasticity(release: str) -> None:
    with pytest.raises(ElasticityError, match=release):
        elastic.semantics_for(release)


def test_what_would_be_searched_for_hours_is_refused_at_once() -> None:
    many = list(range(1, 5000))
    block = {"enabled": True, "micro_batch_sizes": many, "max_train_batch_size": 10**7, "version": 0.1}
    with pytest.raises(ElasticityConfigError, match="4999 sizes; at most 4096"):
        elastic.compute_elastic_config({"elasticity": block}, "0.14.5")
    with pytest.raises(ElasticityConfigError, match="a batch above 100000000000000"):
        elastic.get_valid_gpus(10**18 + 9, [1], 1, 10**9)
    assert elastic.get_valid_gpus(10**18 + 9, [1], 1, 10**4) == [1]
