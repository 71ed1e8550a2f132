"""Scripts that pass a file of training arguments to a program: world size, and flags over the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.check.discover import find_configs

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}
ARGUMENTS = "output_dir: o\nper_device_train_batch_size: 4\nlearning_rate: 1.0e-4\ndeepspeed: ds.json\n"
LLAMAFACTORY = "stage: sft\nmodel_name_or_path: m\ndataset: d\n"
AXOLOTL = "base_model: m\nsequence_len: 8\nmicro_batch_size: 4\nlearning_rate: 1.0e-4\ndeepspeed: ds.json\n"
PROGRAM = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(a,) = HfArgumentParser(TrainingArguments).parse_yaml_file('x.yaml')
Trainer(args=a)
"""


@pytest.fixture
def repository(empty_repository: Path) -> Path:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("x.yaml").write_text(ARGUMENTS)
    Path("train.py").write_text(PROGRAM)
    return empty_repository


@pytest.mark.parametrize(
    ("command", "more", "ranks"),
    [
        ("torchrun --nproc_per_node 4 train.py x.yaml", "", 4),
        ("accelerate launch --num_processes 4 train.py --config x.yaml", "", 4),
        ("accelerate launch \\\n  --num_processes 4 \\\n  train.py \\\n  --config x.yaml", "", 4),
        ("trl sft --config x.yaml", "num_processes: 8\n", 8),
        ("trl sft --config x.yaml", "", None),
        ("FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train x.yaml", LLAMAFACTORY, 2),
    ],
)
def test_the_command_gives_the_world_size(
    repository: Path, command: str, more: str, ranks: int | None
) -> None:
    Path("x.yaml").write_text(ARGUMENTS + more)
    Path("run.sh").write_text(f"{command}\n")
    assert "run.sh" in set(find_configs(".", launches=True))
    (config,) = check("run.sh").children
    assert (config.name, config.world_size) == ("ds.json", ranks)


@pytest.mark.parametrize(
    ("command", "text", "keys"),
    [
        ("trl sft --config x.yaml", ARGUMENTS, set()),
        ("trl sft --config x.yaml --learning_rate 1e-5", ARGUMENTS, {"optimizer.params.lr"}),
        ("trl sft --config x.yaml --learning_rate $LR", ARGUMENTS, set()),
        (
            "llamafactory-cli train x.yaml per_device_train_batch_size=8",
            LLAMAFACTORY + ARGUMENTS,
            {"train_micro_batch_size_per_gpu"},
        ),
        ("axolotl train x.yaml", AXOLOTL, set()),
        ("axolotl train x.yaml --micro-batch-size 8", AXOLOTL, {"train_micro_batch_size_per_gpu"}),
        # The program may read the file alone, or both.
        ("torchrun train.py --config x.yaml --learning_rate 1e-5", ARGUMENTS, set()),
        ("torchrun train.py --config x.yaml --warmup_steps 5", ARGUMENTS, set()),
        ("torchrun train.py x.yaml", ARGUMENTS.replace("1.0e-4", "1.0e-5"), {"optimizer.params.lr"}),
    ],
)
def test_flags_stand_over_the_file(repository: Path, command: str, text: str, keys: set[str]) -> None:
    Path("x.yaml").write_text(text)
    Path("run.sh").write_text(f"{command}\n")
    (config,) = check("run.sh").children
    assert {each.dotted for each in config if each.code == "DSC809"} == keys


@pytest.mark.parametrize(
    "command", ["python plot.py --style dark.json", "python a.py x.yaml --config other.yaml"]
)
def test_a_script_without_deepspeed_is_no_job(empty_repository: Path, command: str) -> None:
    Path("dark.json").write_text('{"color": "black"}')
    Path("x.yaml").write_text("output_dir: o\nlearning_rate: 1e-4\n")
    Path("run.sh").write_text(f"{command}\n")
    assert set(find_configs(".", launches=True)) == set()


@pytest.mark.parametrize("suffix", [".job", ".pbs", ".slurm", ".zsh"])
def test_scripts_of_batch_systems(repository: Path, suffix: str) -> None:
    Path(f"run{suffix}").write_text("torchrun --nproc_per_node 4 train.py x.yaml\n")
    assert f"run{suffix}" in set(find_configs(".", launches=True))
    (config,) = check(f"run{suffix}").children
    assert (config.name, config.world_size) == ("ds.json", 4)


SECTION = """\
data: {path: d}
training_args:
  deepspeed: ds.json
  per_device_train_batch_size: 4
  learning_rate: 1.0e-4
"""


@pytest.mark.parametrize(
    "command",
    ["torchrun --nproc_per_node 4 train.py x.yaml", "deepspeed --num_gpus 4 train.py --config x.yaml"],
)
def test_arguments_in_a_section(repository: Path, command: str) -> None:
    """A program may pass a section of its own file to the Trainer: `TrainingArguments(**config.training_args)`."""
    Path("x.yaml").write_text(SECTION)
    Path("run.sh").write_text(f"{command}\n")
    Path("train.py").write_text("Trainer(args=TrainingArguments(**OmegaConf.load(path).training_args))\n")
    (config,) = check("run.sh").children
    assert (config.name, config.consumer, config.world_size) == ("ds.json", "transformers", 4)
    arguments = config.training_arguments
    assert arguments is not None
    assert arguments.arguments["per_device_train_batch_size"] == 4


def test_two_sections_are_ambiguous(repository: Path) -> None:
    Path("x.yaml").write_text(SECTION + SECTION.partition("\n")[2].replace("training_args", "second"))
    Path("run.sh").write_text("torchrun --nproc_per_node 4 train.py x.yaml\n")
    assert "run.sh" not in set(find_configs(".", launches=True))


def test_flags_of_a_group(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """jsonargparse, tyro and Quinine build flags from nested classes, with defaults from another file."""
    from dsconfig.cli import main

    config = {**CONFIG, "train_micro_batch_size_per_gpu": "auto", "train_batch_size": "auto"}
    del config["optimizer"]
    Path("ds.json").write_text(json.dumps(config))
    command = "deepspeed --num_gpus 4 train.py --config y.yaml --args.deepspeed {} --args.per_device_train_batch_size 2"
    Path("run.sh").write_text(f"{command.format('ds.json')}\n{command.format('missing.json')}\n")
    main(["check", "."])
    first, second = [line for line in capsys.readouterr().out.splitlines() if line.startswith("run.sh:")]
    assert first.startswith(
        "run.sh:1: Trainer with ds.json, 4 ranks, batch unknown without the training arguments"
    )
    assert second.startswith("run.sh:2: Trainer, not checked: `missing.json` was not found")


def test_unknown_steps_leave_the_batch_unknown(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Trainer has replaced `train_batch_size` before Accelerate could, with a number that is not known here."""
    from dsconfig.cli import main

    config = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "zero_optimization": {"stage": 2},
    }
    Path("ds.json").write_text(json.dumps(config))
    Path("run.sh").write_text(
        "deepspeed --num_gpus 4 train.py --deepspeed ds.json --per_device_train_batch_size 2 $MORE\n"
    )
    main(["check", "run.sh"])
    assert "batch unknown without the training arguments" in capsys.readouterr().out
