"""Ray Train: the workers of a `ScalingConfig` are the ranks of the program's config."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import check

PROGRAM = """\
import deepspeed
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

WORKERS = 4

def loop():
    deepspeed.initialize(model=m, config={{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {{"stage": 3}}}})

TorchTrainer(loop, scaling_config={}).fit()
"""


@pytest.mark.parametrize(
    ("scaling", "ranks"),
    [
        ("ScalingConfig(num_workers=8, use_gpu=True)", 8),
        ("ScalingConfig(num_workers=WORKERS, use_gpu=True, resources_per_worker={'GPU': 2})", 4),
        ("ScalingConfig(None, 2)", 2),
        ("ScalingConfig(num_workers=args.workers, use_gpu=True)", None),
        ("ScalingConfig(use_gpu=True)", None),
        ("ScalingConfig(**scaling)", None),
        ("ScalingConfig(num_workers=2) if small else ScalingConfig(num_workers=8)", None),
    ],
)
@pytest.mark.parametrize("script", ["", "python train.py\n"])
def test_workers_are_ranks(empty_repository: Path, scaling: str, ranks: int | None, script: str) -> None:
    Path("train.py").write_text(PROGRAM.format(scaling))
    if script:
        Path("run.sh").write_text(script)
    assert check("train.py").reader.processes == ranks


def test_the_strategy_of_ray_is_that_of_lightning(empty_repository: Path) -> None:
    Path("train.py").write_text(
        "from ray.train.lightning import RayDeepSpeedStrategy\n"
        "s = RayDeepSpeedStrategy(config={'zero_optimization': {'stage': 2, 'overlap_com': True}})\n"
    )
    report = check("train.py", target="0.18.0")
    assert report.reader.name == "lightning"
    assert [each.dotted for each in report if each.code == "DSC102"] == ["zero_optimization.overlap_com"]
