"""The elastic path: by the release itself up to 0.19.7, in its stead from 0.19.8 on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsconfig
from dsconfig import ResolveError, resolve
from dsconfig.core.batch_triplet import KEYS

BLOCK: dict[str, Any] = {
    "enabled": True,
    "max_train_batch_size": 2000,
    "micro_batch_sizes": [2, 4, 6],
    "version": 0.1,
}
WITH = ("0.3.16", "0.6.7", "0.14.5", "0.19.5", "0.19.7")


def elastic(**changes: Any) -> dict[str, Any]:
    """A config with the block."""
    return {"elasticity": {**BLOCK, **changes}}


@pytest.fixture(autouse=True)
def no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPSPEED_ELASTICITY_CONFIG", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


@pytest.mark.parametrize("release", WITH)
def test_release_with_elasticity_keeps_its_block(release: str) -> None:
    run = resolve(elastic(), world_size=8, target=release)
    assert run.triplet == (1680, 6, 35)
    assert run.elastic
    assert run.config == elastic()  # the release writes the batch itself, and refuses it beside the block


def test_release_without_elasticity_gets_the_triplet_instead() -> None:
    run = resolve({**elastic(), "steps_per_print": 5}, world_size=8, target="0.19.8")
    assert run.config == {"steps_per_print": 5, **dict(zip(KEYS, (1680, 6, 35), strict=True))}
    assert [message.kind for message in run.messages] == ["removed"]
    assert run.check().ok


def outcome(size: int, release: str) -> Any:
    try:
        return resolve(elastic(), world_size=size, target=release).triplet
    except ResolveError as error:
        return f"size {size} " in str(error)


@settings(deadline=None)
@given(st.integers(1, 200), st.sampled_from(WITH))
def test_same_batch_at_every_admissible_size_with_and_without(size: int, release: str) -> None:
    assert outcome(size, release) == outcome(size, "0.19.8")


def test_inadmissible_size_names_the_nearest() -> None:
    for release in ("0.19.7", "0.19.8"):
        with pytest.raises(ResolveError, match=r"1680 = 13 x 129 \+ 3; nearest: 12 or 14"):
            resolve(elastic(), world_size=13, target=release)


@pytest.mark.parametrize("release", ["0.19.7", "0.19.8"])
def test_batch_keys_beside_the_block(release: str) -> None:
    config = {**elastic(), "train_batch_size": 8}
    with pytest.raises(ResolveError, match="`train_batch_size` and `elasticity` both set the batch"):
        resolve(config, world_size=8, target=release)
    config["elasticity"]["ignore_non_elastic_batch_info"] = True
    run = resolve(config, world_size=8, target=release)
    assert run.train_batch_size == 1680
    overridden = [message.text for message in run.messages if message.kind == "overridden"]
    assert overridden == ["elasticity overrides `train_batch_size`: 8 becomes 1680"]


@pytest.mark.parametrize("release", ["0.19.7", "0.19.8"])
def test_scheduler_must_have_seen_the_same_block(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSPEED_ELASTICITY_CONFIG", json.dumps(BLOCK))
    assert "environment" in [
        message.kind for message in resolve(elastic(), world_size=8, target=release).messages
    ]
    monkeypatch.setenv("DEEPSPEED_ELASTICITY_CONFIG", json.dumps({**BLOCK, "max_train_batch_size": 1000}))
    with pytest.raises(ResolveError, match=r"DEEPSPEED_ELASTICITY_CONFIG: the scheduler planned with"):
        resolve(elastic(), world_size=8, target=release)
    monkeypatch.setenv("DEEPSPEED_ELASTICITY_CONFIG", "no json")
    with pytest.raises(ResolveError, match="DEEPSPEED_ELASTICITY_CONFIG"):
        resolve(elastic(), world_size=8, target=release)


def test_model_parallel_size_of_the_block_counts_where_nothing_else_is_said() -> None:
    block = {**BLOCK, "version": 0.2, "num_gpus_per_node": 8, "model_parallel_size": 2}
    for run in (
        resolve({"elasticity": block}, world_size=16, target="0.19.8"),
        resolve({"elasticity": block}, world_size=16, target="0.19.8", tp=2),
    ):
        assert run.data_parallel_size == 8
        assert (
            run.train_batch_size == run.train_micro_batch_size_per_gpu * run.gradient_accumulation_steps * 8
        )
    with pytest.raises(ResolveError, match=r"`elasticity.model_parallel_size` is 2, but tp × pp is 4"):
        resolve({"elasticity": block}, world_size=16, target="0.19.8", tp=4)
    with pytest.raises(ResolveError, match=r"15 GPUs hold no whole number of models"):
        resolve({"elasticity": block}, world_size=15, target="0.19.8")


def test_fallback_of_v02_is_taken_and_told() -> None:
    run = resolve(elastic(version=0.2), world_size=13, target="0.19.8")
    assert run.train_batch_size % 13 == 0
    assert run.triplet == resolve(elastic(version=0.2), world_size=13, target="0.19.7").triplet
    assert any("takes a batch for this size alone" in message.text for message in run.messages)


def test_block_that_is_off_goes_where_the_release_refuses_it() -> None:
    config = {"train_batch_size": 8, "elasticity": {"enabled": False}}
    assert "elasticity" not in resolve(config, world_size=8, target="0.19.8").config
    assert "elasticity" in resolve(config, world_size=8, target="0.19.7").config
    assert dsconfig.check(
        resolve(config, world_size=8, target="0.19.8").config, target="0.19.8", world_size=8
    ).ok


@pytest.mark.parametrize("release", ["0.19.7", "0.19.8"])
@pytest.mark.parametrize(
    "block",
    [
        {"enabled": True},
        {**BLOCK, "micro_batch_sizes": []},
        {**BLOCK, "micro_batch_sizes": "2"},
        {**BLOCK, "max_train_batch_size": "many"},
        {**BLOCK, "version": 0.3},
        {**BLOCK, "min_gpus": 5000},
        {**BLOCK, "max_train_batch_size": 1},
    ],
)
def test_unusable_block(block: dict[str, Any], release: str) -> None:
    with pytest.raises(ResolveError, match=r"^elasticity: "):
        resolve({"elasticity": block}, world_size=8, target=release)


def test_first_releases_do_not_look_at_the_block() -> None:
    run = resolve({**elastic(), "train_batch_size": 8}, world_size=8, target="0.3.1")
    assert run.triplet == (8, 1, 1)
    assert not run.elastic
