"""Checks of a config alone use the arguments of the one job that reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import ResolveError, check, resolve
from dsconfig.check.build_job import job_of_document
from dsconfig.cli import main
from dsconfig.document import read_file

AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
JOB = {"model_name_or_path": "m", "stage": "sft", "deepspeed": "ds/z.json", "bf16": True}
MATCH, CLASH = {**JOB, "gradient_accumulation_steps": 4}, {**JOB, "gradient_accumulation_steps": 8}
SHELL = """
deepspeed --num_gpus 8 train.py --deepspeed ds/z.json --gradient_accumulation_steps 4 \\
    --per_device_train_batch_size 2
"""


@pytest.fixture
def config(empty_repository: Path) -> str:
    """The config of a repository in the current directory."""
    (empty_repository / "ds").mkdir()
    (empty_repository / "ds" / "z.json").write_text(json.dumps(AUTO))
    return "ds/z.json"


def launched(**files: Any) -> None:
    for name, data in files.items():
        path = Path(name.replace("_", "."))
        path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))


def test_of_one_launch_file(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    launched(train_yaml=CLASH)
    report = check(config, target="0.19.8")
    assert [diagnostic.code for diagnostic in report] == ["DSC809"]
    assert report.reader.why == "`deepspeed:` in train.yaml, with the arguments of train.yaml"
    with pytest.raises(ResolveError, match="of the job is `8`"):
        resolve(config, world_size=2, target="0.19.8")
    launched(train_yaml=MATCH)
    assert main(["check", config]) == 0
    assert "with the arguments of train.yaml" in capsys.readouterr().out
    assert resolve(config, world_size=2, target="0.19.8").triplet == (64, 8, 4)
    assert main(["show", config, "--world-size", "2"]) == 0
    assert "64" in capsys.readouterr().out.splitlines()[0]


def test_with_its_world_size(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    launched(run_sh=SHELL)
    reader = job_of_document(read_file(config)).reader
    assert (reader.name, reader.processes) == ("transformers", 8)
    assert reader.why.endswith("with the arguments of run.sh (8 processes)")
    assert resolve(config, target="0.19.8").triplet == (64, 2, 4)
    assert resolve(config, world_size=4, target="0.19.8").triplet == (32, 2, 4)
    assert main(["resolve", config]) == 0
    assert "with the arguments of run.sh (8 processes)" in capsys.readouterr().err


def test_flags_win(config: str, tmp_path: Path) -> None:
    launched(run_sh=SHELL)
    assert check(config, world_size=2).world_size == 2
    assert check(config).world_size == 8
    assert check(config, consumer="accelerate").reader.training_arguments is None
    other = {"per_device_train_batch_size": 16}
    assert resolve(config, world_size=4, target="0.19.8", training_args=other).triplet == (256, 16, 4)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"train_yaml": CLASH, "b_yaml": MATCH},
            (
                "; b.yaml and train.yaml differ in `gradient_accumulation_steps` (4, 8), so it counts as "
                "unknown; choose one with --launch FILE"
            ),
        ),
        (
            {"run_sh": SHELL + SHELL.replace("steps 4", "steps 2")},
            "; commands of run.sh differ in `gradient_accumulation_steps` (4, 2), so it counts as unknown",
        ),
    ],
)
def test_differing_arguments_are_unknown_and_named(config: str, files: dict[str, Any], expected: str) -> None:
    launched(**files)
    report = check(config, target="0.19.8")
    assert list(report) == []
    assert report.reader.why.endswith(expected)
    assert report.reader.training_arguments is not None
    assert "gradient_accumulation_steps" in report.reader.training_arguments.unknown


def test_common_arguments_are_known(config: str) -> None:
    command = SHELL.rstrip() + " --bf16 true"
    launched(a_sh=command, b_sh=command.replace("steps 4", "steps 2"))
    report = check(config, target="0.19.8")
    assert report.reader.training_arguments is not None
    assert report.reader.training_arguments.arguments["bf16"] is True
    assert report.reader.training_arguments.arguments["per_device_train_batch_size"] == 2
    assert report.world_size == 8
    with pytest.raises(ResolveError, match="`gradient_accumulation_steps` of the job is not known"):
        resolve(_all_auto(config), target="0.19.8")


def _all_auto(config: str) -> str:
    Path(config).write_text(json.dumps({**AUTO, "gradient_accumulation_steps": "auto"}))
    return config


def test_processes_that_differ_are_unknown(config: str) -> None:
    launched(a_sh=SHELL, b_sh=SHELL.replace("--num_gpus 8", "--num_gpus 4"))
    report = check(config, target="0.19.8")
    assert report.world_size is None
    assert "differ in the number of processes (8, 4)" in report.reader.why


@pytest.mark.parametrize(("script", "batch"), [("a.sh", 64), ("b.sh", 32)])
def test_one_launch_file_is_chosen(
    config: str, script: str, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    launched(a_sh=SHELL, b_sh=SHELL.replace("steps 4", "steps 2"))
    _all_auto(config)
    assert main(["resolve", config, "--launch", script]) == 0
    assert json.loads(capsys.readouterr().out)["train_batch_size"] == batch
    assert main(["check", config, "--launch", script]) == 0
    assert f"with the arguments of {script} (8 processes)" in capsys.readouterr().out


def test_message_for_a_launch_file_that_does_not_name_the_config(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    launched(a_sh=SHELL, c_sh="echo\n")
    assert main(["check", config, "--launch", "c.sh"]) == 0
    assert "c.sh does not name this config" in capsys.readouterr().out
    assert main(["check", config, "--launch", "none.sh"]) == 2


def test_programs_that_write_different_things_agree_in_nothing(config: str) -> None:
    recipe = {"base_model": "m", "sequence_len": 512, "deepspeed": config, "micro_batch_size": 2}
    launched(a_yaml=recipe, b_yaml={**recipe, "deepcompile": True})
    report = check(config, target="0.19.8")
    assert (list(report), report.reader.training_arguments) == ([], None)
    assert report.reader.why.endswith("name it with different arguments, so none are used")


def test_several_that_agree_are_one(config: str) -> None:
    launched(train_yaml=CLASH, b_yaml=CLASH)
    report = check(config, target="0.19.8")
    assert report.reader.why.endswith("with the arguments of b.yaml and train.yaml")
    assert [diagnostic.code for diagnostic in report] == ["DSC809"]


def test_another_file_of_the_name_is_another(config: str) -> None:
    Path("other").mkdir()
    Path("other/z.json").write_text(json.dumps(AUTO))
    launched(train_yaml=CLASH)
    assert check("other/z.json").reader.training_arguments is None


def test_it_can_be_fixed_with_them(config: str) -> None:
    launched(train_yaml=CLASH)
    assert main(["fix", config, "--unsafe-fixes", "--exit-zero"]) == 0
    assert json.loads(Path(config).read_text())["gradient_accumulation_steps"] == "auto"


def test_a_recipe_is_read_with_its_launch_file_of_accelerate(config: str) -> None:
    block = {"deepspeed_config_file": config}
    launched(
        acc_yaml={"distributed_type": "DEEPSPEED", "num_processes": 8, "deepspeed_config": block},
        recipe_yaml={"dataset_name": "d", "accelerate_config": "acc.yaml", "gradient_accumulation_steps": 8},
    )
    report = check("recipe.yaml", target="0.19.8")
    (named,) = report.children
    assert [diagnostic.code for diagnostic in named] == []
    (child,) = named.children
    assert child.consumer == "transformers"
    assert "DSC809" in [diagnostic.code for diagnostic in child]
    recipe = {"dataset_name": "d", "accelerate_config": "acc.yaml", "gradient_accumulation_steps": 4}
    launched(recipe_yaml=recipe)
    assert resolve("recipe.yaml", target="0.19.8").triplet == (256, 8, 4)
    launched(
        acc_yaml={"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"zero_stage": 3}}
    )
    run = resolve("recipe.yaml", target="0.19.8")
    assert (run.consumer, run.triplet) == ("transformers", (64, 8, 4))


@pytest.mark.parametrize("flag", ["--deepspeed_config", "--deepspeed"])
@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("deepspeed --autotuning tune train.py {} ds/z.json\n", []),
        ("deepspeed --autotuning=run --num_gpus 8 train.py {} ds/z.json\n", []),
        ("deepspeed train.py {} ds/z.json\n", ["DSC915"]),
        ("deepspeed --autotuning tune train.py {0} o.json\ndeepspeed train.py {0} ds/z.json\n", ["DSC915"]),
    ],
)
def test_autotuning_is_meant_to_end_a_run_that_the_autotuner_starts(
    config: str, flag: str, script: str, codes: list[str]
) -> None:
    tuned = {"train_batch_size": 8, "autotuning": {"enabled": True}, "zero_optimization": {"stage": 2}}
    Path(config).write_text(json.dumps(tuned))
    launched(run_sh=script.format(flag))
    assert [
        diagnostic.code for diagnostic in check(config, target="0.19.8") if diagnostic.code == "DSC915"
    ] == codes


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ({}, ["DSC929"]),
        ({"arg_mappings": {"train_micro_batch_size_per_gpu": "--per_device_train_batch_size"}}, []),
        ({"enabled": False}, []),
    ],
)
def test_the_autotuner_changes_the_batch_size_of_the_trainer_too(
    config: str, settings: dict[str, object], codes: list[str]
) -> None:
    tuned = {"train_micro_batch_size_per_gpu": "auto", "autotuning": {"enabled": True, **settings}}
    Path(config).write_text(json.dumps(tuned))
    launched(
        run_sh="deepspeed --autotuning tune --num_gpus 2 train.py --deepspeed ds/z.json --output_dir o "
        "--per_device_train_batch_size 4 --learning_rate 1e-5\n"
    )
    found = [diagnostic.code for diagnostic in check(config, target="0.19.8")]
    assert [code for code in found if code == "DSC929"] == codes


def test_scripts_that_calculate_with_their_ranks_agree(config: str) -> None:
    fixed = SHELL.rstrip() + " --bf16 true --learning_rate 1e-5"
    reckoned = (
        "N=${SLURM_NNODES:-2}\n"
        + SHELL.rstrip().replace("--num_gpus 8", "--num_nodes $N --num_gpus 8")
        + " --bf16 true"
    )
    launched(
        a_sh=fixed,
        b_sh=reckoned,
        c_yaml={**JOB, "gradient_accumulation_steps": 4, "per_device_train_batch_size": 2},
    )
    arguments = job_of_document(read_file(config)).reader.training_arguments
    assert arguments is not None
    assert arguments.arguments["per_device_train_batch_size"] == 2
    assert arguments.arguments["gradient_accumulation_steps"] == 4
    assert "learning_rate" in arguments.unknown
    effective = resolve(_all_auto(config), world_size=16, target="0.19.8")
    assert effective.triplet == (128, 2, 4)
