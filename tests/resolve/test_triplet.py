"""The batch triplet: its invariants, what is written into the config, and what an impossible one says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsconfig
from dsconfig import ResolveError, resolve
from dsconfig.core.batch_triplet import KEYS

TRAIN, MICRO, STEPS = KEYS
small = st.integers(1, 64)
sizes = st.sampled_from((1, 2, 3, 4, 7, 8, 16, 64))


@st.composite
def written(draw: st.DrawFn) -> dict[str, Any]:
    """Any of the three keys, alone or together, that may or may not fit."""
    keys = draw(st.sets(st.sampled_from(KEYS)))
    factor = draw(small)
    return {key: draw(small) * (factor if key == TRAIN else 1) for key in sorted(keys)}


def refused(config: dict[str, Any], size: int, consumer: str | None = None) -> ResolveError | None:
    """The error of resolving the config, if there is one."""
    # Lightning adds the batch of its data loader and Trainer to a config without one.
    arguments = {"per_device_train_batch_size": 1} if consumer == "lightning" else None
    try:
        resolve(config, world_size=size, target="0.19.8", consumer=consumer, training_args=arguments)
    except ResolveError as error:
        return error
    return None


def well_worded(error: ResolveError) -> None:
    assert "\n" not in error.reason
    assert not any(line.endswith(".") for line in str(error).splitlines())


@settings(deadline=None)
@given(written(), sizes)
def test_product_is_the_batch_and_resolving_again_changes_nothing(config: dict[str, Any], size: int) -> None:
    before = copy.deepcopy(config)
    try:
        run = resolve(config, world_size=size, target="0.19.8")
    except ResolveError as error:
        well_worded(error)
        return
    finally:
        assert config == before
    batch, micro, steps = run.triplet
    assert batch == micro * steps * run.data_parallel_size
    assert all(type(value) is int and value > 0 for value in run.triplet)
    assert all(run.config[key] == value for key, value in config.items())
    assert run.config == {**config, **dict(zip(KEYS, run.triplet, strict=True))}
    again = resolve(run.config, world_size=size, target="0.19.8")
    assert (again.triplet, again.config, again.messages) == (run.triplet, run.config, ())


@settings(deadline=None)
@given(written(), sizes)
def test_possible_exactly_where_check_rejects_nothing(config: dict[str, Any], size: int) -> None:
    report = dsconfig.check(config, target="0.19.8", world_size=size)
    error = refused(config, size)
    assert (error is None) == report.ok
    if error is not None:
        assert error.diagnostics == tuple(found for found in report if found.severity == "error")


@settings(deadline=None)
@given(st.floats(2.0**53, 1e24), st.sampled_from((None, 2.0, 3.0, 7, 1e9)), sizes)
def test_beyond_exact_integers_floats_decide(batch: float, micro: float | None, size: int) -> None:
    config = {TRAIN: batch} if micro is None else {TRAIN: batch, MICRO: micro}
    report = dsconfig.check(config, target="0.19.8", world_size=size)
    rejected = any(found.effect == "rejected" for found in report)
    assert (refused(config, size) is not None) == rejected


@settings(deadline=None)
@given(st.integers(1, 500), small, sizes)
def test_hinted_batch_sizes_work(batch: int, micro: int, size: int) -> None:
    try:
        resolve({TRAIN: batch, MICRO: micro}, world_size=size, target="0.19.8")
    except ResolveError as error:
        near_ones = error.hints[0].partition("for example ")[2].partition(",")[0]
        for near in near_ones.split(" or "):
            assert resolve(
                {TRAIN: int(near), MICRO: micro}, world_size=size, target="0.19.8"
            ).train_batch_size == int(near)


def test_overdetermined_says_which_two_to_keep() -> None:
    with pytest.raises(ResolveError) as caught:
        resolve({TRAIN: 320, MICRO: 4, STEPS: 4}, world_size=8, target="0.19.8")
    assert caught.value.reason == (
        "`train_batch_size` 320 ≠ 4 × 4 × 8 = 128 (micro batch × accumulation steps × world size)"
    )
    (hint,) = caught.value.hints
    assert hint == (
        f"remove `{TRAIN}` to train with a batch size of 128, set `{STEPS}` to 10, "
        f"set `{MICRO}` to 10, or use 20 GPUs"
    )


def test_indivisible_names_near_batches_and_sizes() -> None:
    with pytest.raises(ResolveError) as caught:
        resolve({TRAIN: 96}, world_size=7, target="0.19.8")
    assert caught.value.reason == "`train_batch_size` 96 is not divisible by 7 (world size): 13 × 7 = 91"
    (hint,) = caught.value.hints
    assert hint.startswith("set `train_batch_size` to a multiple of 7, for example 91 or 98, or run on 1, 2")
    assert hint.endswith("on 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48 or 96 GPUs")


@pytest.mark.parametrize(
    ("config", "code", "said"),
    [
        ({}, "DSC201", "neither `train_batch_size` nor"),
        (
            {TRAIN: "auto"},
            "DSC206",
            '`train_batch_size` is a string, `"auto"`, but DeepSpeed expects a number',
        ),
        ({TRAIN: 8, STEPS: 0}, "DSC205", "`gradient_accumulation_steps` is `0`, but DeepSpeed divides"),
        ({TRAIN: -8}, "DSC204", "`train_batch_size` is `-8`, but must be positive"),
        ({MICRO: []}, "DSC206", "is a list"),
        ({TRAIN: 1}, "DSC203", "`train_batch_size` 1 is not divisible by 8 (world size)"),
        ({TRAIN: 9, MICRO: 1, STEPS: 1}, "DSC202", "`train_batch_size` 9 ≠ 1 × 1 × 8 = 8"),
    ],
)
def test_impossible(config: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(ResolveError) as caught:
        resolve(config, world_size=8, target="0.19.8", consumer="deepspeed")
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert said in found.message
    assert str(caught.value) == f"{found.message}\n  {found.help}"


odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.text(max_size=3), st.lists(st.just(1))
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), odd), sizes, st.sampled_from(("deepspeed", "lightning")))
def test_whatever_is_written_check_finds_why_it_fails(
    config: dict[str, Any], size: int, consumer: str
) -> None:
    error = refused(config, size, consumer)
    if error is not None:
        well_worded(error)
        set_by_lightning = consumer == "lightning" and STEPS in config
        assert {found.code[:5] for found in error.diagnostics} == {"DSC80" if set_by_lightning else "DSC20"}


def test_world_size_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    run = resolve({MICRO: 2}, target="0.19.8")
    assert run.train_batch_size == 8
    assert [message.kind for message in run.messages] == ["environment"]
    monkeypatch.setenv("WORLD_SIZE", "four")
    with pytest.raises(ValueError, match="WORLD_SIZE is 'four': expected a positive integer"):
        resolve({MICRO: 2}, target="0.19.8")
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(ValueError, match="no world size"):
        resolve({MICRO: 2}, target="0.19.8")


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "8"])
def test_bad_world_size(size: Any) -> None:
    with pytest.raises(ValueError, match="expected a positive integer"):
        resolve({MICRO: 2}, world_size=size, target="0.19.8")


def test_values_set_first() -> None:
    source = {MICRO: 2, "zero_optimization": {"stage": 1}}
    run = resolve(
        source,
        world_size=4,
        target="0.19.8",
        set={MICRO: 8, "zero_optimization.stage": 3, "fp16.enabled": True},
    )
    assert run.train_batch_size == 32
    assert run.config["zero_optimization"] == {"stage": 3}
    assert run.config["fp16"] == {"enabled": True}
    assert source == {MICRO: 2, "zero_optimization": {"stage": 1}}
    with pytest.raises(ValueError, match="cannot be set: `train_micro_batch_size_per_gpu` is not an object"):
        resolve(source, world_size=4, target="0.19.8", set={f"{MICRO}.x": 1})
    with pytest.raises(ValueError, match="is not a key"):
        resolve(source, world_size=4, target="0.19.8", set={"a..b": 1})


def test_reads_as_the_release_does(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text("{train_batch_size: 8 // Hjson\n}")
    assert resolve(path, world_size=8, target="0.19.8").triplet == (8, 1, 1)
    with pytest.raises(ResolveError, match="cannot be read") as caught:
        resolve(path, world_size=8, target="0.6.7")
    assert caught.value.diagnostics[0].location is not None
    with pytest.raises(ResolveError, match="cannot be read"):
        resolve("[1]\n", world_size=8, target="0.19.8")


def test_newest_of_a_range_is_resolved_for() -> None:
    run = resolve({MICRO: 1}, world_size=1, target=">=0.14,<0.15")
    assert run.release == "0.14.5"
    assert run.messages[0].text == "resolved for 0.14.5, the newest release of >=0.14,<0.15"


def test_resolved_config_can_be_checked() -> None:
    assert resolve({MICRO: 2}, world_size=8, target="0.19.8").check().ok
    assert [
        found.dotted for found in resolve({MICRO: 2, "typo": 1}, world_size=8, target="0.19.8").check()
    ] == ["typo"]
