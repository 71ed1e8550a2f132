"""Confirms advisories with real engines on CPU: `python -m tests.parity.advisories [ID …]`.

Each trial starts real ranks with an affected release and with the first release that is not. Every rank has
samples of its own, so that the weights after a step show which gradients were used. The fixed release must
update the weights as the mean of all gradients does, the affected one must not, and `check` has to agree with
both. Not part of `make parity`: it takes some ten seconds a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dsconfig import check
from tests.parity import environment
from tests.parity.judges import ranks

BASE: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "gradient_clipping": 0.0,
}
BF16 = {"bf16": {"enabled": True}}
FP16 = {"fp16": {"enabled": True, "loss_scale": 1.0}}
NAMED = {"optimizer": {"type": "SGD", "params": {"lr": 1.0}}}


class Trial(NamedTuple):
    """One advisory: releases at the border, a config, and the weights that are right."""

    advisory: str
    affected: str
    fixed: str
    config: dict[str, Any]
    right: float
    world_size: int = 1
    is_fused: bool = False
    """Whether the optimizer is an instance of FusedAdam."""
    named: Mapping[str, Any] = MappingProxyType({})
    """What `check` is told about the optimizer, which the worker builds itself."""


TRIALS = (
    Trial(
        "offload-drops-micro-batches",
        "0.18.9",
        "0.19.0",
        BF16
        | {
            "gradient_accumulation_steps": 4,
            "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        },
        right=-(1 + 2 + 4 + 8) / 4,
    ),
    Trial(
        "bf16-last-micro-batch-not-averaged",
        "0.18.9",
        "0.19.0",
        BF16
        | {
            "gradient_accumulation_steps": 2,
            "zero_optimization": {"stage": 1},
            "data_types": {"grad_accum_dtype": "fp32"},
        },
        right=-3.0,
        world_size=2,
    ),
    Trial("bf16-without-zero-not-averaged", "0.13.2", "0.13.3", BF16, right=-2.0, world_size=2),
    Trial("bf16-without-zero-scales-gradients", "0.18.5", "0.18.6", BF16, right=-1.0, named=NAMED),
    Trial(
        "bf16-with-fp32-sums-scales-gradients",
        "0.18.4",
        "0.19.0",
        BF16 | {"zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "fp32"}},
        right=-1.0,
        named=NAMED,
    ),
    Trial(
        "fp16-without-zero-never-steps",
        "0.18.1",
        "0.18.2",
        FP16,
        right=-1.0,
        is_fused=True,
        named={"optimizer": {"type": "AdamW", "params": {"lr": 1.0}}},
    ),
)


def weights_after(release: str, trial: Trial) -> list[list[float] | None]:
    """The weights of each rank after the steps; None where the engine stops."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps(BASE | trial.config | {"trial": {"fused": trial.is_fused}}), "utf-8")
        ended = ranks.run(release, "advisory_rank.py", path, trial.world_size)
    for rank in ended:
        if rank.code:
            print(rank.complaint[-1500:], file=sys.stderr)
    return [None if rank.code else json.loads(rank.out.splitlines()[-1]) for rank in ended]


def is_right(trial: Trial, weights: list[list[float] | None]) -> bool:
    """Whether every rank moved every weight by the mean of all gradients."""
    return all(rank is not None and all(abs(each - trial.right) < 0.02 for each in rank) for rank in weights)


def is_reported(release: str, trial: Trial) -> bool:
    """Whether `check` reports the advisory."""
    config = BASE | trial.config | dict(trial.named)
    report = check(config, target=release, world_size=trial.world_size, consumer="deepspeed")
    return any(f"(advisory `{trial.advisory}`)" in each.message for each in report)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; 0 where every one confirms its advisory."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.advisories", description=__doc__.split("\n")[0]
    )
    names = [each.advisory for each in TRIALS]
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"default: {' '.join(names)}")
    chosen = parser.parse_args(arguments).ids or names
    trials = [each for each in TRIALS if each.advisory in chosen]
    try:
        environment.build(sorted({each for trial in trials for each in (trial.affected, trial.fixed)}))
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    wrong = 0
    for trial in trials:
        for release, is_defect in ((trial.affected, True), (trial.fixed, False)):
            weights = weights_after(release, trial)
            trained = None not in weights
            agrees = (
                trained and is_right(trial, weights) != is_defect and is_reported(release, trial) == is_defect
            )
            wrong += not agrees
            verdict = "confirmed" if agrees else "NOT CONFIRMED"
            print(f"{release:>8} {trial.advisory:<36} {weights}: {verdict}", flush=True)
    print(f"advisories: {len(trials)} trials, {wrong} wrong")
    return 1 if wrong or not trials else 0


if __name__ == "__main__":
    sys.exit(main())
