"""Schema and `check` find the same faults, on the cases that are data and on generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

import dsconfig
from dsconfig.core.releases import LATEST, NUMBERS
from dsconfig.document import read_bytes
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file
from dsconfig.launch.launch_file_formats import detect_launch_format
from tests.cases import cases
from tests.parity.generators.cases import generate
from tests.schema.agreement import TYPES, covered, expressible, faults

BEYOND = 2.0**63
"""Integral floats from here on are refused, which JSON Schema cannot say of an integer."""
RELEASES = ("0.9.5", "0.14.5", "0.16.9", "0.19.6", LATEST)


class Judged(NamedTuple):
    """What check and the schema say of one config."""

    label: str
    lost: list[str]
    """What the schema misses."""
    alone: list[str]
    """What only the schema refuses."""
    caught: int


def judge(label: str, config: Any, report: dsconfig.Report, release: str, consumer: str) -> Judged:
    places = faults(config, release, consumer)
    lost, caught = [], 0
    for found in expressible(report):
        if covered(found.path, places) or isinstance(_at(config, found.path), float):
            caught += 1
        else:
            lost.append(f"{found.code} {found.dotted}: {found.message}")
    said = {found.path for found in (*report, *report.suppressed)}
    # Where DeepSpeed refuses the file anyway, a rule on two keys may have nothing sound to speak of.
    rejected = any(found.effect.value == "rejected" for found in report)
    alone = [".".join(map(str, place)) for place in places if not covered(place, said) and not rejected]
    return Judged(label, lost, alone, caught)


def _at(config: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        config = config[part] if isinstance(config, list | dict) and _has(config, part) else None
    return config if isinstance(config, float) and abs(config) >= BEYOND else None


def _has(config: Any, part: Any) -> bool:
    return part in config if isinstance(config, dict) else isinstance(part, int) and part < len(config)


def sound(report: dsconfig.Report) -> bool:
    """Whether the text has a config in it at all."""
    return not any(found.code[:5] == "DSC00" and found.effect.value == "rejected" for found in report)


UNSAYABLE = {"DSC009-beyond-limits/lone-surrogate", "DSC610-batch-size-beside-plan/ignored"}
"""JSON Schema has no word for half a UTF-16 pair, nor for a value of any type that another key overwrites."""


def from_data() -> Iterator[Judged]:
    for case in cases():
        if case.label in UNSAYABLE or NUMBERS.get(case.target, 0) < NUMBERS["0.9.0"]:
            continue
        report = case.check()
        assert report.document is not None
        config = report.document.value()
        if (
            isinstance(config, dict)
            and sound(report)
            and not is_launch_file(config)
            and detect_launch_format(config) is None
        ):
            reader = case.consumer.partition("==")[0]
            yield judge(case.label, config, report, case.target, reader)


@cache
def generated(release: str, consumer: str) -> list[Judged]:
    return list(_generated(release, consumer))


def _generated(release: str, consumer: str) -> Iterator[Judged]:
    for case in generate(release, 240, 11):
        report = dsconfig.check(case.source, target=release, world_size=case.world_size, consumer=consumer)
        config = case.config if case.text is None else read_bytes(case.source, "x").value()
        if isinstance(config, dict) and sound(report):
            yield judge(case.label, config, report, release, consumer)


def test_on_the_data_cases() -> None:
    found = list(from_data())
    assert len(found) > 300
    assert [(one.label, one.lost) for one in found if one.lost] == []
    assert [(one.label, one.alone) for one in found if one.alone] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("consumer", ["deepspeed", "transformers"])
def test_on_generated_cases(release: str, consumer: str) -> None:
    found = generated(release, consumer)
    assert len(found) > 100
    assert [(one.label, one.lost) for one in found if one.lost] == []
    assert [(one.label, one.alone) for one in found if one.alone] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "config",
    [
        {"train_batch_size": 8, "fp16": {"enabled": True}, "bf16": None},
        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_param": None}},
        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_optimizer": None}},
    ],
    ids=("bf16", "offload_param", "offload_optimizer"),
)
def test_what_is_null_is_not_switched_on(config: dict[str, Any], release: str) -> None:
    found = {
        tuple(finding.path)
        for finding in dsconfig.check(config, target=release, world_size=8, consumer="deepspeed")
    }
    assert faults(config, release, "deepspeed") == found


def test_of_generated_faults_nearly_all_are_caught() -> None:
    assert {"DSC110", "DSC111", "DSC112"} < TYPES
    caught = lost = 0
    for release in RELEASES:
        for one in generated(release, "deepspeed"):
            caught, lost = caught + one.caught, lost + len(one.lost)
    assert caught > 100
    assert caught / (caught + lost) >= 0.95
