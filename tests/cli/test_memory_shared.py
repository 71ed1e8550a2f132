"""`dsconfig memory` where ranks share sequences (Ulysses) or experts (AutoEP), and what of it is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.cli.conftest import Runs

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {"stage": 3},
}
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "16", "--sequence-length", "65536")


@pytest.fixture(autouse=True)
def files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (here / "ds.json").write_text(json.dumps(CONFIG))


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    code, out, err = run(*RUN, "--target", "0.19.8", "--output-format", "json", *argv)
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def held(found: dict[str, Any], name: str, phase: str) -> int:
    terms = {term["name"]: term["phases"] for term in found["rank"]["terms"]}
    count: int = terms[name][phase]
    return count


def test_a_rank_has_a_part_of_the_tokens_and_the_same_part_of_the_weights(run: Runs) -> None:
    alone, shared = estimated(run), estimated(run, "--sp", "8")
    for name in ("parameters", "master weights", "optimizer states"):
        assert held(shared, name, "at_rest") == held(alone, name, "at_rest")
    logits = "logits and loss"
    assert held(alone, logits, "forward") == pytest.approx(8 * held(shared, logits, "forward"), rel=1e-3)
    assert held(shared, "activations", "forward") < held(alone, "activations", "forward") / 7


def test_each_layer_exchanges_heads_four_times_there_and_back(run: Runs) -> None:
    found = estimated(run, "--sp", "8", "--checkpointing")
    calls = {
        (call["phase"], call["name"]): call["calls"]
        for call in found["communication"]["collectives"]
        if call["name"] == "all_to_all"
    }
    assert calls == {("forward", "all_to_all"): 32 * 4, ("backward", "all_to_all"): 2 * 32 * 4}
    assert {
        call["ranks"] for call in found["communication"]["collectives"] if call["name"] == "all_to_all"
    } == {8}


def test_the_key_of_the_config_says_it_too_and_divides_the_batch(run: Runs, here: Path) -> None:
    by_option = estimated(run, "--sp", "4")
    (here / "ds.json").write_text(json.dumps({**CONFIG, "sequence_parallel_size": 4, "train_batch_size": 4}))
    by_key = estimated(run)
    assert by_key["rank"] == by_option["rank"]
    said = dsconfig.memory(
        here / "ds.json", "llama-3-8b", 16, "0.19.8", sequence_length=65536, sp=4
    ).to_dict()
    assert said["rank"] == by_key["rank"]


def test_gradients_are_sent_in_fp32_unless_their_own_key_says_another_type(run: Runs) -> None:
    wide = estimated(run, "--sp", "4")
    narrow = estimated(run, "--sp", "4", "--set", "seq_parallel_communication_data_type=bf16")
    assert held(wide, "reduce bucket", "at_rest") == 2 * held(narrow, "reduce bucket", "at_rest")
    assert [found["key"] for found in wide["findings"]] == ["seq_parallel_communication_data_type"]
    assert narrow["findings"] == []


def test_the_longest_sequence_is_one_that_the_ranks_can_share(run: Runs) -> None:
    code, out, _ = run(
        *RUN, "--sp", "8", "--checkpointing", "--gpu", "80GiB", "--max", "sequence", "--output-format", "json"
    )
    assert code == 0
    found = json.loads(out)["max"]
    assert found["value"] % 8 == 0
    assert found["bound"] <= (80 - 4.5) * 2**30 < found["next_bound"]


def test_changes_that_fit_keep_the_batch_of_ranks_that_share(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(
        json.dumps({**CONFIG, "train_batch_size": 2, "zero_optimization": {"stage": 0}})
    )
    code, out, _ = run(*RUN, "--sp", "8", "--fit", "40GiB", "--output-format", "json")
    found = json.loads(out)["fit"]
    assert code == 0
    assert found["changes"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--target", "0.16.9"), "is not modelled before 0.17.0: `UlyssesSPAttentionHF` came with it"),
        (("--attention", "eager"), "`UlyssesSPAttentionHF` refuses `eager` attention"),
        (
            ("--model", "gpt2", "--sequence-length", "1024"),
            "`UlyssesSPAttentionHF` reads `num_key_value_heads`",
        ),
        (("--sequence-length", "1001"), "1001 tokens cannot be shared by 4 ranks; give a multiple of 4"),
        (("--world-size", "64", "--sp", "64"), "refuses 32 heads for 64 ranks"),
        (("--set", "tensor_parallel.autotp_size=2", "--set", "zero_optimization.stage=2"), "together with"),
        (("--sp", "0"), "expected a whole number above 0"),
    ],
)
def test_what_ulysses_cannot_do_is_refused_by_name(run: Runs, argv: tuple[str, ...], said: str) -> None:
    target = () if "--target" in argv else ("--target", "0.19.8")
    code, out, err = run(*RUN, "--sp", "4", *target, *argv)
    assert (code, out) == (2, "")
    assert said in err


def test_ranks_that_do_not_divide_are_refused_as_everywhere_else(run: Runs) -> None:
    code, out, err = run(*RUN, "--sp", "3", "--target", "0.19.8")
    assert (code, out) == (1, "")
    assert "16 ranks cannot be shared out in groups of 3 (3 sequence parallel)" in err


EXPERTS = ("--model", "mixtral-8x7b", "--sequence-length", "4096", "--set", "zero_optimization.stage=2")


def shared(run: Runs, ranks: int, *argv: str) -> dict[str, Any]:
    section = json.dumps({"enabled": True, "autoep_size": ranks})
    return estimated(run, *EXPERTS, "--set", f"expert_parallel={section}", *argv)


def test_a_rank_has_its_part_of_the_experts_and_a_part_of_all_states(run: Runs) -> None:
    alone, eighth = shared(run, 1), shared(run, 8)
    assert alone["parameters"] == eighth["parameters"]
    experts = 32 * 8 * 3 * 4096 * 14336
    rest = alone["parameters"] - experts
    assert held(alone, "parameters", "at_rest") == pytest.approx(2 * (rest + experts), rel=1e-6)
    assert held(eighth, "parameters", "at_rest") == pytest.approx(2 * (rest + experts / 8), rel=1e-6)
    for name in ("master weights", "optimizer states"):
        assert held(eighth, name, "at_rest") == pytest.approx(held(alone, name, "at_rest"), rel=1e-6)


def test_tokens_go_to_experts_and_back(run: Runs) -> None:
    calls = shared(run, 8)["communication"]["collectives"]
    tokens = [call for call in calls if call["name"] == "all_to_all"]
    assert [(call["phase"], call["calls"], call["ranks"]) for call in tokens] == [
        ("forward", 64, 8),
        ("backward", 64, 8),
    ]
    assert {call["elements"] for call in tokens} == {64 * 2 * 4096 * 4096}
    assert not any(call["name"] == "all_to_all" for call in shared(run, 1)["communication"]["collectives"])


def test_a_rank_that_gets_more_tokens_than_the_mean_holds_more(run: Runs) -> None:
    mean, more, most = (
        held(shared(run, 8, *argv), "activations", "forward")
        for argv in ((), ("--imbalance", "1.5"), ("--imbalance", "8"))
    )
    assert mean < more < most
    assert held(shared(run, 8, "--imbalance", "100"), "activations", "forward") == most
    assert most < 8 * mean


def test_what_autoep_cannot_save_is_told(run: Runs) -> None:
    key = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
    found = shared(run, 8, "--set", "zero_optimization.stage=3", "--set", f"{key}=true")
    assert key in {remark["key"] for remark in found["findings"]}
    assert "save" not in found["rank"]["peak"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--target", "0.19.6"), "`expert_parallel.enabled` is not modelled before 0.19.8"),
        (("--model", "llama-3-8b"), "needs a model with experts"),
        (("--set", "expert_parallel.combine_impl=legacy_bmm"), "`expert_parallel.combine_impl` 'legacy_bmm'"),
        (("--lora", "r=8,target=q_proj"), "with adapters is not modelled"),
        (("--sp", "2"), "with sequence parallelism is not modelled"),
        (("--set", "zero_optimization.round_robin_gradients=true"), "round_robin_gradients` is not modelled"),
        (("--imbalance", "0.5"), "expected a number of at least 1, got `0.5`"),
        (("--imbalance", "1e9"), "expected a number from 1 to 4096"),
    ],
)
def test_what_was_not_measured_of_experts_is_refused_by_name(
    run: Runs, argv: tuple[str, ...], said: str
) -> None:
    section = 'expert_parallel={"enabled": true, "autoep_size": 8}'
    target = () if "--target" in argv else ("--target", "0.19.8")
    code, out, err = run(*RUN, *EXPERTS, "--set", section, *target, *argv)
    assert (code, out) == (2, "")
    assert said in err
