"""Launch files: recognition by their keys, the config they name, and their arguments."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import yaml

from dsconfig import ResolveError, check, resolve
from dsconfig.check.accepting_releases import compat
from dsconfig.cli import main
from dsconfig.core.releases import resolve_target as target
from dsconfig.document import read_file
from dsconfig.launch.launch_file_formats import FORMATS, detect_launch_format
from dsconfig.launch.training_arguments import parse_human_numbers
from tests.launches import AUTO, COMMANDS, JOBS, launch

ARGS = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "bf16": True}


def test_every_format_has_an_example() -> None:
    assert {*JOBS, *COMMANDS} == {each.name for each in FORMATS}
    assert all(
        each.source and (each.signs or each.programs) and (each.config or each.commands or each.builds)
        for each in FORMATS
    )


@pytest.mark.parametrize("name", JOBS)
def test_recognized_and_followed(project: Path, name: str) -> None:
    launch_format = detect_launch_format(JOBS[name])
    assert launch_format is not None
    assert launch_format.name == name
    report = check(launch(project, JOBS[name]))
    (child,) = report.children or (report,)
    assert report.is_embedded or not report.diagnostics
    assert child.consumer == launch_format.reader
    assert bool(report.base_path) == (name in ("ArcticTraining", "Composer"))
    if launch_format.builds and launch_format.built_from in JOBS[name]:
        assert child.name == report.name
    elif report.children:
        assert Path(child.name) == Path("ds/z.json")
        assert "train.yaml:" in report.notes[0]
        assert report.notes[0].endswith("found from the current folder")


HANDED_TO_THE_TRAINER = ["LLaMA-Factory", "Transformers", "ms-swift", "TRL"]


@pytest.mark.parametrize("name", HANDED_TO_THE_TRAINER)
def test_arguments_fill_the_batch(project: Path, name: str) -> None:
    path = launch(project, JOBS[name], **ARGS)
    assert check(path, world_size=8).ok
    run = resolve(path, world_size=8, target="0.19.8")
    assert run.triplet == (64, 2, 4)
    assert run.consumer == "transformers"
    assert run.config["bf16"] == {"enabled": True}


def test_other_names_and_defaults(project: Path) -> None:
    assert resolve(launch(project, JOBS["Axolotl"]), world_size=2, target="0.19.8").triplet == (4, 2, 1)
    run = resolve(launch(project, JOBS["Axolotl"], batch_size=8, bf16="auto"), world_size=2, target="0.19.8")
    assert run.triplet == (4, 2, 1), "accumulation has a default, which `batch_size` does not change"
    assert run.config["bf16"] == {"enabled": True}
    assert resolve(launch(project, JOBS["Transformers"]), world_size=2, target="0.19.8").triplet == (16, 8, 1)


def test_writes_of_a_program(project: Path) -> None:
    job = {**JOBS["ms-swift"], "zero_hpz_partition_size": 8, "train_type": "full"}
    optimizer = {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, **optimizer}))
    run = resolve(launch(project, job, per_device_train_batch_size=1), world_size=4, target="0.19.8")
    assert run.triplet == (16, 1, 4), "its updates are of 16 samples"
    assert run.config["zero_optimization"]["zero_hpz_partition_size"] == 8
    assert run.config["optimizer"]["params"]["lr"] == 1e-5
    lora = resolve(launch(project, {**job, "train_type": "lora"}), world_size=32, target="0.19.8")
    assert (lora.triplet, lora.config["optimizer"]["params"]["lr"]) == ((32, 1, 1), 1e-4)
    run = resolve(
        launch(project, {**JOBS["Axolotl"], "deepcompile": True, "tensor_parallel_size": 1}),
        world_size=2,
        target="0.19.8",
    )
    assert run.config["compile"] == {"deepcompile": True}
    assert "tensor_parallel" not in run.config


@pytest.mark.parametrize(("kind", "stage", "written"), [("grpo", 3, 0), ("grpo", 2, 9), ("dpo", 3, 9)])
def test_write_for_one_stage(project: Path, kind: str, stage: int, written: int) -> None:
    zero = {"stage": stage, "stage3_prefetch_bucket_size": 9}
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "zero_optimization": zero}))
    run = resolve(launch(project, {**JOBS["ms-swift"], "rlhf_type": kind}), world_size=4, target="0.19.8")
    assert run.config["zero_optimization"]["stage3_prefetch_bucket_size"] == written


def test_mismatch_with_the_trainer(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "gradient_accumulation_steps": 8}))
    path = launch(project, JOBS["LLaMA-Factory"], **ARGS)
    (child,) = check(path).children
    (diagnostic,) = child
    assert (diagnostic.code, diagnostic.dotted) == ("DSC809", "gradient_accumulation_steps")
    assert "`gradient_accumulation_steps` of the job is `4`" in diagnostic.message
    with pytest.raises(ResolveError, match="rejects values that differ"):
        resolve(path, world_size=8, target="0.19.8")
    (stretch,) = compat(read_file(path), target=target("0.19.8"), consumer="transformers")
    assert (stretch.word, stretch.reason and stretch.reason.code) == ("rejected", "DSC809")


def test_precision_that_the_trainer_rejects(project: Path) -> None:
    config = {**AUTO, "fp16": {"enabled": True}}
    (project / "ds" / "z.json").write_text(json.dumps(config))
    (child,) = check(launch(project, JOBS["Transformers"], **ARGS)).children
    assert "DSC809" in {diagnostic.code for diagnostic in child}


def test_values_unknown_before_the_run_are_not_guessed(project: Path) -> None:
    config = {**AUTO, "gradient_accumulation_steps": 3, "bf16": {"enabled": True}}
    (project / "ds" / "z.json").write_text(json.dumps(config))
    assert check(launch(project, JOBS["ms-swift"])).ok


def test_number_that_yaml_parses_as_text(project: Path) -> None:
    config = {**AUTO, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
    (project / "ds" / "z.json").write_text(json.dumps(config))
    path = project / "launch" / "train.yaml"
    path.write_text("output_dir: o\ndeepspeed: ds/z.json\nlearning_rate: 1e-5\n")
    assert resolve(str(path), world_size=1, target="0.19.8").config["optimizer"]["params"]["lr"] == 1e-5


@pytest.mark.parametrize(("written", "where"), [("z.json", "ds"), ("../ds/z.json", "launch")])
def test_search_in_other_directories(
    project: Path, monkeypatch: pytest.MonkeyPatch, written: str, where: str
) -> None:
    (project / "ds" / "deep").mkdir()
    path = project / ("ds/deep" if where == "ds" else "launch") / "train.yaml"
    path.write_text(yaml.safe_dump({"output_dir": "o", "deepspeed": written}))
    report = check(str(path))
    assert [Path(child.name).resolve() for child in report.children] == [project / "ds" / "z.json"]
    assert report.notes[0].endswith(f"found from {where}")


def test_missing_config(project: Path) -> None:
    report = check(launch(project, {"output_dir": "o", "deepspeed": "no/such.json"}))
    assert report.ok
    assert not report.children
    assert "train.yaml:1: `no/such.json` was not found from the current folder, launch" in report.notes[0]
    with pytest.raises(ResolveError, match="was not found from"):
        resolve(launch(project, {"output_dir": "o", "deepspeed": "no/such.json"}), world_size=1)


def test_embedded_config(project: Path) -> None:
    report = check(
        launch(project, {"base_model": "m", "datasets": [], "deepspeed": {"zero_optimization": {"stage": 9}}})
    )
    assert "deepspeed.zero_optimization.stage" in {diagnostic.dotted for diagnostic in report}
    text = json.dumps({"zero_optimization": {"stage": 9}})
    assert not check(launch(project, {"output_dir": "o", "deepspeed": text})).ok


def test_launch_file_that_names_an_accelerate_file(project: Path) -> None:
    block = {"zero_stage": 7}
    text = yaml.safe_dump({"distributed_type": "DEEPSPEED", "num_processes": 4, "deepspeed_config": block})
    (project / "ds" / "acc.yaml").write_text(text)
    (child,) = check(launch(project, {"dataset_name": "d", "accelerate_config": "ds/acc.yaml"})).children
    assert {diagnostic.dotted for diagnostic in child if diagnostic.severity == "error"} == {
        "deepspeed_config.zero_stage"
    }


def test_launch_file_without_deepspeed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = launch(project, {"model_name_or_path": "m", "stage": "sft", "dataset": "d"})
    assert main(["check", path]) == 2
    assert (
        "not a DeepSpeed config: a launch file of LLaMA-Factory that names no config"
        in capsys.readouterr().err
    )


def test_hyperparameter_search(project: Path) -> None:
    inner = {"deepspeed": "ds/z.json", "gradient_accumulation_steps": {"type": "const", "val": 4}}
    inner["learning_rate"] = {"type": "log", "minval": -5, "maxval": -2}
    job = {"entrypoint": "x", "hyperparameters": {"training_args": inner}}
    assert resolve(launch(project, job), world_size=2, target="0.19.8").triplet == (64, 8, 4)
    inner["deepspeed"] = {"type": "const", "val": "ds/z.json"}
    assert check(launch(project, job)).children


SCRIPT = """#!/bin/bash
export GPUS=4
DS="ds/z.json"
OUT=${OUT:-out}
# deepspeed --deepspeed ds/other.json
torchrun --nproc_per_node=$GPUS --nnodes 2 train.py \\
    --deepspeed "${DS}" --output_dir $OUT --bf16 True \\
    --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 2e-5
