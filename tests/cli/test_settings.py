"""Settings: where they are found, what each does to a run, and how a mistake in them is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dsconfig.cli import main
from dsconfig.job.settings_file import HOST_KINDS, KEYS, SettingsFile, SettingsFileError, find_settings

from .conftest import Runs, Spawns


def written(here: Path, text: str, name: str = "dsconfig.toml") -> SettingsFile:
    (here / name).write_text(text)
    return find_settings()


def test_none_at_all(here: Path) -> None:
    assert find_settings() == SettingsFile()


def test_every_key(here: Path) -> None:
    settings = written(
        here,
        """
        target = ">=0.14,<0.19.8"
        world-size = 8
        consumer = "transformers"
        select = ["DSC1"]
        ignore = ["DSC101"]
        extend-select = ["DSC2"]
        fixable = ["ALL"]
        unfixable = ["DSC104"]
        fail-on = "error"
        min-severity = "warning"
        exclude = ["old/*"]
        extend-exclude = ["new/*"]
        skip = ["notebooks"]
        [per-file-ignores]
        "tests/*" = ["DSC4", "unknown-key"]
        """,
    )
    assert settings == SettingsFile(
        path=str(here / "dsconfig.toml"),
        target=">=0.14,<0.19.8",
        world_size=8,
        consumer="transformers",
        select=("DSC1",),
        ignore=("DSC101",),
        extend_select=("DSC2",),
        fixable=("ALL",),
        unfixable=("DSC104",),
        fail_on="error",
        min_severity="warning",
        exclude=("old/*",),
        extend_exclude=("new/*",),
        skip=("notebooks",),
        per_file_ignores=(("tests/*", ("DSC4", "unknown-key")),),
    )
    assert len(KEYS) == len(SettingsFile._fields) - 5, "the path, overrides, what is not used"


def test_pyproject_has_them_in_a_table(here: Path) -> None:
    assert written(here, '[tool.dsconfig]\ntarget = "0.16.9"\n', "pyproject.toml").target == "0.16.9"


@pytest.mark.parametrize(
    "text",
    [
        '[tool.dsconfig]\ntarget = "0.16.9"',
        ' [ tool . dsconfig ] # ours\ntarget = "0.16.9"',
        '[tool."dsconfig"]\ntarget = "0.16.9"',
        '[tool]\ndsconfig.target = "0.16.9"',
        '[tool]\ndsconfig = {target = "0.16.9"}',
        'tool.dsconfig.target = "0.16.9"',
        'tool = {dsconfig = {target = "0.16.9"}}',
    ],
)
def test_toml_can_write_the_table_in_many_ways(here: Path, text: str) -> None:
    assert written(here, text, "pyproject.toml").target == "0.16.9"


def test_a_pyproject_without_the_table_is_passed_over(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "dsconfig.toml").write_text('target = "0.16.9"')
    below = here / "a" / "b"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text('[project]\nname = "uses-dsconfig"\n')
    (here / "a" / "pyproject.toml").write_text("this is not TOML, and not ours")
    monkeypatch.chdir(below)
    assert find_settings().path == str(here / "dsconfig.toml")


def test_dsconfig_toml_goes_before_pyproject(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.dsconfig]\ntarget = "0.16.9"\n')
    assert written(here, 'target = "0.14.5"').target == "0.14.5"


def test_the_repository_ends_the_search(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "dsconfig.toml").write_text('target = "0.16.9"')
    (here / "other" / ".git").mkdir(parents=True)
    monkeypatch.chdir(here / "other")
    assert find_settings() == SettingsFile()


MISTAKES = {
    'taget = "0.19.8"': "dsconfig.toml: taget: unknown setting, did you mean `target`?",
    "world_size = 8": "dsconfig.toml: world_size: unknown setting, did you mean `world-size`?",
    "zzz = 1": "dsconfig.toml: zzz: unknown setting, expected one of target, ",
    "target = 0.19": "dsconfig.toml: target: expected a release or a range of releases as a string, got 0.19",
    "world-size = 0": "dsconfig.toml: world-size: expected a whole number above 0, got 0",
    "world-size = true": "dsconfig.toml: world-size: expected a whole number above 0, got true",
    'consumer = "me"': "dsconfig.toml: consumer: expected one of deepspeed, transformers, ",
    'fail-on = ["error"]': 'dsconfig.toml: fail-on: expected one of error, warning, info, never, got ["er',
    'select = "DSC1"': 'dsconfig.toml: select: expected a list of rules, got "DSC1"',
    "ignore = [1]": "dsconfig.toml: ignore: expected a list of rules, got [1]",
    "exclude = 1979-05-27": 'dsconfig.toml: exclude: expected a list of patterns, got "1979-05-27"',
    'per-file-ignores = ["a"]': "dsconfig.toml: per-file-ignores: expected a table of lists of rules",
    "per-file-ignores = {a = 1}": "dsconfig.toml: per-file-ignores: expected a table of lists of rules",
    "target = ": "dsconfig.toml: invalid TOML: ",
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_a_mistake_is_one_line_with_file_and_key(here: Path, run: Runs, text: str, message: str) -> None:
    with pytest.raises(SettingsFileError) as caught:
        written(here, text)
    assert str(caught.value).startswith(message)
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert err.startswith(f"dsconfig: error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.dsconfig]\nzzz = 1", "pyproject.toml: tool.dsconfig.zzz: unknown setting"),
        ("[tool]\ndsconfig = 1", "pyproject.toml: `tool.dsconfig` must be a table"),
    ],
)
def test_a_mistake_in_pyproject(here: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsFileError, match=message):
        written(here, text, "pyproject.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('target = "nope"', "dsconfig.toml: target: unknown DeepSpeed release `nope`"),
        ('ignore = ["DSC999"]', "dsconfig.toml: ignore: unknown rule `DSC999`"),
        ('per-file-ignores = {a = ["no-rule"]}', "dsconfig.toml: per-file-ignores: unknown rule `no-rule`"),
    ],
)
def test_unknown_releases_and_rules_in_settings(here: Path, run: Runs, text: str, message: str) -> None:
    (here / "dsconfig.toml").write_text(text)
    result = run("check")
    assert result.code == 2
    assert message in result.err


def test_settings_that_are_no_text(here: Path) -> None:
    (here / "dsconfig.toml").write_bytes(b"\xff")
    with pytest.raises(SettingsFileError, match="not UTF-8 text"):
        find_settings()


# -- what they do ----------------------------------------------------------------------------------


def test_selection_and_fail_on(files: Path, run: Runs) -> None:
    (files / "dsconfig.toml").write_text('ignore = ["DSC1"]')
    assert run("check", "unknown.json").code == 0
    assert run("check", "unknown.json", "--extend-select", "DSC101").code == 1
    assert run("check", "unknown.json", "--select", "DSC101").code == 1
    (files / "dsconfig.toml").write_text('fail-on = "error"')
    assert run("check", "unknown.json").code == 0
    assert run("check", "unknown.json", "--fail-on", "warning").code == 1


@pytest.mark.parametrize(
    ("pattern", "silent"),
    [("unknown.json", True), ("un*", True), ("sub/*", False), ("*.yaml", False), ("../un*", False)],
)
def test_per_file_ignores(files: Path, run: Runs, pattern: str, silent: bool) -> None:
    (files / "dsconfig.toml").write_text(f'per-file-ignores = {{"{pattern}" = ["unknown-key"]}}')
    result = run("check", "unknown.json")
    assert result.code == (0 if silent else 1)
    assert ("1 suppressed" in result.out) == silent


def test_exclude_is_for_directories_not_for_files_named(files: Path, run: Runs) -> None:
    for name in ("old", "new"):
        (files / name).mkdir()
        (files / name / "ds_config.json").write_text("{}")
    (files / "dsconfig.toml").write_text('exclude = ["old"]')
    assert run("check", "--show-files").out.startswith("new/ds_config.json: ")
    assert run("check", "--show-files", "old/ds_config.json").out.startswith("old/ds_config.json: ")


def test_show_settings_is_a_settings_file(files: Path, run: Runs) -> None:
    (files / "dsconfig.toml").write_text(
        'target = "0.14.5"\nworld-size = 8\nper-file-ignores = {"a/*" = ["DSC101"]}\n'
    )
    code, out, err = run("check", "--show-settings", "--ignore", "unknown-key", "--fail-on", "error")
    assert (code, err) == (0, "")
    assert out.startswith("# from dsconfig.toml\n")
    again = written(files, out)
    assert (again.target, again.world_size, again.consumer) == ("0.14.5", 8, None)
    assert (again.ignore, again.fail_on) == (("DSC101",), "error")
    assert again.per_file_ignores == (("a/*", ("DSC101",)),)


# -- settings that someone else may have put there ---------------------------------------------------------


def above(here: Path, monkeypatch: pytest.MonkeyPatch, mode: int = 0o755, owner: int = 0) -> Path:
    """A folder with settings, and the working directory below it."""
    folder = here / "theirs"
    (folder / "mine").mkdir(parents=True)
    (folder / "dsconfig.toml").write_text('target = "0.16.9"')
    (folder / "mine/ok.json").write_text('{"train_batch_size": 8}')
    if os.geteuid() == 0:
        os.chown(folder, owner, -1)
        os.chown(folder / "dsconfig.toml", owner, -1)
    folder.chmod(mode)
    monkeypatch.chdir(folder / "mine")
    return folder


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_another_users_settings_are_not_used(
    here: Path, run: Runs, spawn: Spawns, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    folder = above(here, monkeypatch, mode, owner=12345)
    code, out, err = run("check", "ok.json")
    assert code == 0
    assert "0.16.9" not in out
    assert err.startswith("dsconfig: note: the settings in ../dsconfig.toml are not used: ")
    assert "their folder belongs to another user (id 12345)" in err
    assert err.count("\n") == 1
    assert spawn("schema", "--path").err == err
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "ds_config.json").write_text('{"train_batch_size": 8}')
    assert run("check", "../a", "../b", "ok.json").err == err, "said once"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_in_a_shared_folder(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = above(here, monkeypatch, 0o1777)
    assert "0.16.9" in run("check", "ok.json").out
    os.chown(folder / "dsconfig.toml", 12345, -1)
    assert "they belong to another user (id 12345)" in run("check", "ok.json").err
    monkeypatch.chdir(folder)
    assert "they belong to another user (id 12345)" in run("check", "mine/ok.json").err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_another_user_is_worked_in(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a container's root works in a folder of the host's user."""
    folder = above(here, monkeypatch, owner=12345)
    os.chown(folder / "mine", 12345, -1)
    code, out, err = run("check", "ok.json")
    assert (code, err) == (0, "")
    assert "0.16.9" in out


