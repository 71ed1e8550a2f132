"""Names of files and settings are shown so that they do nothing to a terminal, a log or a CI service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

import dsconfig

from .conftest import Runs, Spawns

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = """{
  "zero_optimization": {}, "no_such_key": 1, "a\\n::error::b": 1, "##[group]": 1, "prescale_gradients": 1
}
"""
NAMES = [
    b"\x1b[31m.json",
    b"a\n::error::x.json",
    b"::error::x.json",
    b" ::error::y.json",
    b"b\xff.json",
    "c\u202egpj.json".encode(),
    "d\u009b31m.json".encode(),
    b"##[group]e.json",
    b"##vso[task.complete]f.json",
    b"g h\t.json",
    b"i\r.json",
    b'j"\\.json',
    b"k,l:m%0A.json",
]
TARGET = ("--target", "0.19.8")
OWN = ("::error title=DSC", "::warning title=DSC", "::notice title=DSC")
"""How our own commands to GitHub begin."""


@pytest.fixture
def odd(here: Path) -> list[str]:
    for name in NAMES:
        (here / os.fsdecode(name)).write_text(TEXT)
    return [os.fsdecode(name) for name in NAMES]


def harmless(text: str) -> None:
    """Nothing in it is invisible or a command, but our own."""
    assert {char for char in text if not char.isprintable()} <= {"\n"}
    for line in text.split("\n"):
        ours = line.startswith(OWN) or line.lstrip().startswith("::: ")  # the mark of a related place
        assert ours or not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line


@pytest.mark.parametrize("style", ["full", "concise", "json", "sarif", "github", "gitlab", "junit"])
def test_check_in_every_format(odd: list[str], run: Runs, style: str) -> None:
    code, out, err = run("check", *odd, *TARGET, "--output-format", style)
    assert code == 1
    harmless(out)
    harmless(err)
    if style == "gitlab":
        assert {issue["location"]["path"] for issue in json.loads(out)} >= {"b\\xff.json", "\x1b[31m.json"}
    if style == "json":
        assert [file["path"] for file in json.loads(out)["files"]] == odd
    if style == "sarif":
        named = [
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            for result in json.loads(out)["runs"][0]["results"]
        ]
        assert {unquote_to_bytes(uri) for uri in named} == {os.path.normpath(name) for name in NAMES}


def test_as_users_see_them(odd: list[str], spawn: Spawns) -> None:
    code, out, err = spawn("check", "--show-files", ".")
    assert (code, err) == (0, "")
    harmless(out)
    assert len(out.splitlines()) == len(NAMES)
    harmless(spawn("check", *odd, *TARGET, "--statistics").out)


@pytest.mark.parametrize("verb", [("fix",), ("fix", "--unsafe-fixes"), ("check", "--fix")])
def test_what_was_fixed(odd: list[str], run: Runs, verb: tuple[str, ...]) -> None:
    result = run(*verb, *odd, *TARGET)
    harmless(result.out)
    harmless(result.err)


def test_a_diff_is_what_git_applies(odd: list[str], spawn: Spawns, here: Path) -> None:
    code, patch, err = spawn("fix", ".", *TARGET, "--diff")
    assert (code, patch.count("+++ ")) == (1, len(NAMES)), err
    for line in patch.splitlines():
        if line.startswith(("---", "+++")):
            harmless(line.removesuffix("\t"))
    Path("fix.patch").write_text(patch)
    subprocess.run(["git", "apply", "--unsafe-paths", "fix.patch"], check=True)
    for name in odd:
        assert '"prescale_gradients": true' in (here / name).read_text()


@pytest.mark.parametrize(
    "verb",
    [
        ("check",),
        ("fix",),
        ("show",),
        ("compat",),
        ("resolve", "--world-size", "8"),
        ("elastic", "plan"),
        ("migrate", "--from", "0.14.5", "--to", "0.19.8", "--diff"),
    ],
)
@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[1]", b'{"elasticity": {"enabled": true, "\\u001b[1m": 1}}']
)
def test_errors(here: Path, run: Runs, verb: tuple[str, ...], content: bytes) -> None:
    name = "a\n::error::\x1b[31m##[group].json"
    (here / name).write_bytes(content)
    for each in (name, f"no{name}"):
        result = run(*verb, each)
        harmless(result.out)
        harmless(result.err)


def test_settings(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "a\n::error::\x1b[31m"
    (folder / "b").mkdir(parents=True)
    (folder / "dsconfig.toml").write_text('target = "0.19.8"\nexclude = ["\\u001b[31m\\u202e"]\n')
    (here / "ok.json").write_text('{"train_batch_size": 8}')
    monkeypatch.chdir(folder)
    (folder / "dsconfig.toml").rename(here / "dsconfig.toml")
    harmless(run("check", "../ok.json").out)
    output = run("check", "--show-settings").out
    harmless(output)
    (here / "dsconfig.toml").write_text('"\\u001b[31m\\n::error::" = 1')
    harmless(run("check", "../ok.json").err)
    assert run("init", "::error::\x1b[1m.json").code == 2
    (here / "dsconfig.toml").unlink()
    harmless(run("init", "::error::\x1b[1m.json").out)


def test_a_resolved_value_does_nothing_to_a_terminal(here: Path, run: Runs) -> None:
    (here / "ds_config.json").write_text('{"train_batch_size": 8, "x": "a\\u202eb\\u009b31mc\\u00e4"}')
    done = run("resolve", "ds_config.json", "--world-size", "8", "--target", "0.19.8")
    assert done.code == 0
    assert done.out.replace("\n", "").isprintable()
    assert json.loads(done.out)["x"] == "a\u202eb\u009b31mc\u00e4"


HOSTILE = {
    "train_batch_size": 8,
    "steps_per_print": "\x1b[31m##vso[task.complete]",
    "##vso[task.setvariable variable=a]b": "\n::stop-commands::x",
    "::error::c": ["##[group]", "`[d](http://e)`"],
    "prescale_gradients": 1,
    "optimizer": {"type": "##vso[task.complete]\n::error::", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2, "cpu_offload": True, "##[error]": 1},
}


@pytest.mark.parametrize("name", ["ds_config.json", "ds_config.yaml"])
@pytest.mark.parametrize(
    "verb",
    [
        *(("check", "--output-format", style) for style in ("full", "concise", "json", "sarif", "github")),
        *(("check", "--output-format", style) for style in ("gitlab", "junit")),
        *(("show",), ("show", "--output-format", "json"), ("compat",), ("compat", "--output-format", "json")),
        ("resolve", "--world-size", "8"),
        ("memory", "--model", "llama-3-8b", "--world-size", "8"),
        ("memory", "--model", "llama-3-8b", "--world-size", "8", "--output-format", "json"),
        ("fix", "--diff"),
        ("migrate", "--from", "0.14.5", "--to", "0.19.8"),
        ("migrate", "--from", "0.14.5", "--to", "0.19.8", "--diff"),
    ],
    ids=" ".join,
)
def test_keys_and_values_are_commands_to_nobody(
    here: Path, run: Runs, verb: tuple[str, ...], name: str
) -> None:
    for left_out in (None, "zero_optimization", "optimizer"):
        config = {key: value for key, value in HOSTILE.items() if key != left_out}
        (here / name).write_text(json.dumps(config, indent=2))
        result = run(verb[0], name, *verb[1:], *(TARGET if verb[0] in ("check", "show", "fix") else ()))
        # A diff has to apply: the test below says what becomes of it in a CI service.
        harmless(result.out.replace("##", "") if "--diff" in verb else result.out)
        harmless(result.err)
        if "json" in verb and result.out:
            json.loads(result.out)


LINES = """{
  /*
  ::stop-commands::token
::add-mask::x
  */
  "train_batch_size": 8, "zero_optimization": {"stage": 2, "cpu_offload": true}
  /*
  ::error::y
  */
}
"""


def test_a_diff_holds_no_command_and_still_applies(here: Path, spawn: Spawns) -> None:
    (here / "ds_config.json").write_text(LINES)
    patch = spawn("fix", "ds_config.json", *TARGET, "--diff").out
    harmless(patch)
    assert "-  ::stop-commands::token\n+  ::stop-commands::token\n" in patch
    (here / "fix.patch").write_text(patch)
    subprocess.run(["git", "apply", "fix.patch"], check=True)
    assert (here / "ds_config.json").read_text() == str(dsconfig.fix(LINES, target="0.19.8"))


def test_a_diff_with_a_command_goes_to_files_only(here: Path, spawn: Spawns) -> None:
    text = '{"train_batch_size": 8,\n/* ##vso[task.complete] */ "zero_optimization": {"cpu_offload": true}}'
    (here / "ds_config.json").write_text(text)
    for service in ("TF_BUILD", "GITHUB_ACTIONS", "TEAMCITY_VERSION"):
        code, out, err = spawn("fix", "ds_config.json", *TARGET, "--diff", **{service: "1"})
        assert (code, out) == (2, "")
        harmless(err)
    with open("fix.patch", "w", encoding="utf-8") as file:
        command = [sys.executable, "-m", "dsconfig", "fix", "ds_config.json", *TARGET, "--diff"]
        subprocess.run(command, stdout=file, check=False)
    subprocess.run(["git", "apply", "fix.patch"], check=True)
    assert (here / "ds_config.json").read_text() == str(dsconfig.fix(text, target="0.19.8"))


def test_settings_shown_are_commands_to_nobody(here: Path, run: Runs) -> None:
    (here / "dsconfig.toml").write_text('exclude = ["##vso[task.complete]", "##[group]"]\n')
    out = run("check", "--show-settings").out
    harmless(out)
    assert tomllib.loads(out)["exclude"] == ["##vso[task.complete]", "##[group]"]


MIGRATE = ("migrate", "ds_config.json", "--from", "0.14.5", "--to", "0.19.8")


def test_a_text_with_a_command_goes_to_files_only(here: Path, spawn: Spawns) -> None:
    (here / "ds_config.json").write_text(LINES)
    code, out, err = spawn(*MIGRATE)
    assert (code, out) == (2, "")
    assert "CI services would execute a line" in err
    harmless(err)
    assert spawn("fix", "-", *TARGET, stdin=LINES.encode()).code == 2
    assert spawn(*MIGRATE, "-o", "out.json").code in (0, 1)
    assert "::stop-commands::" in (here / "out.json").read_text()
    command = [sys.executable, "-m", "dsconfig", *MIGRATE]
    with open("redirected.json", "w", encoding="utf-8") as file:
        subprocess.run(command, stdout=file, check=False)
    assert (here / "redirected.json").read_text() == (here / "out.json").read_text()
