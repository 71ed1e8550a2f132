"""`dsconfig memory` with ZenFlow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

pytestmark = pytest.mark.usefixtures("ds_json")
ZENFLOW: dict[str, Any] = {"topk_ratio": 0.1, "update_interval": 4}
OFFLOADED: dict[str, Any] = {"offload_optimizer": {"device": "cpu", "pin_memory": False}}
CONFIG = config_of(2, **OFFLOADED, zenflow=ZENFLOW)
RUN = ("memory", "ds.json", "--model", "llama-2-7b", "--world-size", "8", "--target", "0.19.8")
KEY = "zero_optimization.zenflow"
THIRD, PARAM = ["zero_optimization.stage=3"], "zero_optimization.offload_param"
STATES = "ZenFlow selected states"


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    return estimate(run, *RUN, *argv)


def refused(run: Runs, *argv: str) -> str:
    result = run(*RUN, *argv)
    assert (result.code > 0, result.out) == (True, "")
    return result.err


def at_rest(result: dict[str, Any], side: str) -> dict[str, int]:
    return {name: phases.get("at_rest", 0) for name, phases in phases_of(result, side).items()}


def test_each_rank_has_states_of_a_tenth_of_all_matrices_and_of_all_vectors(run: Runs) -> None:
    result = estimated(run)
    states = at_rest(result, "rank")[STATES]
    assert states / 2 / 2 == pytest.approx(0.1 * result["trained"], rel=0.01)
    less = estimated(run, "--set", f"{KEY}.topk_ratio=0.01")
    assert at_rest(less, "rank")[STATES] < states / 9
    term = next(term for term in result["rank"]["terms"] if term["name"] == STATES)
    assert term["key"] == f"{KEY}.topk_ratio"


def test_at_stage_3_a_rank_has_those_of_its_shards(run: Runs) -> None:
    whole = at_rest(estimated(run), "rank")[STATES]
    part = at_rest(estimated(run, "--set", "zero_optimization.stage=3"), "rank")[STATES]
    assert part == pytest.approx(whole / 8, rel=0.05)


def test_the_process_has_states_and_gradients_twice_and_stale_weights(run: Runs) -> None:
    plain, apart = estimated(run), estimated(run, "--set", f"{KEY}.overlap_step=true")
    before, after = at_rest(plain, "host"), at_rest(apart, "host")
    masters = after["master weights"]
    assert after["optimizer states"] == 2 * before["optimizer states"] == 4 * masters
    assert after["ZenFlow stale weights"] == masters
    assert apart["host"]["at_rest"] - plain["host"]["at_rest"] == 4 * masters
    assert apart["rank"]["at_rest"] == plain["rank"]["at_rest"]


def test_its_states_can_lie_on_the_host(run: Runs) -> None:
    both = ("--set", f"{KEY}.offload=true", "--set", "zero_optimization.overlap_comm=true")
    plain, moved = estimated(run), estimated(run, *both)
    assert STATES not in {name for name, count in at_rest(moved, "rank").items() if count}
    assert at_rest(moved, "host")[STATES] == 8 * at_rest(plain, "rank")[STATES]


def test_update_interval_counts_the_micro_batches_of_a_step(run: Runs) -> None:
    few = estimated(run, "--set", f"{KEY}.update_interval=1", "--set", "gradient_accumulation_steps=1")
    many = estimated(run, "--set", f"{KEY}.update_interval=8", "--set", "gradient_accumulation_steps=1")

    def times(estimate: dict[str, Any]) -> int:
        calls = estimate["communication"]["collectives"]
        return sum(call["elements"] for call in calls if call["name"] == "all_reduce")

    assert times(many) == 8 * times(few)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ([f"{KEY}={{}}"], "gradient accumulation to 0"),
        ([*THIRD, "zero_optimization.offload_optimizer.device=none"], "needs an offloaded optimizer"),
        (["zero_optimization.reduce_scatter=false"], "ZenFlow requires it to reduce gradients"),
        (["data_types.grad_accum_dtype=fp32"], "is fp32"),
        (["sequence_parallel_size=2"], "with `sequence_parallel_size`"),
        ([*THIRD, f"{PARAM}.device=nvme", f"{PARAM}.nvme_path=/n"], "offload_param.device"),
        ([*THIRD, "zero_optimization.reduce_bucket_size=1000000"], "largest parameter"),
        ([*THIRD, "zero_optimization.contiguous_gradients=false"], "cannot be flattened"),
        ([*THIRD, "zero_optimization.zero_quantized_weights=true"], "zero_quantized_weights"),
    ],
)
def test_where_deepspeed_stops_it_says_why(run: Runs, changes: list[str], messages: str) -> None:
    assert messages in refused(run, *(part for change in changes for part in ("--set", change)))


def test_an_empty_section_switches_it_on_and_null_does_not(run: Runs) -> None:
    result = estimated(run, "--set", f"{KEY}=null")
    assert STATES not in at_rest(result, "rank")


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (["--zero-init"], "zero.Init"),
        (["--checkpointing"], "recomputed segment"),
        (["--lora", "r=8"], "frozen layers"),
        (["--world-size", "3"], "evenly"),
        (["--model", "mixtral-8x7b"], "transposes matrices"),
    ],
)
def test_at_stage_3_what_its_hooks_do_not_turn_is_refused(
    run: Runs, options: list[str], messages: str
) -> None:
    assert messages in refused(run, "--set", "zero_optimization.stage=3", *options)


@pytest.mark.parametrize(
    ("release", "stage", "message"), [("0.18.0", 3, "before 0.18.1"), ("0.19.6", 2, "before 0.19.7")]
)
def test_earlier_releases_are_refused(run: Runs, release: str, stage: int, message: str) -> None:
    more = ("--set", f"zero_optimization.stage={stage}", "--set", "zero_allow_untested_optimizer=true")
    result = run(*RUN[:-1], release, *more)
    assert result.code > 0
    assert message in result.err


def test_a_model_that_is_scrambled_as_it_is_loaded_is_told(run: Runs) -> None:
    texts = [remark["text"] for remark in estimated(run)["findings"]]
    assert [text for text in texts if "the trained model is not the loaded one" in text]
    third = estimated(run, "--set", "zero_optimization.stage=3")["findings"]
    assert not [remark for remark in third if remark["key"] == KEY]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_fit_leaves_no_combination_that_deepspeed_stops_at(run: Runs, stage: int) -> None:
    more = ("--fit", "30GiB", "--output-format", "json", "--set", f"zero_optimization.stage={stage}")
    result = json.loads(run(*RUN, *more).out)
    changes = [change["told"] for change in result["fit"]["changes"]]
    assert result["fit"]["fits"], changes
