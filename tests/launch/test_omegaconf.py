"""YAML files of OmegaConf and Hydra: configs below any key, strategies, interpolations and group files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import ResolveError, check, resolve
from dsconfig.cli import main

STRATEGY = "lightning.pytorch.strategies.DeepSpeedStrategy"
CONFIG = "zero_optimization:\n  stage: 2\n  overlap_com: true\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def indented(text: str, depth: int) -> str:
    return "".join(f"{'  ' * depth}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("head", "depth", "path"),
    [
        ("train:\n  deepspeed:\n", 2, "train.deepspeed.zero_optimization.overlap_com"),
        ("ds_config:\n", 1, "ds_config.zero_optimization.overlap_com"),
        ("trainer:\n  args:\n    engine:\n", 3, "trainer.args.engine.zero_optimization.overlap_com"),
        (
            f"strategy:\n  _target_: {STRATEGY}\n  config:\n",
            2,
            "strategy.config.zero_optimization.overlap_com",
        ),
    ],
)
def test_a_config_below_a_key(head: str, depth: int, path: str) -> None:
    name = write("conf/main.yaml", f"name: x\n{head}{indented(CONFIG, depth)}")
    (diagnostic,) = (each for each in check(name) if each.code == "DSC102")
    assert diagnostic.dotted == path
    assert diagnostic.location is not None
    assert diagnostic.location.line == len(head.splitlines()) + 4


def test_interpolations() -> None:
    name = write(
        "conf/main.yaml",
        "batch: 4\noptim: {lr: 1e-4}\nds_config:\n  train_micro_batch_size_per_gpu: ${batch}\n"
        "  gradient_accumulation_steps: ${.steps}\n  steps: 2\n  gradient_clipping: ${oc.env:CLIP}\n"
        "  optimizer: {type: AdamW, params: {lr: '${optim.lr}', eps: '${nowhere}'}}\n"
        "  zero_optimization: {stage: '${stage}'}\nstage: 7\n",
    )
    codes = {
        (diagnostic.code, diagnostic.dotted) for diagnostic in check(name) if diagnostic.severity == "error"
    }
    assert codes == {("DSC112", "ds_config.zero_optimization.stage")}


def test_a_group_file_alone() -> None:
    batch = "train_micro_batch_size_per_gpu: ${batch_size}\ngradient_accumulation_steps: 2\n"
    name = write("conf/deepspeed/other.yaml", f"{CONFIG}{batch}")
    assert {diagnostic.code for diagnostic in check(name)} == {"DSC102"}  # and not DSC007
    name = write("conf/deepspeed/zero2.yaml", f"zero_optimization: {{stage: 2}}\n{batch}")
    with pytest.raises(ResolveError, match="`train_micro_batch_size_per_gpu` is only known at run time"):
        resolve(name, world_size=2, target="0.14.5")
    run = resolve(name, world_size=2, target="0.14.5", set={"train_micro_batch_size_per_gpu": 4})
    assert run.triplet == (16, 4, 2)


def test_a_defaults_list(capsys: pytest.CaptureFixture[str]) -> None:
    write("conf/config.yaml", "defaults:\n  - trainer: gpu\n  - strategy: deepspeed\n  - _self_\nbatch: 8\n")
    write(
        "conf/trainer/gpu.yaml",
        "_target_: lightning.pytorch.Trainer\ndevices: 4\nnum_nodes: 2\naccumulate_grad_batches: 2\n"
        "strategy: ${strategy}\n",
    )
    config = "zero_optimization: {stage: 2}\ntrain_micro_batch_size_per_gpu: ${batch}\n"
    write("conf/strategy/deepspeed.yaml", f"_target_: {STRATEGY}\nconfig:\n{indented(config, 1)}")
    assert main(["check", "."]) == 0
    (line, *_) = capsys.readouterr().out.splitlines()
    assert line == "conf/config.yaml: OmegaConf, Lightning, 8 ranks, batch 128 = 8 × 2 × 8, no problems found"


@pytest.mark.parametrize(
    "text", ["strategy: deepspeed_stage_3\n", f"strategy:\n  _target_: {STRATEGY}\n  stage: 3\n"]
)
def test_a_strategy_without_a_config(text: str) -> None:
    name = write("conf/trainer.yaml", f"_target_: lightning.pytorch.Trainer\ndevices: 4\n{text}")
    report = check(name)
    assert (report.consumer, report.world_size, report.ok) == ("lightning", 4, True)
    run = resolve(name, training_args={"per_device_train_batch_size": 2})
    assert (run.triplet, run.config["zero_optimization"]["stage"]) == ((8, 2, 1), 3)


@pytest.mark.parametrize(
    "text", ["a: {b: {optimizer: x}}\n", "strategy: ddp\ntrainer: {devices: 2}\n", "deepspeed: null\n"]
)
def test_other_files(text: str) -> None:
    assert check(write("conf/main.yaml", text)).why_not_config


@pytest.mark.parametrize(
    ("program", "is_number"),
    [("", True), ("from omegaconf import OmegaConf\nimport yaml\n", True), ("import yaml\n", False)],
)
def test_exponents_are_numbers_for_omegaconf_only(program: str, is_number: bool) -> None:
    write("train.py", f"import deepspeed\n{program}")
    name = write(
        "conf/main.yaml",
        "lr: 1.0\ndeepspeed:\n  train_batch_size: 8\n  zero_optimization: {stage: 2, reduce_bucket_size: 5e8}\n"
        "learning_rate: 1e-4\ngradient_accumulation_steps: 2\n",
    )
    report = check(name)
    assert report.reader.name == "deepspeed", "arguments of a training loop, not of a Trainer"
    assert ("DSC115" in {each.code for each in report}) != is_number


def test_a_group_file_with_the_default_of_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    write("default.yaml", "devices: 16\n")
    write("conf/trainer/default.yaml", "_target_: lightning.pytorch.Trainer\ndevices: 1\n")
    write("conf/trainer/ds.yaml", "defaults:\n  - default\ndevices: 3\nstrategy: deepspeed_stage_2\n")
    main(["check", "."])
    assert "conf/trainer/ds.yaml: Lightning, 3 ranks" in capsys.readouterr().out
