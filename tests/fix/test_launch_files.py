"""Every command on launch files: it finds the config where the job does, or says why there is none."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from dsconfig import check, fix, migrate
from dsconfig.check.accepting_releases import compat
from dsconfig.cli import main
from tests.cli.test_migrate_launch_files import FORMS, JOB, LAUNCH, NEW, OLD, of_yaml

ENCODED = urlsafe_b64encode(json.dumps(OLD).encode()).decode()
FOLDED = json.dumps(OLD).replace(", ", ",\n    ")
MORE = {
    **FORMS,
    "folded text": ("a.yaml", LAUNCH.format(config=f" '{FOLDED}'"), of_yaml),
    "base64 of a script": ("run.sh", JOB.format(before="", config=ENCODED), None),
}


@pytest.mark.parametrize("form", MORE)
def test_embedded_configs_are_fixed_and_migrated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    name, text, read = MORE[form]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    migrated = migrate(name, to="0.19.8", origin="0.9.5")
    assert migrated.stopped is None
    main(["fix", "--unsafe-fixes", "--target", "0.19.8", name])
    fixed = (tmp_path / name).read_text()
    for made in (migrated.text, fixed):
        if read is None:
            assert urlsafe_b64encode(json.dumps(NEW).encode()).decode() in made
        else:
            assert (list(read(made)), list(read(made)["fp16"])) == (list(NEW), ["enabled"])
    assert not [diagnostic for diagnostic in check(name, target="0.19.8") if diagnostic.code == "DSC101"]
    assert fix(name, unsafe=True, target="0.19.8").text == fixed


def test_ignored_rules_are_not_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dsconfig.toml").write_text('ignore = ["DSC101"]\n')
    name, text, _ = FORMS["here-document"]
    (tmp_path / name).write_text(text)
    main(["fix", "--unsafe-fixes", "--target", "0.9.5", name])
    assert (tmp_path / name).read_text() == text


NOWHERE = {
    "run.sh": (
        "deepspeed t.py --output_dir o --deepspeed $X/a.json",
        "depends on variables of the job's shell",
    ),
    "acc.yaml": (
        "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: no.json}",
        "no.json was not found from the current folder",
    ),
    "job.sh": (
        "accelerate launch --config_file acc.yaml t.py",
        "no.json was not found from the current folder",
    ),
    "train.yaml": ("output_dir: o\ndeepspeed: no.json", "`no.json` was not found from"),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_a_launch_file_without_a_config_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for each, (text, _) in NOWHERE.items():
        (tmp_path / each).write_text(f"{text}\n")
    assert main(["check", name]) == 0
    assert NOWHERE[name][1] in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match=r"not (found|checked)"):
        compat(name)
    for verb, code in (
        (["compat"], 2),
        (["migrate", "--from", "0.9.5"], 1),
        (["resolve", "--world-size", "8"], 1),
        (["show"], 1),
        (["memory", "--world-size", "8", "--model", "llama-3-8b"], 1),
    ):
        assert main([*verb, name]) == code, verb
        out, err = capsys.readouterr()
        said = NOWHERE[name][1] in err.replace("\n", " ")
        assert said or "no.json, which acc.yaml names, was not found from here" in err, verb
        assert "taken" not in out
