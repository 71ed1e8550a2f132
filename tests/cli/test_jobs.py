"""Jobs that scripts and manifests start: found in a folder, and reported one line each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.cli import main

AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "train_batch_size": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}
FLAGS = "--output_dir out --per_device_train_batch_size 2 --gradient_accumulation_steps 4"


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines of jobs in the output of a check."""
    main(["check", *(arguments or (".",))])
    output = capsys.readouterr().out.splitlines()
    return [line for line in output if any(each in line for each in ("Trainer", "DeepSpeed with"))]


START = f"deepspeed --num_gpus 8 t.py --deepspeed conf/ds.json {FLAGS}"
CMD = json.dumps(["t.py", "--deepspeed", "conf/ds.json", *FLAGS.split()])
FILES = {
    "run.sh": f"{START}\n",
    "jobs/run.slurm": "#SBATCH --nodes=1\nsrun torchrun --nproc_per_node 8 t.py"
    f" --deepspeed conf/ds.json {FLAGS}\n",
    "Makefile": f"GPUS ?= 8\ntrain:\n\t@{START.replace('8', '$(GPUS)', 1)}\n",
    "Dockerfile": f'FROM a\nENTRYPOINT ["deepspeed", "--num_gpus", "8"]\nCMD {CMD}\n',
    "compose.yaml": f"services:\n  train:\n    command: {START}\n",
    ".github/workflows/train.yml": f"on: push\njobs:\n  train:\n    steps:\n      - run: {START}\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
    f"    - command: [bash, -c]\n      args: ['{START}']\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_folder_without_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conf").mkdir()
    Path("conf/ds.json").write_text(json.dumps(AUTO))
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(FILES[name])
    (line,) = lines(capsys)
    assert line.startswith(f"{name}:")
    assert line.endswith("Trainer with conf/ds.json, 8 ranks, batch 64 = 2 × 4 × 8, no problems found")


def test_a_config_with_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.config").write_text(json.dumps({"train_batch_size": 8, "zero_optimization": {"stage": 7}}))
    Path("run.sh").write_text("deepspeed --num_gpus 8 t.py --deepspeed --deepspeed_config ds.config\n")
    (line,) = lines(capsys)
    assert line == "run.sh:1: DeepSpeed with ds.config, 8 ranks, 1 error"


def test_common_diagnostics_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(json.dumps({**AUTO, "zero_optimization": {"stage": 7}}))
    start = f"deepspeed --num_gpus {{}} t.py --deepspeed ds.json {FLAGS}\n"
    Path("run.sh").write_text(start.format(2) + start.format(4) + start.format("$N") + start.format(4))
    main(["check", "."])
    output = capsys.readouterr().out
    assert output.count("error[") == 1
    formula = "train_batch_size = 2 × 4 × GPUs"
    assert [line for line in output.splitlines() if line.startswith("run.sh:")] == [
        "run.sh:1: Trainer with ds.json, 2 ranks, 1 error",
        "run.sh:2: Trainer with ds.json, 4 ranks, 1 error",
        f"run.sh:3: Trainer with ds.json, world size unknown (`--num_gpus=$N`), {formula}, 1 error",
    ]


def test_a_job_without_its_config_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(f"deepspeed t.py --deepspeed ds.json {FLAGS}\n")
    (line,) = lines(capsys)
    assert line == "run.sh:1: Trainer, not checked: `ds.json` was not found from the current folder"
    main(["check", ".", "--output-format", "json"])
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["job"]["notChecked"] == "`ds.json` was not found from the current folder"


ACCELERATE = "distributed_type: DEEPSPEED\nnum_processes: 16\ndeepspeed_config:\n  zero_stage: 2\n"
TRAINER = "from trl import SFTConfig, TrlParser\n(args,) = TrlParser(SFTConfig).parse_args_and_config()\n"
ARGUMENTS = "model_name_or_path: a\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 8\n"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (
            "NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train lf.yaml",
            "LLaMA-Factory, Trainer with ds.json, 8 ranks, batch 128 = 2 × 8 × 8",
        ),
        (
            "accelerate launch --num_processes 4 -m axolotl.cli.train ax.yaml",
            "Axolotl, Trainer with ds.json, 4 ranks, batch 64 = 2 × 8 × 4",
        ),
        ("trl sft --config c.yaml --accelerate_config zero2", "TRL, Trainer, 8 ranks, batch 128 = 2 × 8 × 8"),
        (
            "NPROC_PER_NODE=2 swift sft --model a --deepspeed zero3 --gradient_accumulation_steps 4",
            "ms-swift, Trainer, 2 ranks, batch 8 = 1 × 4 × 2",
        ),
        (
            "accelerate launch --config_file acc.yaml t.py --config c.yaml",
            "Trainer with acc.yaml, 16 ranks, batch 256 = 2 × 8 × 16",
        ),
        (
            "accelerate launch --config_file acc.yaml t.py --config c.yaml --per_device_train_batch_size 1",
            "Trainer with acc.yaml, 16 ranks, batch 128 = 1 × 8 × 16",
        ),
        (
            "accelerate launch --config_file acc.yaml t.py --config $CONFIG",
            "Trainer with acc.yaml, 16 ranks, batch unknown without the training arguments",
        ),
    ],
)
def test_arguments_in_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(json.dumps(AUTO))
    Path("acc.yaml").write_text(ACCELERATE)
    Path("c.yaml").write_text(ARGUMENTS)
    Path("lf.yaml").write_text(
        f"stage: sft\nfinetuning_type: full\noutput_dir: o\ndeepspeed: ds.json\n{ARGUMENTS}"
    )
    axolotl = "base_model: a\ndatasets: []\nmicro_batch_size: 2\ngradient_accumulation_steps: 8\nbf16: true\n"
    Path("ax.yaml").write_text(f"{axolotl}deepspeed: ds.json\n")
    Path("t.py").write_text(TRAINER)
    Path("run.sh").write_text(f"{command}\n")
    (first, *_) = lines(capsys, "run.sh")
    assert first.startswith(f"run.sh:1: {line}")


