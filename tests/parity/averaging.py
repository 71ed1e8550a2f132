"""Whether ranks train on the average of their gradients, where DSC417 says that they do and do not.

`python -m tests.parity.averaging [RELEASE …]` starts two real ranks for each config and release. Each rank
has samples of its own; weights that move alike were moved by the average. Not part of `make parity`: it takes
some ten seconds a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsconfig import check
from tests.parity import environment
from tests.parity.judges import ranks

RELEASES = ("0.19.8", "0.19.7", "0.18.6", "0.17.6", "0.16.9", "0.14.5")
BASE: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "gradient_clipping": 0.0,
}
FP16 = {"fp16": {"enabled": True, "loss_scale": 1.0}}
BF16 = {"bf16": {"enabled": True}}
APART = {"data_types": {"grad_accum_dtype": "fp32"}}


def config(stage: int, *parts: dict[str, Any], steps: int = 1, **zero: Any) -> dict[str, Any]:
    """One of these parts, with buckets as small as the model."""
    section = {"stage": stage, "reduce_bucket_size": 1000, **zero}
    found = BASE | {"gradient_accumulation_steps": steps, "zero_optimization": section}
    for part in parts:
        found |= part
    return found


CONFIGS = {
    "fp16, fp32 sums, stage 1": config(1, FP16, APART),
    "the same, two micro batches": config(1, FP16, APART, steps=2),
    "fp16, fp32 sums, stage 2": config(2, FP16, APART),
    "fp16, stage 1": config(1, FP16),
    "bf16, fp32 sums, stage 1": config(1, BF16, APART),
    "the same, offloaded": config(1, BF16, APART, offload_optimizer={"device": "cpu"}),
    "bf16, fp32 sums, stage 2": config(2, BF16, APART),
}


def weights_after(release: str, chosen: dict[str, Any]) -> list[float] | None:
    """Those of the first of two ranks after a step; None where the engine stops."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps(chosen), "utf-8")
        ended = ranks.run(release, "average_rank.py", path, 2)
    if any(rank.code for rank in ended):
        return None
    found: list[float] = json.loads(ended[0].out.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all configs on all releases; 0 where DSC417 is right on each that trains, and any does."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.averaging", description=__doc__.split("\n")[0]
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"default: {' '.join(RELEASES)}")
    releases = parser.parse_args(arguments).releases or RELEASES
    try:
        environment.build(list(releases))
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    trained = wrong = 0
    for release in releases:
        for name, chosen in CONFIGS.items():
            weights = weights_after(release, chosen)
            apart = any(
                found.code == "DSC417"
                for found in check(chosen, target=release, world_size=2, consumer="deepspeed")
            )
            trained += weights is not None
            agrees = weights is None or (len(set(weights)) > 1) == apart
            wrong += not agrees
            verdict = "agrees" if agrees else "DISAGREES"
            print(f"{release:>8} {name:<30} {weights or 'stops'} DSC417 {apart}: {verdict}", flush=True)
    print(f"averaging: {trained} trained, {wrong} wrong")
    return 1 if wrong or not trained else 0


if __name__ == "__main__":
    sys.exit(main())
