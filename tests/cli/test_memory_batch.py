"""`--micro-batch` of `dsconfig memory`, where the config's own batch is another."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG = {**config_of(2), "train_batch_size": 32, "gradient_accumulation_steps": 1}
CONFIG["train_micro_batch_size_per_gpu"] = 4
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8", "--target", "0.19.8")


@pytest.mark.parametrize(
    ("micro", "message", "same"),
    [
        (2, "`gradient_accumulation_steps` is 2 with this micro batch, and `train_batch_size` stays 32", 32),
        (3, "`train_batch_size` is 24 with this micro batch", 24),
        (4, None, 32),
        (8, "`train_batch_size` is 64 with this micro batch", 64),
    ],
)
def test_the_rest_of_the_batch_follows_what_is_asked_for(
    run: Runs, micro: int, message: str | None, same: int
) -> None:
    result = estimate(run, *RUN, "--micro-batch", str(micro))
    assert result["assumptions"][0].startswith(f"the micro batch is {micro} × 2048 tokens")
    assert [text for text in result["assumptions"] if "with this micro batch" in text] == [message] * bool(
        message
    )
    batch = {"micro_batch_size_per_gpu": micro, "batch_size": same}
    options = [f"--set=train_{key}={value}" for key, value in batch.items()]
    steps = f"--set=gradient_accumulation_steps={same // 8 // micro}"
    spelt_out = estimate(run, *RUN, *options, steps)
    assert (result["rank"], result["communication"]) == (spelt_out["rank"], spelt_out["communication"])


@pytest.mark.parametrize("text", ["gradient_accumulation_steps=2", "train_batch_size=64"])
def test_what_is_asked_for_beside_it_stays(run: Runs, text: str) -> None:
    code, out, err = run(*RUN, "--micro-batch", "3", "--set", text)
    assert (code, out) == (1, "")
    assert "(micro batch × accumulation steps × world size)" in err


def test_where_it_is_not_the_batch_that_is_wrong_the_config_is_told_of_as_it_is(run: Runs) -> None:
    code, out, err = run(*RUN, "--micro-batch", "3", "--set", "zero_optimization.stage=7")
    assert (code, out) == (1, "")
    assert "`stage` is `7`" in err
    assert "batch" not in err
