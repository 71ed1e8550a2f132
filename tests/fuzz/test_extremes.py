"""Values beyond all sense, on a sample; many more by `python -m tests.fuzz.extremes`."""

from __future__ import annotations

from random import Random

import dsconfig
from dsconfig.core.releases import LATEST
from tests.fuzz.drafts import Draft, drafts
from tests.fuzz.extremes import extreme, raised

HUGE = 10**400


def test_values_beyond_all_sense_raise_nothing() -> None:
    spread = Random("a sample")
    for draft in drafts(60, seed=3):
        tried = extreme(draft, spread)
        assert not list(raised(tried)), tried


def test_each_number_beside_those_it_is_calculated_with() -> None:
    for config in (
        {"train_batch_size": HUGE, "tensor_parallel": {"autotp_size": 3}},
        {"train_batch_size": HUGE, "sequence_parallel_size": 3},
        {"train_batch_size": 8, "sequence_parallel_size": HUGE},
        {"train_batch_size": HUGE, "train_micro_batch_size_per_gpu": 3.5, "gradient_accumulation_steps": 3},
        {"train_batch_size": 12288, "train_micro_batch_size_per_gpu": 5e-324},
        {"train_batch_size": 8, "zero_optimization": {"stage": HUGE, "offload_param": {"device": "cpu"}}},
        {"train_batch_size": 8, "fp16": {"enabled": True, "loss_scale": HUGE, "hysteresis": 2}},
        {
            "train_batch_size": 8,
            "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": HUGE},
        },
    ):
        for release in ("0.5.8", "0.14.5", "0.17.6", LATEST):
            for size in (None, 7):
                assert not list(raised(Draft(config, release, "deepspeed", size))), config


def test_a_fix_leaves_a_config_that_can_be_told() -> None:
    text = '{"traiiiiiiiiiin_batch_size": 8, "compression_training": {"channel_pruning": {}}}'
    assert not dsconfig.check(dsconfig.fix(text, unsafe=True, target="0.19.8").text).why_not_config
