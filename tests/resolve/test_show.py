"""Effective values: each key once, with the place it comes from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dsconfig import ResolveError
from dsconfig.resolve.effective_values import EffectiveValues, effective_values_of
from dsconfig.resolve.values_replaced_by_deepspeed import EffectiveValue

TEXT = """{
  "train_batch_size": 64,
  "gradient_clipping": "auto",
  "typo": 1,
  "fp16": {"enabled": "auto", "loss_scale": "0", "odd": 2},
  "optimizer": {"type": "adamw", "params": {"lr": 1e-4}},
  "comet": {"enabled": false, "api_key": "S3CRET"},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}
}
"""


def by_key(shown: EffectiveValues) -> dict[str, EffectiveValue]:
    assert max(Counter(value.key for value in shown.values).values(), default=1) == 1
    return {value.key: value for value in shown.values}


def told(key: str, **options: Any) -> tuple[Any, str, str]:
    value = by_key(effective_values_of(TEXT, **{"target": "0.19.8", "consumer": "deepspeed", **options}))[key]
    return value.value, value.origin, value.note


def test_origins() -> None:
    assert told("train_batch_size") == (64, "written", "line 2")
    assert told("gradient_clipping") == ("auto", "written", "line 3, unresolved")
    assert told("typo") == (1, "ignored", "line 4, not read by 0.19.8")
    assert told("fp16.enabled") == (False, "dropped", "default of 0.19.8, `auto` of line 5 is dropped")
    assert told("fp16.loss_scale") == (0.0, "converted", "line 5, from '0'")
    assert told("fp16.odd") == (2, "refused", "line 5, unknown to 0.19.8")
    assert told("fp16.hysteresis") == (2, "default", "default of 0.19.8")
    assert told("optimizer.params.betas") == ([0.9, 0.999], "default", "default of 0.19.8")
    assert told("zero_optimization.reduce_bucket_size")[0] == 500_000_000


def test_batch_is_derived_where_the_world_size_is_known() -> None:
    assert told("train_micro_batch_size_per_gpu", world_size=8) == (8, "derived", "derived for 8 ranks")
    micro = by_key(effective_values_of(TEXT, target="0.19.8"))["train_micro_batch_size_per_gpu"]
    note = "64 / GPUs; the number of GPUs is not known: give --world-size"
    assert micro[1:] == (None, "derived", note)
    shown = effective_values_of(TEXT, 7, "0.19.8", "deepspeed")
    assert [message.text for message in shown.messages] == [
        "no batch at world size 7: `train_batch_size` 64 is not divisible by 7 (world size): 9 × 7 = 63"
    ]


def test_secrets_are_never_shown() -> None:
    assert told("comet.api_key") == ("***", "written", "line 7")
    assert "S3CRET" not in repr(effective_values_of(TEXT, 8, "0.19.8"))


def test_consumer_fills() -> None:
    text = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {}}'
    (open_,) = (
        value
        for value in effective_values_of(text, target="0.19.8", consumer="transformers").values
        if value.key == "train_micro_batch_size_per_gpu"
    )
    assert (open_.value, open_.note) == (
        "auto",
        "line 1, filled by transformers from per_device_train_batch_size",
    )
    values = by_key(
        effective_values_of(
            text, 4, "0.19.8", "transformers", training_args={"per_device_train_batch_size": 3}
        )
    )
    assert (values["train_micro_batch_size_per_gpu"].value, values["train_batch_size"].value) == (3, 12)
    assert values["train_micro_batch_size_per_gpu"].origin == "filled"
    assert values["train_batch_size"].origin == "derived"
    assert values["bf16.enabled"].note == "filled by transformers from mixed precision no"


def test_only_some_keys() -> None:
    shown = effective_values_of(TEXT, target="0.19.8", keys=["tensor_parallel", "fp16.loss_scale"])
    keys = {value.key for value in shown.values}
    assert "tensor_parallel.autotp_size" in keys
    assert {key for key in keys if not key.startswith("tensor_parallel.")} == {"fp16.loss_scale"}


def test_everything_is_more() -> None:
    some, every = (
        effective_values_of("{}", target="0.19.8"),
        effective_values_of("{}", target="0.19.8", every=True),
    )
    assert some.values == ()
    assert "zero_optimization.offload_optimizer.device" in by_key(every)
    assert by_key(every)["zero_optimization.stage"].value == 0


def test_defaults_are_the_release_s_own() -> None:
    for release, value in (("0.19.8", True), ("0.14.5", False)):
        shown = effective_values_of(
            "{}", target=release, keys=["zero_optimization.offload_optimizer.pin_memory"]
        )
        assert [found.value for found in shown.values] == [value]


@pytest.mark.parametrize(
    ("section", "word", "key", "known"),
    [
        ("optimizer", "adamw", "betas", True),
        ("optimizer", "AdamW", "betas", True),
        ("scheduler", "WarmupLR", "warmup_max_lr", True),
        ("scheduler", "warmuplr", "warmup_max_lr", False),
    ],
)
def test_params_are_those_of_the_type(section: str, word: str, key: str, known: bool) -> None:
    """Types of optimizers are compared in lower case, those of schedulers exactly: `warmuplr` crashes."""
    shown = effective_values_of({section: {"type": word, "params": {}}}, target="0.19.8")
    assert (f"{section}.params.{key}" in by_key(shown)) is known


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "ds.json"
    path.write_text("[1]")
    with pytest.raises(ResolveError, match="cannot be read"):
        effective_values_of(path, target="0.19.8")
