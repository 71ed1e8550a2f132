"""Presets are clean wherever they say that they are, and differ in what they come to."""

from __future__ import annotations

import json

import pytest

import dsconfig
from dsconfig.api import presets
from dsconfig.core.releases import LATEST, RELEASES
from dsconfig.job.consumers import CONSUMERS, INFERENCE

ARGUMENTS = {"mixed_precision": "bf16", "per_device_train_batch_size": 4}
BETWEEN_RELEASES = "DSC142"
"""Speaks of a default that changes inside a range; a preset is for one release at a time."""
KNOWN_CRASH = "DSC880"
"""Speaks of a defect of a release, from which only another release saves: a preset still suits its neighbors."""


@pytest.mark.parametrize("name", presets.PRESETS)
def test_it_is_clean_in_every_release_for_every_reader(name: str) -> None:
    preset = presets.PRESETS[name]
    for consumer in preset.consumers:
        texts: dict[bytes, list[str]] = {}
        for release in (each for each in RELEASES if preset.is_suitable(each, consumer)):
            texts.setdefault(presets.text(name, release, consumer).encode(), []).append(release)
        for text, releases in texts.items():
            span = f">={releases[0]},<={releases[-1]}"
            found = dsconfig.check(text, target=span, world_size=8, consumer=consumer)
            told = [
                (d.code, d.dotted, d.message) for d in found if d.code not in (BETWEEN_RELEASES, KNOWN_CRASH)
            ]
            assert told == [], (consumer, span)


def test_no_two_come_to_the_same() -> None:
    found = {}
    for name, preset in presets.PRESETS.items():
        reader = preset.consumers[0]
        release = preset.releases[-1]
        run = dsconfig.resolve(
            presets.config(name, release),
            world_size=8,
            target=release,
            consumer=reader,
            training_args={"bf16": True, "max_steps": 100} if reader == "transformers" else ARGUMENTS,
            model={"hidden_size": 64},
        )
        found[name] = json.dumps(run.config, sort_keys=True)
    assert len(set(found.values())) == len(found)


def test_remarks_are_apart() -> None:
    plain = presets.config("zero3", LATEST)
    commented = json.loads(presets.text("zero3", LATEST))
    assert {key: value for key, value in commented.items() if not key.startswith("//")} == plain
    assert all(isinstance(value, str) for key, value in commented.items() if key.startswith("//"))


def test_what_a_consumer_knows_is_left_to_it() -> None:
    found = presets.config("zero3", LATEST, "transformers")
    assert found["train_micro_batch_size_per_gpu"] == "auto"
    assert found["zero_optimization"]["stage"] == 3
    assert "gradient_accumulation_steps" not in presets.config("zero3", LATEST, "lightning")


def test_a_config_is_the_callers_own() -> None:
    presets.config("zero3", LATEST)["optimizer"]["params"]["lr"] = 1
    assert presets.config("zero3", LATEST)["optimizer"]["params"]["lr"] == 1e-4


@pytest.mark.parametrize(
    ("name", "target", "consumer", "message"),
    [
        ("zero4", LATEST, None, "unknown preset `zero4`: did you mean `zero"),
        ("nothing-like-it", LATEST, None, "expected one of zero1, zero2"),
        ("elastic", "0.19.8", "deepspeed", "from 0.9.0 to 0.19.7, not for 0.19.8"),
        ("accelerate", LATEST, "lightning", "for accelerate, not for lightning"),
        ("zero1", LATEST, "megatron", "unknown consumer `megatron`"),
        ("zero1", "0.3.1", None, "from 0.9.0 on, not for 0.3.1"),
    ],
)
def test_wrong_use_is_one_line(name: str, target: str, consumer: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        presets.config(name, target, consumer)
    assert "\n" not in str(raised.value)


def test_every_consumer_has_one() -> None:
    assert {consumer for preset in presets.PRESETS.values() for consumer in preset.consumers} == {
        each for each in CONSUMERS if each != INFERENCE
    }
    assert dsconfig.presets is presets
