"""DeepSpeed's own verdict on the presets and on what the schemas refuse.

It needs the releases that `make parity` builds.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest

import dsconfig
from dsconfig.api import presets
from tests.parity import environment
from tests.parity.generators.case import Case
from tests.parity.generators.cases import generate
from tests.parity.judges import engines
from tests.parity.judges.judging import Verdict, judge
from tests.schema.agreement import covered, faults

BUILT = [release for release in environment.available() if environment.order(release) >= (0, 9)]
PLAIN = ("deepspeed", "lightning")
NOT_ON_CPU = {
    "zero3-offload-nvme": "needs a drive",
    "tensor-parallel": "needs four ranks",
    "zeropp": "needs quantization kernels that no CPU has",
}


@pytest.fixture(autouse=True)
def needs_releases() -> None:
    if not BUILT:
        pytest.skip("no DeepSpeed is built here: `make parity` builds it")


def with_presets(release: str) -> list[Case]:
    """Every preset that a plain loader reads."""
    return [
        Case(f"{name} {reader}", "valid", name, 8, text=presets.text(name, release, reader))
        for name, preset in presets.PRESETS.items()
        for reader in preset.consumers
        if release in preset.releases and reader in PLAIN
    ]


@cache
def with_dicts(release: str) -> list[Case]:
    """Generated cases that are dicts."""
    return [case for case in generate(release, 240, 21) if isinstance(case.config, dict)]


@cache
def verdicts(release: str) -> dict[str, Verdict]:
    """Both kinds of cases judged by one process: it takes seconds to import DeepSpeed."""
    return judge(release, [*with_presets(release), *with_dicts(release)])


@pytest.mark.parametrize("release", BUILT or ["none"])
def test_deepspeed_takes_every_preset(release: str) -> None:
    judged = {case.id: verdicts(release)[case.id] for case in with_presets(release)}
    assert len(judged) > 5
    assert {name: verdict.message for name, verdict in judged.items() if not verdict.ok} == {}


@pytest.mark.parametrize("release", BUILT or ["none"])
def test_nothing_is_refused_that_deepspeed_takes_without_complaint(release: str) -> None:
    for case in with_dicts(release):
        if verdicts(release)[case.id].ok:
            report = dsconfig.check(
                case.config, target=release, world_size=case.world_size, consumer="deepspeed"
            )
            # Of a list, check names the first item that is wrong, and a schema all of them.
            said = {_list(found.path) for found in report}
            places = faults(case.config, release, "deepspeed")
            assert [place for place in places if not covered(place, said)] == [], case.label


@pytest.mark.skipif(
    not os.environ.get("DSCONFIG_PARITY_ENGINE"), reason="starts real engines: set DSCONFIG_PARITY_ENGINE=1"
)
def test_presets_start_an_engine() -> None:
    release = BUILT[-1]
    trials = [
        # A CPU computes in fp16, too, and DeepSpeed does not believe it.
        engines.Trial(name, _small(presets.config(name, release)), (("steps", 2), ("fp16", name == "fp16")))
        for name, preset in presets.PRESETS.items()
        if release in preset.releases and preset.consumers[0] == "deepspeed" and name not in NOT_ON_CPU
    ]
    results = engines.run(release, trials)
    assert {name: result.said for name, result in results.items() if not result.ok} == {}


def _list(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    return path[:-1] if path and isinstance(path[-1], int) else path


def _small(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}
