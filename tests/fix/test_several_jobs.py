"""A script that starts several jobs: every command and function sees the config of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig
from dsconfig.cli import main
from dsconfig.launch.python.config_dicts import _cached_configs
from dsconfig.launch.repository_files import assume_unchanged_files

FIRST = '{"train_batch_size": "auto", "gradient_cliping": 1.0, "zero_optimization": {"stage": 2}}'
SECOND = '{"train_batch_size": "auto", "fp16": {"enabled": "auto", "loss_scal": 0}, "zero_optimization": {"stage": 2}}'
COMMANDS = """deepspeed --num_gpus 8 a.py --deepspeed {first} --output_dir out
deepspeed --num_gpus 4 b.py --deepspeed {second} --output_dir out
"""
FLAGS = COMMANDS.format(first=f"'{FIRST}'", second=f"'{SECOND}'")
HERE_DOCUMENTS = f"cat > a.json <<EOF\n{FIRST}\nEOF\ncat > b.json <<EOF\n{SECOND}\nEOF\n" + COMMANDS.format(
    first="a.json", second="b.json"
)
FIXED = ('"gradient_clipping": 1.0', '"loss_scale": 0')


def write_files(folder: Path) -> None:
    (folder / "train.sh").write_text(COMMANDS.format(first="a.json", second="b.json"))
    (folder / "a.json").write_text(FIRST)
    (folder / "b.json").write_text(SECOND)


@pytest.mark.parametrize("path", ["train.sh", "."])
def test_fix_changes_the_file_of_each_job(empty_repository: Path, path: str) -> None:
    write_files(empty_repository)
    main(["fix", "--unsafe-fixes", path])
    texts = [(empty_repository / name).read_text() for name in ("a.json", "b.json")]
    assert [fixed in text for fixed, text in zip(FIXED, texts, strict=True)] == [True, True]
    assert (empty_repository / "train.sh").read_text() == COMMANDS.format(first="a.json", second="b.json")


def test_fix_of_a_folder_finds_what_check_finds(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_repository / "train.sh").write_text(
        "deepspeed --num_gpus 8 a.py --deepspeed a.json --output_dir o\n"
    )
    (empty_repository / "a.json").write_text('{"train_batch_size": 8}')  # no config but for the job
    assert main(["check", "--output-format", "concise"]) == 1
    assert "DSC802" in capsys.readouterr().out
    assert main(["fix"]) == 0
    assert json.loads((empty_repository / "a.json").read_text())["zero_optimization"] == {"stage": 0}


@pytest.mark.parametrize("text", [FLAGS, HERE_DOCUMENTS], ids=["flags", "here-documents"])
def test_configs_inside_the_script(empty_repository: Path, text: str) -> None:
    (empty_repository / "train.sh").write_text(text)
    report = dsconfig.check("train.sh")
    assert [each.path[-1] for each in report] == ["gradient_cliping", "loss_scal"]
    assert len(report.jobs) == 2
    result = dsconfig.fix("train.sh", unsafe=True)
    assert [each in result.text for each in FIXED] == [True, True]
    assert (len(result.applied), result.remaining) == (2, ())
    main(["fix", "--unsafe-fixes", "train.sh"])
    assert (empty_repository / "train.sh").read_text() == result.text


def test_the_report_lists_the_files_of_all_jobs(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(empty_repository)
    report = dsconfig.check("train.sh")
    assert [each.name for each in report.children] == ["a.json", "b.json"]
    assert [job.world_size for job in report.jobs] == [8, 4]
    assert report.world_size is None, "the jobs have different ones"
    main(["check", "train.sh", "--output-format", "json"])
    assert report.to_dict()["files"] == json.loads(capsys.readouterr().out)["files"]
    main(["check", "train.sh"])
    assert str(report) == capsys.readouterr().out.rstrip("\n")


def test_one_config_of_two_jobs_is_listed_once(empty_repository: Path) -> None:
    write_files(empty_repository)
    (empty_repository / "train.sh").write_text(COMMANDS.format(first="a.json", second="a.json"))
    report = dsconfig.check("train.sh")
    assert [each.name for each in report.children] == ["a.json"]
    assert [each.code for each in report.children[0]].count("DSC102") == 1


def test_what_harms_another_job_is_not_fixed(empty_repository: Path) -> None:
    (empty_repository / "train.sh").write_text(
        f"cat > a.json <<EOF\n{FIRST}\nEOF\n"
        + COMMANDS.format(first="a.json --max_grad_norm 1.0", second="a.json --max_grad_norm 0.5")
    )
    result = dsconfig.fix("train.sh", unsafe=True)
    assert "gradient_cliping" in result.text, "the second job would be rejected: 1.0 against 0.5"


def test_add_ignore_writes_into_the_file_of_each_job(empty_repository: Path) -> None:
    write_files(empty_repository)
    main(["check", "--add-ignore"])
    for name in ("a.json", "b.json"):
        assert "ignore" in json.loads((empty_repository / name).read_text())["$dsconfig"]
    assert main(["check"]) == 0


PROGRAM = """import deepspeed


def train_{number}(model):
    zero = {{"stage": 2, "overlap_com": True}}
    config = {{"train_batch_size": 8, "gradient_cliping": {number}.5, "zero_optimization": zero}}
    return deepspeed.initialize(model=model, config=config)
