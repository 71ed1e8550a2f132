"""Jobs of commands whose program composes its config with Hydra."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import check, resolve

PROGRAM = """import deepspeed
import hydra
from omegaconf import OmegaConf


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    deepspeed.initialize(model=net, optimizer=adam, config=OmegaConf.to_container(cfg.ds_config, resolve=True))
"""
ZERO = """train_micro_batch_size_per_gpu: ${batch}
gradient_accumulation_steps: 2
zero_optimization:
  stage: 2
"""
LIGHTNING = """trainer:
  _target_: lightning.pytorch.Trainer
  devices: 2
  num_nodes: 1
  strategy:
    _target_: lightning.pytorch.strategies.DeepSpeedStrategy
    config:
      train_micro_batch_size_per_gpu: 2
      zero_optimization: {stage: 2}
"""


def write(command: str, main: str = "defaults:\n- _self_\n- ds_config: zero2\nbatch: 4\n") -> None:
    Path("conf/ds_config").mkdir(parents=True)
    Path("conf/config.yaml").write_text(main)
    Path("conf/other.yaml").write_text("batch: 16\ndefaults:\n- ds_config: zero2\n- _self_\n")
    Path("conf/ds_config/zero2.yaml").write_text(ZERO)
    Path("conf/ds_config/zero3.yaml").write_text(
        ZERO.replace("stage: 2", "stage: 3\n  stage3_max_live_paramters: 5")
    )
    Path("train.py").write_text(PROGRAM)
    Path("run.sh").write_text(f"{command}\n")


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("overrides", "codes", "batch"),
    [
        ("", [], 4 * 2 * 4),
        ("batch=8", [], 8 * 2 * 4),
        ("ds_config.gradient_accumulation_steps=1", [], 4 * 4),
        ("++ds_config.gradient_accumulation_steps=1", [], 4 * 4),
        ("~ds_config.gradient_accumulation_steps", [], 4 * 4),
        ("--config-name other", [], 16 * 2 * 4),
        ("--config-name=other batch=1", [], 2 * 4),
        ("ds_config=zero3", ["DSC102"], None),
        ("+ds_config.train_batch_size=100", ["DSC202"], None),
        ("+ds_config.gradient_cliping=1.0", ["DSC102"], 4 * 2 * 4),
    ],
)
def test_overrides(overrides: str, codes: list[str], batch: int | None) -> None:
    write(f"deepspeed --num_gpus 4 train.py {overrides}")
    report = check("run.sh", target="0.19.8")
    assert [each.code for each in report] == codes
    assert report.world_size == 4
    if batch is not None:
        assert resolve("run.sh", target="0.19.8").train_batch_size == batch


@pytest.mark.usefixtures("empty_repository")
def test_multirun_is_several_jobs() -> None:
    write("deepspeed --num_gpus 4 train.py -m batch=2,4 ds_config=zero2,zero3")
    reports = check("run.sh", target="0.19.8").jobs
    # A diagnostic that two jobs share is listed once.
    assert [[each.code for each in report] for report in reports] == [[], ["DSC102"], [], []]


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("overrides", "main"),
    [
        ("ds_config=missing", None),
        ("--config-name $NAME", None),
        ("--config-dir /data", None),
        ("", "defaults:\n- ds_config: zero2\n- model: missing\nbatch: 4\n"),
    ],
)
def test_unknown_composition_is_not_checked(overrides: str, main: str | None) -> None:
    if main is None:
        write(f"deepspeed --num_gpus 4 train.py {overrides}")
    else:
        write(f"deepspeed --num_gpus 4 train.py {overrides}", main)
    assert check("run.sh").why_not_config


@pytest.mark.usefixtures("empty_repository")
def test_devices_of_lightning() -> None:
    write("python train.py trainer.devices=8", LIGHTNING)
    assert check("run.sh", target="0.19.8").world_size == 8


@pytest.mark.usefixtures("empty_repository")
def test_unknown_value_stays_unknown() -> None:
    write("deepspeed --num_gpus 4 train.py +ds_config.train_batch_size=$BATCH")
    assert not list(check("run.sh", target="0.19.8"))


GROUPS = {
    "config.yaml": "defaults:\n- base\n- train: small\n- _self_\nbatch: 4\n",
    "base.yaml": "batch: 1\nds_config: {steps_per_print: 7}\n",
    "train/small.yaml": "# @package _global_\ndefaults:\n- /ds_config: zero2\n- _self_\nbatch: 2\n",
    "train/large.yaml": "# @package _global_\ndefaults:\n- /ds_config: zero2\n- optional extra: none\n"
    "- override /ds_config: zero3\nds_config: {gradient_accumulation_steps: 8}\n",
    "train/nested.yaml": "# @package _global_\ndefaults:\n- /ds_config/precision@ds_config.bf16: bf16\n"
    "- /ds_config: zero2\n",
    "ds_config/zero2.yaml": ZERO,
    "ds_config/zero3.yaml": ZERO.replace("stage: 2", "stage: 3"),
    "ds_config/precision/bf16.yaml": "enabled: true\n",
}
"""A folder of configs, in which files of groups have defaults lists of their own."""


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ("", {"micro": 4, "steps": 2, "stage": 2}),  # `_self_` of the primary config comes last
        ("train=large", {"micro": 4, "steps": 8, "stage": 3}),  # `override` reaches a later list
        ("train=large ds_config=zero2", {"micro": 4, "steps": 8, "stage": 2}),  # the command wins
        ("train=nested", {"micro": 4, "steps": 2, "stage": 2, "bf16": True}),
        ("~train", None),
    ],
)
def test_defaults_lists_of_groups(overrides: str, expected: dict[str, object] | None) -> None:
    """The values are those that Hydra 1.3 composes."""
    write(f"deepspeed --num_gpus 4 train.py {overrides}")
    for name, text in GROUPS.items():
        Path("conf", name).parent.mkdir(parents=True, exist_ok=True)
        Path("conf", name).write_text(text)
    if expected is None:
        assert not check("run.sh", target="0.19.8").children
        return
    config = resolve("run.sh", target="0.19.8").config
    found = {
        "micro": config["train_micro_batch_size_per_gpu"],
        "steps": config["gradient_accumulation_steps"],
        "stage": config["zero_optimization"]["stage"],
    }
    if "bf16" in config:
        found["bf16"] = config["bf16"]["enabled"]
    assert config["steps_per_print"] == 7
    assert found == expected


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    "defaults",
    [
        "- override ds_config: zero3\n- ds_config: zero2\n",  # Hydra accepts overrides at the end only
        "- ds_config: zero2\n- override other: a\n",
        "- ds_config: ${name}\n",
        "- ds_config: zero2\n- /db@cache: missing\n",
    ],
)
def test_lists_that_hydra_rejects_are_not_checked(defaults: str) -> None:
    write("deepspeed --num_gpus 4 train.py", f"defaults:\n{defaults}batch: 4\n")
    assert check("run.sh").why_not_config


@pytest.mark.usefixtures("empty_repository")
def test_a_script_without_the_word_is_found() -> None:
    """`python train.py` composes the config, and a folder check reads the program that the script names."""
    write("python train.py ds_config=zero3")
    from dsconfig.check.discover import find_configs

    assert "run.sh" in set(find_configs(".", launches=True))
    report = check("run.sh", target="0.19.8")
    assert [each.code for each in report] == ["DSC102"]
    assert report.world_size == 1
