"""`dsconfig memory` where ranks share sequences (Ulysses) or experts (AutoEP), and what of it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG = config_of(3)
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "16", "--sequence-length", "65536")


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    return estimate(run, *RUN, "--target", "0.19.8", *argv)


def held(result: dict[str, Any], name: str, phase: str) -> int:
    return phases_of(result)[name][phase]


def test_a_rank_has_a_part_of_the_tokens_and_the_same_part_of_the_weights(run: Runs) -> None:
    alone, shared = estimated(run), estimated(run, "--sp", "8")
    for name in ("parameters", "master weights", "optimizer states"):
        assert held(shared, name, "at_rest") == held(alone, name, "at_rest")
    logits = "logits and loss"
    assert held(alone, logits, "forward") == pytest.approx(8 * held(shared, logits, "forward"), rel=1e-3)
    assert held(shared, "activations", "forward") < held(alone, "activations", "forward") / 7


def test_each_layer_exchanges_heads_four_times_there_and_back(run: Runs) -> None:
    result = estimated(run, "--sp", "8", "--checkpointing")
    calls = {
        (call["phase"], call["name"]): call["calls"]
        for call in result["communication"]["collectives"]
        if call["name"] == "all_to_all"
    }
    assert calls == {("forward", "all_to_all"): 32 * 4, ("backward", "all_to_all"): 2 * 32 * 4}
    assert {
        call["ranks"] for call in result["communication"]["collectives"] if call["name"] == "all_to_all"
    } == {8}


def test_the_key_of_the_config_says_it_too_and_divides_the_batch(run: Runs, here: Path) -> None:
    by_option = estimated(run, "--sp", "4")
    (here / "ds.json").write_text(json.dumps({**CONFIG, "sequence_parallel_size": 4, "train_batch_size": 4}))
    by_key = estimated(run)
    assert by_key["rank"] == by_option["rank"]
    other_result = dsconfig.memory(
        here / "ds.json", model="llama-3-8b", world_size=16, target="0.19.8", sequence_length=65536, sp=4
    ).to_dict()
    assert other_result["rank"] == by_key["rank"]


def test_gradients_are_sent_in_fp32_unless_their_own_key_says_another_type(run: Runs) -> None:
    wide = estimated(run, "--sp", "4")
    narrow = estimated(run, "--sp", "4", "--set", "seq_parallel_communication_data_type=bf16")
    assert held(wide, "reduce bucket", "at_rest") == 2 * held(narrow, "reduce bucket", "at_rest")
    assert [diagnostic["key"] for diagnostic in wide["findings"]] == ["seq_parallel_communication_data_type"]
    assert narrow["findings"] == []


def test_the_longest_sequence_is_one_that_the_ranks_can_share(run: Runs) -> None:
    code, out, _ = run(
        *RUN, "--sp", "8", "--checkpointing", "--gpu", "80GiB", "--max", "sequence", "--output-format", "json"
    )
    assert code == 0
    result = json.loads(out)["max"]
    assert result["value"] % 8 == 0
    assert result["bound"] <= 80 * 2**30


def test_changes_that_fit_keep_the_batch_of_ranks_that_share(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(
        json.dumps({**CONFIG, "train_batch_size": 2, "zero_optimization": {"stage": 0}})
    )
    code, out, _ = run(*RUN, "--sp", "8", "--fit", "40GiB", "--output-format", "json")
    result = json.loads(out)["fit"]
    assert code == 0
    assert result["changes"]


@pytest.mark.parametrize("more", [{"preset_model": "llama"}, {"partition_config": {"layer_specs": [{}]}}])
def test_keys_that_decide_what_is_shared_are_refused(run: Runs, here: Path, more: dict[str, Any]) -> None:
    (here / "ds.json").write_text(json.dumps({**config_of(1), "tensor_parallel": {"autotp_size": 4} | more}))
    code, _, err = run(*RUN, "--target", "0.19.8")
    assert code == 2
    assert "it decides which layers are sharded" in err


@pytest.mark.parametrize(("release", "code"), [("0.18.5", 0), ("0.18.6", 2), ("0.19.8", 2)])
def test_states_of_layers_that_are_shared_later(run: Runs, here: Path, release: str, code: int) -> None:
    """Adagrad has states at once; in fp32 at stage 0 the script's own steps, on parts from 0.18.6 on."""
    config = {"train_micro_batch_size_per_gpu": 1, "tensor_parallel": {"autotp_size": 2}}
    (here / "ds.json").write_text(json.dumps(config))
    ended, _, err = run(*RUN, "--optimizer", "adagrad", "--target", release)
    assert ended == code
    assert ("its states belong to whole layers" in err) == bool(code)