"""


def write_program(folder: Path, configs: int) -> str:
    text = "".join(PROGRAM.format(number=number) for number in range(configs))
    (folder / "train.py").write_text(text)
    return text


def test_functions_see_every_config_of_a_program(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_program(empty_repository, 3)
    report = dsconfig.check("train.py")
    assert [each.path[-1] for each in report].count("gradient_cliping") == 3
    assert all(each.fix for each in report if each.code == "DSC102")
    main(["check", "train.py"])
    assert str(report) == capsys.readouterr().out.rstrip("\n")
    fixed = text.replace("cliping", "clipping").replace("overlap_com", "overlap_comm")
    result = dsconfig.fix("train.py", unsafe=True)
    assert (result.text, len(result.applied)) == (fixed, 6)
    main(["fix", "--unsafe-fixes", "train.py"])
    assert (empty_repository / "train.py").read_text() == fixed


@pytest.mark.parametrize(
    ("stage", "reads"), [(2, 2), (0, 4)], ids=["all fixes hold", "one of two fixes holds"]
)
def test_trials_read_a_program_once_for_all_of_its_configs(
    empty_repository: Path, stage: int, reads: int
) -> None:
    text = write_program(empty_repository, 20)
    (empty_repository / "train.py").write_text(text.replace('"stage": 2', f'"stage": {stage}'))
    _cached_configs.cache_clear()
    with assume_unchanged_files():  # otherwise the cache forgets after five seconds
        report = dsconfig.check("train.py")
    fixed = [each.fix is not None for each in report if each.code == "DSC102"]
    assert (len(fixed), fixed.count(True)) == (40, 40 if stage else 20)
    assert _cached_configs.cache_info().misses == reads


def test_a_config_whose_fix_does_harm_is_verified_alone(empty_repository: Path) -> None:
    text = write_program(empty_repository, 2)
    text = text.replace('"gradient_cliping": 1.5', '"gradient_cliping": 1.5, "gradient_clipping": 1.0')
    (empty_repository / "train.py").write_text(text)
    diagnostics = [each for each in dsconfig.check("train.py") if each.dotted == "gradient_cliping"]
    assert [each.fix is not None for each in diagnostics] == [True, False]


NUMBERED = """deepspeed --num_gpus 8 train.py --deepspeed_config a.json
deepspeed --num_gpus 4 train.py --deepspeed_config b.json
"""


def numbered_script(folder: Path) -> None:
    (folder / "train.sh").write_text(NUMBERED)
    (folder / "train.py").write_text("import deepspeed\n")
    for name, micro in (("a.json", 2), ("b.json", 3)):
        (folder / name).write_text(
            json.dumps({"train_micro_batch_size_per_gpu": micro, "fp16": {"enabled": True}})
        )


@pytest.mark.parametrize(("option", "batch"), [([], 16), (["--job", "1"], 16), (["--job", "2"], 12)])
def test_a_command_with_one_result_says_which_job_it_is_about(
    option: list[str], batch: int, empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbered_script(empty_repository)
    assert main(["resolve", "train.sh", *option]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["train_batch_size"] == batch
    note = "train.sh starts 2 jobs that differ (1: train.sh:1, a.json; 2: train.sh:2, b.json); this is about job 1"
    assert (note in " ".join(err.split())) is not bool(option)
    assert main(["show", "train.sh", "--output-format", "json", *option]) == 0
    values = {each["key"]: each["value"] for each in json.loads(capsys.readouterr().out)["values"]}
    assert values["train_batch_size"] == batch


@pytest.mark.parametrize(("option", "config"), [([], "a.json"), (["--job", "2"], "b.json")])
def test_migrate_reports_on_the_config_of_the_selected_job(
    option: list[str], config: str, empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbered_script(empty_repository)
    main(["migrate", "train.sh", *option, "--from", "0.14.0", "--to", "0.19.8"])
    assert f"{config}: from 0.14.0 (--from) to 0.19.8" in capsys.readouterr().err


def test_a_job_that_does_not_exist_is_named(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbered_script(empty_repository)
    assert main(["memory", "train.sh", "--model", "llama-3-8b", "--job", "3"]) == 2
    assert "--job: there is no job 3: train.sh has 2 jobs" in capsys.readouterr().err
    with pytest.raises(ValueError, match="there is no job 3"):
        dsconfig.compat("train.sh", job=3)


def test_functions_select_a_job_and_warn_without(empty_repository: Path) -> None:
    numbered_script(empty_repository)
    selected = [
        dsconfig.resolve("train.sh", job=2).world_size,
        dsconfig.load("train.sh", job=2).train_micro_batch_size_per_gpu,
        dsconfig.check("train.sh", job=2).world_size,
        next(
            each.value for each in dsconfig.show("train.sh", job=2).values if each.key == "train_batch_size"
        ),
        len(dsconfig.check("train.sh", job=2).jobs),
    ]
    assert selected == [4, 3, 4, 12, 0]
    for function in (dsconfig.resolve, dsconfig.load, dsconfig.show, dsconfig.compat):
        with pytest.warns(UserWarning, match="this is .* job 1"):
            function("train.sh")


def test_a_config_of_a_python_source_is_selected(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "import deepspeed\n" + "".join(
        f"{name} = {{'train_batch_size': {size}, 'zero_optimization': {{'stage': 2}}}}\n"
        f"deepspeed.initialize(model=m, config={name})\n"
        for name, size in (("a", 8), ("b", 24))
    )
    (empty_repository / "train.py").write_text(source)
    assert main(["resolve", "train.py", "--world-size", "4"]) == 2
    assert "select one by its number, from 1 to 2 (--job N)" in " ".join(capsys.readouterr().err.split())
    assert main(["resolve", "train.py", "--world-size", "4", "--job", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["train_batch_size"] == 24
