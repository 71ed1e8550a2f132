"""Pinned DeepSpeed release of a repository as the default target of its configs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import dsconfig
from dsconfig.cli import main

CONFIG = {"train_batch_size": 8}
FILES = {
    "requirements.txt": "torch\ndeepspeed==0.14.5\n",
    "pyproject.toml": '[project]\nname = "a"\ndependencies = ["deepspeed==0.14.5"]\n',
    "uv.lock": '[[package]]\nname = "deepspeed"\nversion = "0.14.5"\n',
    "environment.yml": "dependencies:\n  - pip:\n    - deepspeed==0.14.5\n",
    "setup.cfg": "[options]\ninstall_requires =\n    deepspeed==0.14.5\n",
    "Dockerfile": "FROM a\nRUN pip install torch deepspeed==0.14.5\n",
}


@pytest.fixture
def repository(empty_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (empty_repository / "conf").mkdir()
    (empty_repository / "conf" / "ds_config.json").write_text(json.dumps(CONFIG))
    monkeypatch.delenv("DSCONFIG_TARGET", raising=False)
    return empty_repository


@pytest.mark.parametrize("name", FILES)
def test_a_pin_is_the_target(repository: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / name).write_text(FILES[name])
    report = dsconfig.check("conf/ds_config.json")
    assert (report.target.releases, report.target.origin) == (("0.14.5",), "pin")
    assert report.target.source == name
    main(["check", "conf/ds_config.json"])
    assert f"DeepSpeed 0.14.5 ({name})" in capsys.readouterr().out


def test_a_range_is_a_range(repository: Path) -> None:
    (repository / "requirements.txt").write_text("deepspeed>=0.14.4,<0.15\n")
    assert dsconfig.check("conf/ds_config.json").target.releases == ("0.14.4", "0.14.5")
    assert dsconfig.resolve("conf/ds_config.json", world_size=8).release == "0.14.5"


@pytest.mark.parametrize(
    "text", ["deepspeed\n", "deepspeed==99.1\n", "# deepspeed==0.14.5\n", "deepspeed-mii==0.1\n"]
)
def test_requirement_without_a_version(repository: Path, text: str) -> None:
    (repository / "requirements.txt").write_text(text)
    assert dsconfig.check("conf/ds_config.json").target.origin in ("installed", "latest")


@pytest.mark.parametrize(
    ("files", "note"),
    [
        (
            {"requirements.txt": "deepspeed==0.14.5\n", "Dockerfile": "RUN pip install deepspeed==0.15.1\n"},
            "deepspeed==0.15.1 (Dockerfile:1) and deepspeed==0.14.5 (requirements.txt:1), so none of them is used",
        ),
        (
            {"requirements.txt": "deepspeed==99.1\n"},
            "deepspeed==99.1 (requirements.txt:1), of which no release is known",
        ),
    ],
    ids=["contradiction", "unknown release"],
)
def test_a_requirement_that_is_not_used_is_named(
    repository: Path, files: dict[str, str], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (repository / name).write_text(text)
    note = f"the repository requires {note}: set the target"
    assert dsconfig.check("conf/ds_config.json").target.note == note
    main(["check"])
    assert f"note: {note}" in " ".join(capsys.readouterr().out.split())
    main(["check", "--target", "0.15.1"])
    assert note not in " ".join(capsys.readouterr().out.split())


def test_the_nearest_pin_counts(repository: Path) -> None:
    (repository / "requirements.txt").write_text("deepspeed==0.14.5\n")
    (repository / "conf" / "requirements.txt").write_text("deepspeed==0.16.9\n")
    assert dsconfig.check("conf/ds_config.json").target.text == "0.16.9"


@pytest.mark.parametrize("stronger", ["argument", "file", "settings"])
def test_stronger_sources_win(repository: Path, stronger: str, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "requirements.txt").write_text("deepspeed==0.14.5\n")
    if stronger == "file":
        text = {**CONFIG, "$dsconfig": {"target": "0.13.0"}}
        (repository / "conf" / "ds_config.json").write_text(json.dumps(text))
    if stronger == "settings":
        (repository / "dsconfig.toml").write_text('target = "0.13.0"\n')
    main(["check", "conf", *(["--target", "0.13.0"] if stronger == "argument" else [])])
    assert "DeepSpeed 0.13.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    "call",
    [
        lambda path: dsconfig.resolve(path, world_size=8).release,
        lambda path: dsconfig.show(path).release,
        lambda path: dsconfig.fix(path).report.target.text,
        lambda path: dsconfig.migrate(path, to="0.15.0").origin,
        lambda path: dsconfig.memory(path, model="gpt2", world_size=8).release,
    ],
    ids=["resolve", "show", "fix", "migrate", "memory"],
)
def test_every_function_uses_the_pin(repository: Path, call: Callable[[str], str]) -> None:
    (repository / "requirements.txt").write_text("deepspeed==0.14.5\n")
    assert call("conf/ds_config.json") == "0.14.5"


def test_migrate_starts_from_the_pin(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "requirements.txt").write_text("deepspeed==0.14.5\n")
    assert main(["migrate", "conf/ds_config.json", "--to", "0.15.0"]) == 0
    assert "from 0.14.5 (requirements.txt) to 0.15.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        # A cap without a lower bound tells nothing about older releases: pip installs the newest below it.
        ("deepspeed<0.15\n", "0.14.5", "0.14.5"),
        ("deepspeed!=0.10.3,<=0.14.4\n", "0.14.4", "0.14.4"),
        # The Trainer of this version does not start with older releases: transformers dependency_versions_table.py.
        ("deepspeed>=0.3,<0.15\ntransformers==4.40.0\n", "0.9.3", "0.14.5"),
        ("deepspeed==0.8.0\ntransformers==4.40.0\n", "0.8.0", "0.8.0"),
    ],
)
def test_a_requirement_without_a_lower_bound(repository: Path, text: str, first: str, last: str) -> None:
    (repository / "requirements.txt").write_text(text)
    config = {
        "train_batch_size": "auto",
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}},
    }
    (repository / "conf" / "ds_config.json").write_text(json.dumps(config))
    releases = dsconfig.check("conf/ds_config.json").target.releases
    assert (releases[0], releases[-1]) == (first, last)
