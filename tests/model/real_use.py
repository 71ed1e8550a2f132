# pyright: strict
"""A library's own use of dsconfig: type checkers take it in their strictest mode, and a test runs it."""

from __future__ import annotations

from pathlib import Path

import dsconfig
from dsconfig import Config, Optimizer, Scheduler, ZeroOptimization
from dsconfig.api import presets
from dsconfig.types import AdamWParams, WarmupLRParams


def zero(stage: int, offload: str | None) -> dsconfig.types.ZeroOptimizationDict:
    """The section for a stage that a user chose."""
    section: dsconfig.types.ZeroOptimizationDict = {"reduce_bucket_size": 2e8, "overlap_comm": True}
    if stage == 3:
        section["stage"] = 3
        section["offload_param"] = {"device": "cpu", "pin_memory": True}
    if offload is not None:
        section["offload_optimizer"] = {"device": "nvme", "nvme_path": Path(offload)}
    return section


def build(stage: int, lr: float, offload: str | None = None) -> Config:
    """A config as the library trains with."""
    config = Config(
        train_micro_batch_size_per_gpu=4,
        gradient_clipping=1,
        bf16={"enabled": True},
        zero_optimization=zero(stage, offload),
        optimizer=Optimizer(type="AdamW", params=AdamWParams(lr=lr, betas=(0.9, 0.95))),
        scheduler=Scheduler(type="WarmupLR", params=WarmupLRParams(warmup_num_steps=100)),
    )
    if config.zero_optimization.stage == 3:
        config.zero_optimization.stage3_gather_16bit_weights_on_model_save = True
    return config


def hand_over(config: Config, path: Path) -> dict[str, object]:
    """The dict for DeepSpeed, with a copy on disk."""
    report = config.check(target="0.19.8", world_size=8)
    if not report.ok:
        raise SystemExit(str(report))
    for found in report:
        print(found.code, found.dotted, found.effect.value, found.message)
    config.to_file(path)
    return config.for_deepspeed(world_size=8)


def variants(config: Config) -> list[Config]:
    """Configs to compare."""
    small = config.replace(train_micro_batch_size_per_gpu=1, zero_optimization__stage=2)
    clipped = config | {"gradient_clipping": 0.5, "optimizer": {"params": {"weight_decay": 0.1}}}
    preset = presets.zero3(offload="cpu").merge({"gradient_clipping": 1.0}, Config(steps_per_print=10))
    typed = preset.replace(zero_optimization=ZeroOptimization(stage=3, sub_group_size=1e8))
    print([change.dotted for change in config.diff(small)], dsconfig.compat(clipped)[-1].word)
    return [small, clipped, preset, typed]


def main(folder: Path) -> dict[str, object]:
    """Build, vary, write and read back."""
    config = build(3, 3e-4, offload="/local_nvme")
    handed = hand_over(config, folder / "ds_config.json")
    again = Config.from_file(folder / "ds_config.json")
    assert again == config, again.diff(config)
    assert len(set(variants(config))) == 4
    try:
        config.replace(zero_optimization__stge=2)
    except dsconfig.BuildError as error:
        print(error.problems[0].path, error.problems[0].meant)
    print(dsconfig.resolve(config, world_size=8).train_batch_size, dsconfig.fix(config).applied)
    return handed
