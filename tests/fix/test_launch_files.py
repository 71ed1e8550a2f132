"""`dsconfig fix LAUNCH` fixes the config that the job reads, and leaves the launch file alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig.cli import main

CONFIG = """\
{
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": 2,
  "prescale_gradients": 0,
  "zero_optimization": {"stage": 2, "overlap_com": true}
}
"""
SAFE = CONFIG.replace(": 0", ": false").replace("overlap_com", "overlap_comm")
UNSAFE = SAFE.replace('steps": 2', 'steps": "auto"')
STEPS = "deepspeed: ds/z.json\ngradient_accumulation_steps:"
RECIPES = {
    "jobs/four.yaml": f"model_name_or_path: m\nstage: sft\n{STEPS} 4\n",
    "jobs/two.yaml": f"base_model: m\nmicro_batch_size: 1\n{STEPS} 2\n",
    "jobs/run.sh": "deepspeed t.py --deepspeed ds/z.json --gradient_accumulation_steps 4\n",
    "jobs/acc.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds/z.json\n",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a config and the jobs that read it."""
    (tmp_path / ".git").mkdir()
    for name, text in {**RECIPES, "ds/z.json": CONFIG}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def texts(project: Path) -> dict[str, str]:
    return {name: (project / name).read_text() for name in (*RECIPES, "ds/z.json")}


@pytest.mark.parametrize("name", RECIPES)
def test_the_config_is_fixed(project: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fix", name])
    out = capsys.readouterr().out
    assert texts(project) == {**RECIPES, "ds/z.json": SAFE}
    assert "ds/z.json: zero_optimization.overlap_com: rename to `overlap_comm` (DSC102" in out
    assert "Fixed 2 findings in 1 file" in out


@pytest.mark.parametrize("verb", [["fix"], ["check", "--fix"]], ids=" ".join)
def test_in_the_circumstances_of_the_job(project: Path, verb: list[str]) -> None:
    assert main([*verb, "--unsafe-fixes", "jobs/four.yaml"]) == 0
    assert texts(project)["ds/z.json"] == UNSAFE


def test_what_one_of_two_jobs_needs_is_left(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fix that another job does not ask for may take from it what it reads."""
    assert main(["fix", "--unsafe-fixes", "jobs/four.yaml", "jobs/two.yaml", "ds/z.json"]) == 1
    assert texts(project)["ds/z.json"] == SAFE
    out = capsys.readouterr().out
    assert "Fixed 2 findings in 1 file; 1 finding left" in out
    assert out.count("overlap_com`") == 0


def test_a_folder_counts_each_file_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--fix", "--output-format", "concise", "."])
    said = "".join(capsys.readouterr())
    assert said.count("Fixed 2 findings in 1 file") == 1
    assert "Checked 4 files" in said
    assert said.count("ds/z.json:3:34: ") == said.count(" error: ") == 1
    assert texts(project)["ds/z.json"] == SAFE


def test_a_diff_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["fix", "--diff", "jobs/four.yaml", "jobs/two.yaml"])
    said = capsys.readouterr()
    assert texts(project) == {**RECIPES, "ds/z.json": CONFIG}
    assert said.out.count("+++ b/ds/z.json") == 1
    assert said.out.count('\n+  "prescale_gradients": false,') == 1
    assert "Would fix 2 findings in 1 file" in said.out + said.err


def test_what_is_excluded_or_elsewhere_stays(
    project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    away = tmp_path_factory.mktemp("away") / "z.json"
    away.write_text(CONFIG)
    job = project / "jobs" / "four.yaml"
    job.write_text(job.read_text().replace("ds/z.json", str(away)))
    assert main(["fix", "jobs/four.yaml"]) == 1
    assert away.read_text() == CONFIG
    assert "stands outside of this repository, and is not changed" in capsys.readouterr().err
    (project / "dsconfig.toml").write_text('exclude = ["ds"]\n')
    assert main(["fix", "jobs/two.yaml"]) == 0
    assert texts(project)["ds/z.json"] == CONFIG
    assert main(["check", "jobs/two.yaml"]) == 0
    assert "ds/z.json, which jobs/two.yaml names, is excluded by dsconfig.toml" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "ds" / "z.json").unlink()
    assert main(["fix", "jobs/four.yaml"]) == 0
    assert "`ds/z.json` is not found from the current folder, jobs" in capsys.readouterr().out


def test_on_stdin_only_the_text_is_fixed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(RECIPES["jobs/four.yaml"].encode())))
    main(["fix", "-", "--stdin-filename", "jobs/four.yaml"])
    assert texts(project) == {**RECIPES, "ds/z.json": CONFIG}
