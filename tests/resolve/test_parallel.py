"""Which ranks get samples of their own, by release and by the way the script brings its parallelism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsconfig import ResolveError, resolve

MICRO: dict[str, Any] = {"train_micro_batch_size_per_gpu": 2}
degree = st.integers(1, 4)


@settings(deadline=None)
@given(degree, degree, degree, st.integers(1, 64))
def test_ranks_are_shared_out_whole_or_not_at_all(tp: int, pp: int, sp: int, ranks: int) -> None:
    if ranks % (tp * pp * sp):
        with pytest.raises(ResolveError, match="cannot be divided into groups of"):
            resolve(MICRO, world_size=ranks, target="0.19.8", tp=tp, pp=pp, sp=sp)
        return
    run = resolve(MICRO, world_size=ranks, target="0.19.8", tp=tp, pp=pp, sp=sp)
    assert run.data_parallel_size * tp * pp * sp == ranks
    assert run.train_batch_size == 2 * run.data_parallel_size


def test_ranks_left_over_are_explained() -> None:
    with pytest.raises(ResolveError) as caught:
        resolve(MICRO, world_size=10, target="0.19.8", tp=2, pp=2)
    assert caught.value.reason == (
        "10 ranks cannot be divided into groups of 4 (2 tensor × 2 pipeline parallel): 10 = 2 × 4 + 2"
    )
    assert caught.value.hints == ("nearest world sizes: 8 or 12",)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5])
def test_bad_degree(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"tp .*: expected a positive integer"):
        resolve(MICRO, world_size=8, target="0.19.8", tp=bad)


def test_experts_must_fill_the_data_parallel_ranks() -> None:
    assert resolve(MICRO, world_size=16, target="0.19.8", tp=2, ep=4).data_parallel_size == 8
    with pytest.raises(
        ResolveError, match=r"8 data-parallel ranks cannot be divided into groups of 3 \(ep\): 8 = 2 × 3"
    ):
        resolve(MICRO, world_size=16, target="0.19.8", tp=2, ep=3)


@pytest.mark.parametrize(("release", "size"), [("0.16.9", 8), ("0.17.6", 4), ("0.19.8", 4)])
def test_sequence_parallel_key_of_a_dict_divides_from_0_17(release: str, size: int) -> None:
    run = resolve({**MICRO, "sequence_parallel_size": 2}, world_size=8, target=release)
    assert run.data_parallel_size == size
    assert run.config["sequence_parallel_size"] == 2


def test_sequence_parallel_key_of_a_file_divides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text('{"train_micro_batch_size_per_gpu": 2, "sequence_parallel_size": 2}')
    run = resolve(path, world_size=8, target="0.19.8")
    assert run.data_parallel_size == 8
    assert "sequence_parallel_size" not in run.config  # as a dict it would divide
    assert [message.kind for message in run.messages] == ["removed"]
    asked = resolve(path, world_size=8, target="0.19.8", sp=2)
    assert asked.data_parallel_size == 4
    assert asked.config["sequence_parallel_size"] == 2


def test_sequence_degree_is_written_for_releases_that_read_it() -> None:
    assert resolve(MICRO, world_size=8, target="0.19.8", sp=4).config["sequence_parallel_size"] == 4
    assert "sequence_parallel_size" not in resolve(MICRO, world_size=8, target="0.16.9", sp=4).config
    assert "sequence_parallel_size" not in resolve(MICRO, world_size=8, target="0.19.8", sp=2, tp=2).config
    with pytest.raises(ResolveError, match="`sequence_parallel_size` is 2, but sp 4 was asked for"):
        resolve({**MICRO, "sequence_parallel_size": 2}, world_size=8, target="0.19.8", sp=4)


def test_fraction_of_a_rank_is_as_deepspeed_has_it() -> None:
    run = resolve({"train_batch_size": 4, "sequence_parallel_size": 2}, world_size=1, target="0.19.8")
    assert run.triplet == (4, 8, 1)
    assert run.data_parallel_size == 0.5
    assert "does not divide 1 ranks: the data-parallel size is 0.5" in run.messages[0].text


@pytest.mark.parametrize("odd", [0, "2", None])
def test_sequence_parallel_size_that_nothing_divides_by(odd: Any) -> None:
    with pytest.raises(ResolveError, match="DeepSpeed divides the world size by it") as caught:
        resolve({**MICRO, "sequence_parallel_size": odd}, world_size=8, target="0.19.8")
    assert [found.code for found in caught.value.diagnostics] == ["DSC207"]


def test_findings_speak_of_the_data_parallel_ranks() -> None:
    batch = {"train_batch_size": 10, "train_micro_batch_size_per_gpu": 2}
    for config, degrees in ((batch, {"tp": 2}), ({**batch, "sequence_parallel_size": 2}, {})):
        with pytest.raises(
            ResolveError, match=r"10 is not divisible by 2 \(.*\) × 4 \(world size\) = 8"
        ) as caught:
            resolve(config, world_size=8, target="0.19.8", **degrees)
        assert caught.value.hints[-1] == "4 of the 8 ranks are data-parallel: that is the world size here"


def test_autotp_counts_all_ranks() -> None:
    config = {**MICRO, "tensor_parallel": {"autotp_size": 2}}
    for tp in (1, 2):
        run = resolve(config, world_size=8, target="0.19.8", tp=tp)
        assert run.triplet == (16, 2, 1)
        assert "a step takes `train_batch_size` / 2 different samples" in run.messages[0].text
    assert (
        resolve(config, world_size=8, target="0.16.2", tp=2).data_parallel_size == 4
    )  # AutoTP came with 0.16.4
    with pytest.raises(ResolveError, match=r"`tensor_parallel.autotp_size` is 2, but tp 4 was asked for"):
        resolve(config, world_size=8, target="0.19.8", tp=4)