def test_a_folder_that_anyone_may_write_to(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = above(here, monkeypatch, 0o777)
    assert "not used: anyone may write to their folder" in run("check", "ok.json").err
    (folder / "mine").chmod(0o777)  # a file system without rights, say
    assert "0.16.9" in run("check", "ok.json").out
    (folder / "dsconfig.toml").unlink()
    (folder / "mine").chmod(0o755)
    (folder / "pyproject.toml").write_text("[project]")
    assert run("check", "ok.json").err == ""
    (folder / "pyproject.toml").write_text("[tool.dsconfig]")
    assert "../pyproject.toml are not used" in run("check", "ok.json").err


# -- hostile settings --------------------------------------------------------------------------------------

HOSTILE = {
    "too long": ("#" * (1 << 20) + "\n", "longer than 1 MiB, the size limit"),
    "lists in lists": ("a = " + "[" * 50_000, "nested too deeply"),
    "tables in tables": ("[" + "a." * 400 + "a]", "a: unknown setting"),
    "a long chain": ("a." * 30_000 + "a = 1", "more than 500 dots in one line"),
    "a deep value": ("[target." + "a." * 400 + "a]", "target: expected a release"),
    "many digits": ("world-size = " + "9" * 60_000, "invalid TOML: Exceeds the limit"),
    "a large number": ("world-size = 1" + "0" * 400, "expected a whole number above 0"),
    "hexadecimal": ("world-size = 0x" + "f" * 60_000, "got a value beyond all limits"),
    "a long key": ("k" * 60_000 + " = 1", "unknown setting"),
    "a NUL": ("a = \0", "invalid TOML"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_settings(here: Path, run: Runs, text: str, message: str) -> None:
    (here / "dsconfig.toml").write_text(text)
    code, out, err = run("check")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err) < 1000
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop"])
def test_settings_that_are_no_file(here: Path, spawn: Spawns, kind: str) -> None:
    path = here / "dsconfig.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    (here / "ok.json").write_text('{"train_batch_size": 8}')
    code, out, err = spawn("check", "ok.json")
    assert (code, out) == (2, "")
    assert err.startswith("dsconfig: error: dsconfig.toml: ")
    assert err.count("\n") == 1


def test_a_byte_order_mark_is_no_mistake(here: Path) -> None:
    assert written(here, '\ufefftarget = "0.16.9"').target == "0.16.9"


HOSTS = {
    "scripts": "run.sh",
    "containers": "Dockerfile",
    "workflows": ".github/workflows/train.yml",
    "manifests": "job.yaml",
    "python": "train.py",
    "notebooks": "train.ipynb",
}


@pytest.mark.parametrize("kind", [*HOST_KINDS, None])
def test_kinds_of_files_that_a_search_skips(
    here: Path, capsys: pytest.CaptureFixture[str], kind: str | None
) -> None:
    command = "deepspeed --num_gpus 2 t.py --deepspeed_config ds.json"
    source = (
        "import deepspeed\ndeepspeed.initialize(config={'train_batch_size': 8, 'zero_optimization': {}})\n"
    )
    cell = {"cell_type": "code", "source": source}
    container = {"spec": {"containers": [{"command": command.split()}]}}
    texts = {
        "run.sh": f"{command}\n",
        "Dockerfile": f"FROM x\nCMD {command}\n",
        ".github/workflows/train.yml": f"name: t\non: push\njobs:\n  a:\n    steps:\n      - run: {command}\n",
        "job.yaml": json.dumps({"apiVersion": "v1", "kind": "Pod", **container}),
        "train.py": source,
        "train.ipynb": json.dumps({"cells": [cell]}),
        "ds.json": '{"train_batch_size": 8}',
    }
    (here / ".github" / "workflows").mkdir(parents=True)
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "dsconfig.toml").write_text(f"skip = {json.dumps([kind] if kind else [])}\n")
    main(["check", ".", "--show-files"])
    shown = capsys.readouterr().out
    assert {name for name in HOSTS.values() if name in shown} == {
        name for each, name in HOSTS.items() if each != kind
    }
