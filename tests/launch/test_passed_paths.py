"""Configs whose path a job passes on: parsed as the job parses them, whatever the suffix."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import check, fix
from dsconfig.cli import main
from dsconfig.launch.config_source import read_config_at_path

JSON = '{"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8}}\n'
YAML = "train_batch_size: 8\nzero_optimization:\n  stage: 2\n"
FLAT = "train_batch_size: 8\ngradient_clipping: 1.0\n"
ARGUMENTS = "--output_dir out --per_device_train_batch_size 8"
LAUNCHES = {
    "deepspeed": ("train.sh", "deepspeed train.py --deepspeed --deepspeed_config ds.yaml\n"),
    "transformers": ("train.sh", f"deepspeed train.py --deepspeed ds.yaml {ARGUMENTS}\n"),
    "llama-factory": ("sft.yaml", "stage: sft\nmodel_name_or_path: x\ndeepspeed: ds.yaml\noutput_dir: o\n"),
    "accelerate": (
        "launch.yaml",
        "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.yaml\n",
    ),
    "lightning": (
        "fit.yaml",
        "trainer: {strategy: {class_path: DeepSpeedStrategy, init_args: {config: ds.yaml}}}\n",
    ),
}
READERS = {
    "deepspeed": "DeepSpeed, which parses Hjson",
    "transformers": "Transformers",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def messages_of(name: str) -> list[tuple[str, str]]:
    report = check(name, target="0.19.8")
    return [(each.code, each.message) for diagnostics in (report, *report.children) for each in diagnostics]


@pytest.mark.parametrize("job", LAUNCHES)
def test_json_text_under_a_yaml_name_is_read_as_json(here: Path, job: str) -> None:
    """YAML 1.1 parses `5e8` as a string, DeepSpeed and `json.load` as a number."""
    name, text = LAUNCHES[job]
    (here / name).write_text(text)
    (here / "ds.yaml").write_text(JSON)
    assert "DSC115" not in [code for code, _ in messages_of(name)]
    if job in ("deepspeed", "transformers"):
        assert "DSC115" not in [code for code, _ in messages_of("ds.yaml")]
        assert read_config_at_path("ds.yaml").format == "json"


@pytest.mark.parametrize(("program", "codes"), [("", []), ("import yaml\n", ["DSC115"])])
def test_without_a_job_a_program_may_load_yaml(here: Path, program: str, codes: list[str]) -> None:
    (here / "ds.yaml").write_text(JSON)
    (here / "train.py").write_text(f"import deepspeed\n{program}")
    assert [code for code, _ in messages_of("ds.yaml")] == codes


@pytest.mark.parametrize("job", LAUNCHES)
def test_yaml_text_is_rejected_by_json_parsers(here: Path, job: str) -> None:
    name, text = LAUNCHES[job]
    (here / name).write_text(text)
    (here / "ds.yaml").write_text(YAML)
    names = [name, "ds.yaml"] if job in READERS else [name]
    for each in names:
        ((_, message),) = [one for one in messages_of(each) if one[0] == "DSC001"]
        assert message.startswith("the file is YAML, but its path is passed to ")
        assert READERS.get(job, "") in message
    assert not fix("ds.yaml", unsafe=True).applied
    for argv in (["fix", "--unsafe-fixes", *names], ["show", "ds.yaml"], ["check", "."]):
        main(argv)
    assert (here / "ds.yaml").read_text() == YAML


def test_yaml_text_that_hjson_reads_alike_is_taken_by_deepspeed_alone(here: Path) -> None:
    (here / "ds.yaml").write_text(FLAT)
    (here / "train.sh").write_text(LAUNCHES["deepspeed"][1])
    assert "DSC001" not in [code for code, _ in messages_of("train.sh")]
    (here / "train.sh").write_text(LAUNCHES["transformers"][1])
    assert "DSC001" in [code for code, _ in messages_of("train.sh")]


@pytest.mark.parametrize("section", ["zero_optimization", "fp16", "bf16", "optimizer", "scheduler"])
def test_hjson_makes_a_string_of_a_section_in_yaml(here: Path, section: str) -> None:
    """DeepSpeed 0.14.5 and 0.19.8 raise TypeError or AttributeError for each of these."""
    (here / "ds.yaml").write_text(f"train_batch_size: 8\n{section}:\n  type: x\n")
    (here / "train.sh").write_text(LAUNCHES["deepspeed"][1])
    assert "DSC001" in [code for code, _ in messages_of("train.sh")]


@pytest.mark.parametrize("loader", ["import yaml", "from omegaconf import OmegaConf", "import hydra"])
def test_a_program_may_load_yaml_itself(here: Path, loader: str) -> None:
    (here / "train.py").write_text(f"{loader}\nimport deepspeed\ndeepspeed.initialize(config=load(args))\n")
    (here / "ds.yaml").write_text(YAML)
    for job in ("deepspeed", "transformers"):
        (here / "train.sh").write_text(LAUNCHES[job][1])
        assert "DSC001" not in [code for code, _ in messages_of("train.sh")]
        assert "DSC001" not in [code for code, _ in messages_of("ds.yaml")]


def test_a_program_that_names_the_file_may_open_it(here: Path) -> None:
    (here / "train.py").write_text('deepspeed.initialize(config=load_config("ds.yaml"))\n')
    (here / "ds.yaml").write_text(YAML)
    assert messages_of("ds.yaml") == []


def test_launch_files_stay_yaml(here: Path) -> None:
    (here / "launch.yaml").write_text("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n")
    (here / "train.sh").write_text("accelerate launch --config_file launch.yaml train.py\n")
    assert "DSC001" not in [code for code, _ in (*messages_of("train.sh"), *messages_of("launch.yaml"))]
