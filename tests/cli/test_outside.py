"""A file outside of a repository is neither shown nor written because something inside leads to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dsconfig.cli import main
from dsconfig.core import file_access
from dsconfig.lsp.language_server import LanguageServer

from .conftest import Runs, Spawns

SECRET = "hunter2"
CREDENTIALS = f"[default]\naws_secret_access_key = {SECRET}\n"
DOCKER = json.dumps({"auths": {"registry": {"auth": SECRET}}, "model_type": SECRET, "hidden_size": SECRET})
LOOKS_LIKE_ONE = json.dumps({"zero_optimization": {"stage": 2, "overlap_com": True}, "user": SECRET})
LAUNCHES = {
    "run.sh": "deepspeed train.py --deepspeed {0}\n",
    "flag.sh": "python train.py --deepspeed_config {0}\n",
    "made.sh": "sed 's/a/b/' {0} > made.json\ndeepspeed train.py --deepspeed_config made.json\n",
    "hop.sh": "accelerate launch --config_file {0} train.py\n",
    "variable.sh": "CONFIG={0}\ndeepspeed train.py --deepspeed $CONFIG\n",
    "launch.yaml": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: {0}\n",
    "recipe.yaml": "model_name_or_path: m\nstage: sft\ndataset: d\noutput_dir: o\ndeepspeed: {0}\n",
    "axolotl.yml": "base_model: m\ndatasets: []\nmicro_batch_size: 2\ndeepspeed: {0}\n",
    "args.json": '{{"output_dir": "o", "deepspeed": "{0}"}}',
    "ludwig.yaml": "strategy:\n  type: accelerate\n  deepspeed_config: {0}\n",
}


@pytest.fixture
def secrets(here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder elsewhere with what a user keeps for themselves."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "credentials").write_text(CREDENTIALS)
    (folder / "config.json").write_text(DOCKER)
    (folder / "ds.json").write_text(LOOKS_LIKE_ONE)
    monkeypatch.setenv("TOKEN", SECRET)
    return folder


def targets(secrets: Path) -> list[str]:
    names = [str(secrets / name) for name in ("credentials", "config.json", "ds.json")]
    return [*names, os.path.relpath(names[0]), "/proc/self/environ", "/proc/self/cwd/../../etc/passwd"]


VERBS = (
    ["check"],
    ["check", "--output-format", "json"],
    ["fix", "--diff"],
    ["show"],
    ["resolve", "--world-size", "8"],
    ["compat"],
    ["migrate", "--from", "0.14.5", "--to", "0.19.8"],
    ["memory", "--params", "1e9"],
)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_file_shows_nothing_outside(here: Path, secrets: Path, run: Runs, name: str) -> None:
    for target in targets(secrets):
        (here / name).write_text(LAUNCHES[name].format(target))
        for verb in VERBS:
            result = run(*verb, name)
            assert SECRET not in result.out + result.err, (verb, target)
            assert "root:" not in result.out + result.err, (verb, target)


def test_a_note_says_why_and_what_to_do(here: Path, secrets: Path, run: Runs) -> None:
    (here / "run.sh").write_text(f"deepspeed train.py --deepspeed {secrets}/ds.json\n")
    why = f"`{secrets}/ds.json` is outside of this repository and is not read"
    code, out, _ = run("check", "run.sh")
    assert code == 0
    assert why in out
    result = run("check", "run.sh", f"{secrets}/ds.json")
    assert "overlap_com" in result.out, "a file that is named may be anywhere"
    assert "outside" not in result.out
    assert "overlap_com" not in run("check", "run.sh").out, "what one run named counts in no other"


@pytest.mark.parametrize("name", ["ds_config.json", "a.json", "a.yaml"])
@pytest.mark.parametrize("way", ["directory", "hook"])
def test_a_link_out_is_not_read(here: Path, secrets: Path, spawn: Spawns, name: str, way: str) -> None:
    for target in targets(secrets):
        (here / name).unlink(missing_ok=True)
        (here / name).symlink_to(target)
        for verb in (["check"], ["fix"], ["check", "--add-ignore"], ["fix", "--unsafe-fixes", "--diff"]):
            result = spawn(*verb, *(["."] if way == "directory" else ["--force-exclude", name]), TOKEN=SECRET)
            assert SECRET not in result.out + result.err
    assert (secrets / "credentials").read_text() == CREDENTIALS
    assert (secrets / "ds.json").read_text() == LOOKS_LIKE_ONE


def test_a_link_within_is_read(here: Path, run: Runs) -> None:
    (here / "conf").mkdir()
    (here / "conf" / ".zero.json").write_text(LOOKS_LIKE_ONE)
    (here / "zero.json").symlink_to("conf/.zero.json")
    assert "overlap_com" in run("check", ".").out
    assert "overlap_com" in run("check", "zero.json", "--force-exclude").out


def test_a_link_that_is_named_may_lead_anywhere(here: Path, secrets: Path, run: Runs) -> None:
    (here / "zero.json").symlink_to(secrets / "ds.json")
    assert "overlap_com" in run("check", "zero.json").out


def test_a_folder_that_a_link_leads_to_is_not_entered_by_a_hook(here: Path, secrets: Path, run: Runs) -> None:
    (here / "conf").symlink_to(secrets)
    assert run("check", "--force-exclude", "conf/ds.json") == (0, "", "")
    (here / "run.sh").write_text("deepspeed train.py --deepspeed conf/ds.json\n")
    assert "overlap_com" not in run("check", "run.sh").out


@pytest.mark.parametrize("name", ["dsconfig.toml", "pyproject.toml"])
def test_settings_that_are_a_link_out_are_not_used(here: Path, secrets: Path, run: Runs, name: str) -> None:
    (secrets / "my.toml").write_text(f'[tool.dsconfig]\n{SECRET} = "{SECRET}"\n')
    (here / "a.json").write_text('{"train_batch_size": 8}')
    (here / name).symlink_to(secrets / "my.toml")
    result = run("check", "a.json")
    assert SECRET not in result.out + result.err
    assert f"{name} are not used: they are a link to a file that is outside" in result.err


@pytest.mark.parametrize("way", ["block", "settings", "launch file"])
def test_a_model_outside_is_not_read(here: Path, secrets: Path, run: Runs, way: str) -> None:
    config = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1}
    (here / "link").symlink_to(secrets)
    for named in (str(secrets), f"{secrets}/config.json", os.path.relpath(secrets), "link"):
        block = {"$dsconfig": {"model": named}} if way == "block" else {}
        (here / "ds.json").write_text(json.dumps({**block, **config}))
        (here / "dsconfig.toml").write_text(f'model = "{named}"\n' if way == "settings" else "")
        model = named if way == "launch file" else "m"
        command = f"deepspeed t.py --deepspeed ds.json --model_name_or_path {model} --output_dir o\n"
        (here / "run.sh").write_text(command)
        for verb in VERBS[:-1]:
            result = run(*verb, "ds.json")
            assert SECRET not in result.out + result.err, (verb, named)
        result = run("memory", "ds.json", "--world-size", "8")
        assert SECRET not in result.out + result.err
        assert result.code == 2


def test_a_file_that_is_unlike_a_config_is_not_quoted(here: Path, run: Runs) -> None:
    for name, text in {
        ".env": f"TOKEN={SECRET}\n",
        "notes.txt": f"password: {SECRET}\n",
        "auth.json": DOCKER,
        "list.json": json.dumps([SECRET]),
        "binary": f"{SECRET}\0{SECRET}",
        "broken.json": f'{{"user": "{SECRET}" "password": {SECRET}',
        ".git/config": f"[core]\nurl = https://{SECRET}@host\n",
    }.items():
        (here / name).write_text(text)
        for launch, command in LAUNCHES.items():
            (here / launch).write_text(command.format(name))
            for verb in VERBS:
                result = run(*verb, launch)
                assert SECRET not in result.out + result.err, (verb, name, launch)


def test_a_broken_config_that_is_like_one_is_judged(here: Path, run: Runs) -> None:
    (here / "ds.json").write_text('{"train_batch_size": 8 "zero_optimization": {"stage": 2}}')
    (here / "run.sh").write_text("deepspeed train.py --deepspeed_config ds.json\n")
    assert run("check", "run.sh").code == 1


def test_a_program_or_a_pin_outside_tells_nothing(here: Path, secrets: Path, run: Runs) -> None:
    (secrets / "train.py").write_text("deepspeed.initialize()\njson.load(open(args.deepspeed))\n")
    (secrets / "pins.txt").write_text("transformers==4.30.0\n")
    (here / "ds.json").write_text('{"train_micro_batch_size_per_gpu": "auto"}')
    (here / "requirements.txt").symlink_to(secrets / "pins.txt")
    (here / "train.py").symlink_to(secrets / "train.py")
    (here / "run.sh").write_text(f"python {secrets}/train.py --deepspeed ds.json\n")
    assert "4.30" not in run("check", "ds.json").out


def test_the_language_server_leads_to_nothing_outside(here: Path, secrets: Path) -> None:
    service = LanguageServer()
    service.handle_request("initialize", {"capabilities": {}, "rootUri": here.as_uri()})
    for name, text in LAUNCHES.items():
        for target in targets(secrets):
            uri = (here / name).as_uri()
            item = {"uri": uri, "languageId": "deepspeed", "version": 1, "text": text.format(target)}
            service.handle_notification("textDocument/didOpen", {"textDocument": item})
            published = list(service.pending_messages())
            params = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 30}}
            assert not service.handle_request("textDocument/documentLink", params)
            assert not service.handle_request("textDocument/definition", params)
            assert SECRET not in json.dumps(published)
            service.handle_notification("textDocument/didClose", {"textDocument": {"uri": uri}})


@pytest.mark.parametrize("schema", ["../../../etc/passwd", "/etc/passwd", "file://server/share/x.json"])
def test_a_schema_elsewhere_is_no_link(here: Path, schema: str) -> None:
    service = LanguageServer()
    service.handle_request("initialize", {"capabilities": {}})
    uri = (here / "a.json").as_uri()
    text = json.dumps({"$schema": schema, "zero_optimization": {}})
    item = {"uri": uri, "languageId": "json", "version": 1, "text": text}
    service.handle_notification("textDocument/didOpen", {"textDocument": item})
    assert service.handle_request("textDocument/documentLink", {"textDocument": {"uri": uri}}) == []


def test_shares_of_windows_are_not_even_looked_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    for path in (r"\\server\share\ds.json", "//server/share/ds.json", r"\\.\pipe\x", r"\\?\UNC\server\x"):
        monkeypatch.setattr(os.path, "realpath", None)
        assert file_access.is_on_network_share(path)
        assert not file_access.may_read_file(path, "run.sh")
        monkeypatch.undo()
        monkeypatch.setattr(os, "name", "nt")


def test_without_a_repository_the_folder_that_is_named_is_the_border(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, run: Runs
) -> None:
    user = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(user))
    (user / "archive" / "conf").mkdir(parents=True)
    (user / "archive" / "launch").mkdir()
    (user / ".netrc").write_text(LOOKS_LIKE_ONE)
    (user / "archive" / "conf" / "z.json").write_text(LOOKS_LIKE_ONE.replace(SECRET, "me"))
    (user / "archive" / "launch" / "zero.json").symlink_to(user / ".netrc")
    (user / "archive" / "launch" / "ds.json").symlink_to("../conf/z.json")
    (user / "archive" / "launch" / "run.sh").write_text("deepspeed t.py --deepspeed_config .netrc\n")
    for folder, named in ((user, "archive"), (user, "."), (user / "archive", "."), (user.parent, str(user))):
        monkeypatch.chdir(folder)
        result = run("check", named)
        assert SECRET not in result.out + result.err
        assert "overlap_com" in result.out
        result = run("check", str(user / "archive" / "launch" / "run.sh"))
        assert SECRET not in result.out + result.err


def test_fix_changes_nothing_outside(here: Path, secrets: Path) -> None:
    fixable = LOOKS_LIKE_ONE
    for name in ("ds_config.json", "zero.json"):
        (here / name).symlink_to(secrets / "ds.json")
    (here / "conf").symlink_to(secrets)
    (here / "run.sh").write_text("deepspeed t.py --deepspeed_config conf/ds.json\n")
    (here / "launch.yaml").write_text(LAUNCHES["launch.yaml"].format(secrets / "ds.json"))
    for verb in (["fix", "--unsafe-fixes"], ["check", "--fix"], ["check", "--add-ignore"]):
        for paths in (["."], ["run.sh", "launch.yaml"], ["--force-exclude", "zero.json", "conf/ds.json"]):
            main([*verb, *paths])
            assert (secrets / "ds.json").read_text() == fixable, (verb, paths)
    for launch in ("run.sh", "launch.yaml"):
        main(["migrate", launch, "--from", "0.14.5", "--to", "0.19.8", "--write"])
    assert (secrets / "ds.json").read_text() == fixable
    assert sorted(os.listdir(secrets)) == ["config.json", "credentials", "ds.json"]


@pytest.mark.parametrize("name", ["out.json", "conf/out.json"])
def test_no_result_is_written_through_a_link_out(here: Path, secrets: Path, run: Runs, name: str) -> None:
    (here / "a.json").write_text('{"train_batch_size": 8}')
    (here / "out.json").symlink_to(secrets / "ds.json")
    (here / "conf").symlink_to(secrets)
    (secrets / "out.json").write_text(LOOKS_LIKE_ONE)
    for verb in (
        ["check", "a.json"],
        ["resolve", "a.json", "--world-size", "8"],
        ["migrate", "a.json", "--from", "0.14.5", "--to", "0.19.8"],
        ["schema"],
    ):
        result = run(*verb, "-o", name)
        assert result.code == 2
        assert f"{name} is a link to a file that is outside of this repository" in result.err
    assert (secrets / "out.json").read_text() == (secrets / "ds.json").read_text() == LOOKS_LIKE_ONE
    assert run("check", "a.json", "-o", str(secrets / "out.json")).code == 0


def test_settings_of_an_editor_are_not_written_through_a_link_out(
    here: Path, secrets: Path, run: Runs
) -> None:
    (here / ".vscode").mkdir()
    (here / ".vscode" / "settings.json").symlink_to(secrets / "config.json")
    assert run("editor", "vscode", "--write").code == 2
    assert (secrets / "config.json").read_text() == DOCKER


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder", "git", "process"])
def test_odd_files_that_others_name_are_neither_shown_nor_waited_for(
    here: Path, spawn: Spawns, kind: str
) -> None:
    odd = here / "odd.json"
    match kind:
        case "pipe":
            os.mkfifo(odd)
        case "folder":
            odd.mkdir()
        case "git":
            (here / ".git" / "config").write_text(f"[url]\n{SECRET} = {SECRET}\n")
            odd.symlink_to(".git/config")
        case _:
            odd.symlink_to({"device": "/dev/zero", "loop": "odd.json", "process": "/proc/self/environ"}[kind])
    for name, text in LAUNCHES.items():
        (here / name).write_text(text.format("odd.json"))
    (here / "requirements.txt").symlink_to("odd.json")
    (here / "train.py").symlink_to("odd.json")
    (here / "ds.json").write_text('{"train_batch_size": 8, "$dsconfig": {"model": "odd.json"}}')
    for verb in (["check", "."], ["fix", "."], ["check", "--force-exclude", "odd.json"], ["show", "ds.json"]):
        result = spawn(*verb, TOKEN=SECRET)
        assert SECRET not in result.out + result.err
        assert "Traceback" not in result.err


def test_a_repository_that_points_into_another_shows_nothing_of_it(
    here: Path, secrets: Path, run: Runs
) -> None:
    (secrets / ".git").mkdir()
    (secrets / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (secrets / ".git" / "index").write_text(SECRET)
    (here / ".git").rmdir()
    (here / ".git").write_text(f"gitdir: {secrets}/.git\n")
    (here / "a.json").write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 1}}')
    before = sorted(path.name for path in (secrets / ".git").iterdir())
    result = run("check", ".")
    assert "Checked 1 file" in result.out
    assert SECRET not in result.out + result.err
    assert sorted(path.name for path in (secrets / ".git").iterdir()) == before