"""


def test_a_shell_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "launch" / "train.sh").write_text(SCRIPT)
    report = check("launch/train.sh")
    (child,) = report.children
    assert (child.consumer, child.world_size, child.ok) == ("transformers", 8, True)
    run = resolve("launch/train.sh", target="0.19.8")
    assert (run.triplet, run.world_size) == ((64, 2, 4), 8)
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "gradient_accumulation_steps": 8}))
    assert main(["check", "launch/train.sh", "ds/z.json", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.count("DSC809") == 1
    (project / "launch" / "train.sh").write_text("echo hello\n")
    assert main(["check", "launch/train.sh"]) == 2
    assert "not a DeepSpeed config: a shell script whose commands name no config" in capsys.readouterr().err
    (project / "launch" / "train.sh").write_text(SCRIPT + "echo hello\n" * 200_000)
    assert main(["check", "launch/train.sh"]) == 2
    assert "a shell script that is too large to be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "consumer", "size"),
    [
        ("deepspeed --num_gpus 8 t.py --deepspeed --deepspeed_config ds/z.json", "deepspeed", 8),
        (
            "accelerate launch --num_processes 6 --num_machines 2 --deepspeed_config_file ds/z.json t.py",
            "accelerate",
            6,
        ),
        ("swift sft --model m --deepspeed ds/z.json", "transformers", None),
        ("X=1 deepspeed t.py --deepspeed=ds/z.json 'open", "transformers", None),
    ],
)
def test_commands(project: Path, line: str, consumer: str, size: int | None) -> None:
    (project / "run.slurm").write_text(f"{line}\n")
    (child,) = check("run.slurm").children
    assert (child.consumer, child.world_size) == (consumer, size)


def test_manifests_know_the_world_size(project: Path) -> None:
    assert check(launch(project, JOBS["Azure ML"])).children[0].world_size == 8


def test_a_variable_of_the_shell(project: Path) -> None:
    report = check(launch(project, {"output_dir": "o", "deepspeed": "${DS}/z.json"}))
    (note,) = report.notes
    assert note.endswith(":1: `${DS}/z.json` depends on variables of the job's shell and is not checked")


def test_directories_are_searched_for_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch(project, JOBS["Axolotl"])
    (project / "other.yaml").write_text("base_model: m\ndatasets: []\n")
    assert main(["check", ".", "--output-format", "json", "-q"]) == 0
    files = [file["path"] for file in json.loads(capsys.readouterr().out)["files"]]
    assert files == ["launch/train.yaml", "ds/z.json"]
    assert main(["fix", ".", "--diff"]) == 0, "the config itself is fixed, too"


def test_the_world_size_of_the_job(project: Path) -> None:
    job = {**JOBS["Determined"], "resources": {"slots_per_trial": 4}}
    (project / "ds" / "z.json").write_text(json.dumps({"train_batch_size": 6}))
    report = check(launch(project, job))
    assert report.children[0].world_size == 4
    assert not report.ok


@pytest.mark.parametrize("argument", ["learning_rate", "max_steps", "per_device_train_batch_size"])
@pytest.mark.parametrize("value", [10**400, -1, [], {"a": 1}, "x", float("nan")])
@pytest.mark.parametrize("name", ["Transformers", "LLaMA-Factory v1"])
def test_impossible_arguments(project: Path, name: str, argument: str, value: object) -> None:
    path = launch(project, JOBS[name], **{**ARGS, argument: value})
    assert len(check(path, world_size=8).children) == 1
    with contextlib.suppress(ValueError):  # `ResolveError` among them
        resolve(path, world_size=8, target="0.19.8")


def test_a_batch_beyond_all_limits(project: Path) -> None:
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "train_batch_size": 10**400}))
    (child,) = check(launch(project, JOBS["Axolotl"]), world_size=8).children
    assert [diagnostic.code for diagnostic in child] == ["DSC809"]


@pytest.mark.parametrize("total", [24, "auto"])
def test_a_contradiction_gives_one_diagnostic(project: Path, total: object) -> None:
    """The Trainer rejects values that differ from its arguments, so no batch is derived from them."""
    batch = {"train_batch_size": total, "train_micro_batch_size_per_gpu": 4 if total == "auto" else "auto"}
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, **batch}))
    (child,) = check(launch(project, JOBS["LLaMA-Factory"], **ARGS), world_size=8).children
    assert [diagnostic.code for diagnostic in child] == ["DSC809"]


@pytest.mark.parametrize(("loop", "compared"), [("config=args.deepspeed, model=m", False), ("model=m", True)])
def test_own_training_loop_compares_nothing(project: Path, loop: str, compared: bool) -> None:
    (project / "launch" / "train.py").write_text(
        f"(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(f)\ndeepspeed.initialize({loop})\n"
    )
    (project / "ds" / "z.json").write_text(json.dumps({**AUTO, "train_micro_batch_size_per_gpu": 4}))
    (child,) = check(launch(project, JOBS["Transformers"], **ARGS)).children
    assert ("DSC809" in {diagnostic.code for diagnostic in child}) == compared


def test_no_hint_about_values_that_the_job_fills(project: Path) -> None:
    """Without warm-up the Trainer fills 1 step, which DeepSpeed raises to 2; no file contains either."""
    schedule = {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}
    config = {**AUTO, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": schedule}
    (project / "ds" / "z.json").write_text(json.dumps(config))
    (child,) = check(launch(project, JOBS["LLaMA-Factory"], **ARGS)).children
    assert not child.diagnostics
    schedule["params"]["warmup_num_steps"] = 1  # type: ignore[index]
    (project / "ds" / "z.json").write_text(json.dumps(config))
    (child,) = check(launch(project, JOBS["LLaMA-Factory"], **ARGS)).children
    assert "DSC561" in {diagnostic.code for diagnostic in child}


def test_paths_in_messages_are_relative(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = launch(project, JOBS["Axolotl"])
    monkeypatch.chdir(project / "launch")
    (child,) = check(path).children
    assert Path(child.name) == Path("../ds/z.json")


def test_programs_that_write_the_batch_themselves(project: Path) -> None:
    stages = {"zero_optimization": {"stage": 3, "reduce_bucket_size": "5e8"}}
    job = {**JOBS["ArcticTraining"], "micro_batch_size": 2, "gradient_accumulation_steps": 4}
    path = launch(project, job, deepspeed=stages)
    assert not check(path).diagnostics
    assert resolve(path, world_size=4, target="0.19.8").triplet == (32, 2, 4)
    stages["zero_optimization"]["reduce_bucket_size"] = 500
    assert check(launch(project, JOBS["Composer"], deepspeed_config=stages)).ok


@pytest.mark.parametrize(
    ("text", "number"),
    [("5e8", 5e8), ("500m", 5e8), ("1_000", 1000.0), ("2^20", 2.0**20), ("1.5ki", 1536.0), ("-1", -1.0)],
)
def test_human_numbers(text: str, number: float) -> None:
    assert parse_human_numbers({"a": {"b": text, "c": [text]}}) == {"a": {"b": number, "c": [text]}}


@pytest.mark.parametrize("text", ["auto", "", "5x", "nvme", "9^999", "e5", "1e5e5"])
def test_words_are_not_numbers(text: str) -> None:
    assert parse_human_numbers(text) == text