RAY = "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray"
USAGE = """DS=""
while [ $# -gt 0 ]; do case $1 in --ds) DS="$2"; shift 2;; *) exit 1;; esac; done
if [ -z "$DS" ]; then echo usage; exit 1; fi
accelerate launch --config_file conf/$DS.yaml t.py
"""
"""A script that does nothing without its option."""
SCRIPTS = {
    f"{RAY} --actor.num_nodes 2 --actor.num_gpus_per_node 4 --train.batch_size 64 --train.micro_batch_size 2\n": (
        "OpenRLHF, DeepSpeed, 8 ranks, batch 64 = 2 × 4 × 8"
    ),
    f"{RAY} --actor_num_nodes 1 --actor_num_gpus_per_node 4 --use_dynamic_batch\n": (
        "OpenRLHF, DeepSpeed, 4 ranks, batch chosen at run time"
    ),
    "DS=ds.json\ndeepspeed --num_gpus 2 t.py --config-path conf ++deepspeed_config=$DS\n": (
        "DeepSpeed with ds.json, 2 ranks"
    ),
    USAGE: "Accelerate, not checked: `conf/$DS.yaml` depends on variables of the job's shell",
}


@pytest.mark.parametrize(("text", "line"), SCRIPTS.items())
def test_programs_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(
        json.dumps({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}})
    )
    Path("run.sh").write_text(text)
    main(["check", "."])
    output = capsys.readouterr().out
    assert f": {line}" in output


@pytest.mark.parametrize(("trainer", "count"), [("", 2), ("from trl import RewardTrainer\n", 0)])
def test_a_program_with_a_trainer_and_an_accelerator(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    trainer: str,
    count: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    optimizer = {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}
    Path("ds.json").write_text(json.dumps({**AUTO, "optimizer": optimizer}))
    Path("acc.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    )
    Path("t.py").write_text(
        f"from accelerate import Accelerator\n{trainer}accelerator = Accelerator()\naccelerator.prepare(1)\n"
    )
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml t.py --output_dir o\n")
    main(["check", "run.sh"])
    assert capsys.readouterr().out.count("error[") == count


INITIALIZE = (
    "import argparse, deepspeed\np = argparse.ArgumentParser()\np.add_argument('--ds_cfg_path')\na = p.parse_args()\n"
    "deepspeed.initialize(model=m, optimizer=o, config_params=a.ds_cfg_path)\n"
)


def test_a_flag_of_the_program_names_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(INITIALIZE)
    Path("ds.json").write_text(json.dumps({"train_batch_size": 32, "zero_optimization": {"stage": 1}}))
    Path("other.json").write_text("{}")
    command = "torchrun --nproc_per_node 4 t.py --ds_cfg_path"
    Path("run.sh").write_text(f"# deepspeed\n{command} ds.json\n{command} other.json\n{command} none.json\n")
    assert list(lines(capsys)) == [
        "run.sh:2: DeepSpeed with ds.json, 4 ranks, batch 32 = 8 × 1 × 4, no problems found"
    ]


def test_a_script_that_starts_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(json.dumps({"train_batch_size": 32, "zero_optimization": {"stage": 1}}))
    Path("train.sh").write_text("deepspeed --num_gpus $1 t.py --deepspeed_config ds.json\n")
    Path("eight.sh").write_text("GPUS=8\nbash train.sh $GPUS\n")
    Path("other.sh").write_text("bash missing.sh 4\n")
    assert list(lines(capsys, "eight.sh")) == [
        "eight.sh:2: DeepSpeed with ds.json, 8 ranks, batch 32 = 4 × 1 × 8, no problems found"
    ]
    assert not list(lines(capsys, "other.sh"))


@pytest.mark.parametrize(
    ("flag", "is_compared"),
    [("", True), ("--ds_path ds.json", True), ("--ds_path other.yaml", False), ("--ds_path $DS", False)],
)
def test_the_default_config_of_a_program_without_the_commands_that_name_another(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flag: str,
    is_compared: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(
        "def main(ds_path='ds.json', micro=8):\n"
        "    TrainingArguments('o', per_device_train_batch_size=8, deepspeed=ds_path)\nfire.Fire(main)\n"
    )
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}
    Path("ds.json").write_text(json.dumps(config))
    Path("run.sh").write_text(f"deepspeed --num_gpus 2 t.py {flag}\n")
    main(["check", "ds.json"])
    assert ("DSC809" in capsys.readouterr().out) == is_compared
