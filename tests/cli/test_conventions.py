"""Options of ruff, zizmor and check-jsonschema work here too, through the installed command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dsconfig.cli import COMMANDS
from dsconfig.cli.elastic import COMMANDS as ELASTIC_VERBS
from dsconfig.core.diagnostic import SITE
from dsconfig.rules import RULES

from .conftest import Spawns

CONFIG = '{"train_batch_size": 8, "prescale_gradients": 1, "zero_optimization": {}, "no_such_key": 1}\n'
TARGET = ("--target", "0.19.8")
EVERY_COMMAND = [[verb] for verb in COMMANDS] + [["elastic", verb] for verb in ELASTIC_VERBS]


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "a.json").write_text(CONFIG)
    (here / "old").mkdir()
    (here / "old" / "b.json").write_text(CONFIG)
    return here


def shown(spawn: Spawns, *argv: str) -> list[str]:
    """The files and codes that a check shows, as `a.json DSC101`."""
    files = json.loads(spawn("check", *argv, *TARGET, "--output-format", "json").out)["files"]
    return [f"{file['path']} {diagnostic['code']}" for file in files for diagnostic in file["diagnostics"]]


BOTH = ["a.json DSC113", "a.json DSC101", "old/b.json DSC113", "old/b.json DSC101"]
CHOICES: dict[str, tuple[list[str], list[str]]] = {
    "nothing": ([], BOTH),
    "--exclude": (["--exclude", "old"], BOTH[:2]),
    "--exclude, a list": (["--exclude", "x,old"], BOTH[:2]),
    "--extend-exclude": (["--extend-exclude", "old/*"], BOTH[:2]),
    "--select ALL": (["--select", "ALL"], BOTH),
    "--select ALL --ignore": (["--select", "ALL", "--ignore", "DSC101"], BOTH[::2]),
    "--ignore ALL": (["--ignore", "ALL"], []),
    "--per-file-ignores": (["--per-file-ignores", "old/*:DSC101,DSC113"], BOTH[:2]),
    "--per-file-ignores, pairs": (["--per-file-ignores", "a.json:DSC113,b.json:DSC1"], BOTH[1:2]),
    "--min-severity": (["--min-severity", "error"], []),
}


@pytest.mark.parametrize(("argv", "expected"), CHOICES.values(), ids=CHOICES)
def test_what_is_shown(folder: Path, spawn: Spawns, argv: list[str], expected: list[str]) -> None:
    assert shown(spawn, *argv) == expected


def test_settings_are_named_or_left_alone(folder: Path, spawn: Spawns) -> None:
    (folder / "dsconfig.toml").write_text('ignore = ["DSC101"]\nexclude = ["old"]\n')
    (folder / "conf").mkdir()
    (folder / "conf" / "ci.toml").write_text('exclude = ["a.json"]\n')
    assert shown(spawn) == BOTH[:1]
    assert shown(spawn, "--isolated") == BOTH
    assert shown(spawn, "--config", "conf/ci.toml") == BOTH[2:], "patterns count from here, as ruff's"
    assert shown(spawn, "--exclude", "nothing") == BOTH[::2], "instead of those of the settings"
    assert shown(spawn, "--extend-exclude", "nothing") == BOTH[:1]
    assert shown(spawn, "--no-ignores") == BOTH[:2]
    code, _, err = spawn("check", "--isolated", "--config", "conf/ci.toml")
    assert (code, "exclude each other" in err) == (2, True)
    assert "no/such.toml" in spawn("check", "--config", "no/such.toml").err
    assert "--target" in spawn("check", "--config", "target=0.19.8").err


@pytest.mark.parametrize(
    ("key", "left"),
    [('unfixable = ["DSC113"]', 2), ('fixable = ["DSC4"]', 2), ('fixable = ["ALL"]', 1), ("", 1)],
)
def test_what_is_fixed_as_a_setting_and_as_an_option(
    folder: Path, spawn: Spawns, key: str, left: int
) -> None:
    (folder / "dsconfig.toml").write_text(key)
    spawn("check", "--fix", "a.json", *TARGET)
    assert len(shown(spawn, "a.json", "--isolated")) == left
    word, _, value = key.partition(" = ")
    option = [f"--{word}", json.loads(value)[0]] if key else []
    spawn("fix", "--isolated", "old/b.json", *TARGET, *option)
    assert len(shown(spawn, "old/b.json", "--isolated")) == left


def test_fixes_are_listed_and_told_by_the_exit_code(folder: Path, spawn: Spawns) -> None:
    ended = spawn("check", "--fix", "--show-fixes", "--exit-non-zero-on-fix", "--fail-on", "error", *TARGET)
    assert ended.code == 1
    assert "- a.json: 1 x DSC113 (coerced-value)\n" in ended.out
    ended = spawn("check", "--fix", "--exit-non-zero-on-fix", "--fail-on", "error", *TARGET)
    assert (ended.code, "- a.json" in ended.out) == (0, False)
    assert spawn("check", "--show-fixes").code == 2


@pytest.mark.parametrize("form", ["full", "concise", "json", "sarif", "junit"])
def test_a_report_goes_into_a_file(folder: Path, spawn: Spawns, form: str) -> None:
    to_stdout = spawn("check", *TARGET, "--output-format", form)
    to_file = spawn("check", *TARGET, "--output-format", form, "-o", "out/new/report.txt", FORCE_COLOR="1")
    assert (to_file.code, to_file.out) == (to_stdout.code, "")
    assert (folder / "out" / "new" / "report.txt").read_text("utf-8") == to_stdout.out
    assert spawn("check", *TARGET, "--output-format", form, "--output-file", "-").out == to_stdout.out


def test_every_finding_has_the_address_of_its_page(folder: Path, spawn: Spawns) -> None:
    for file in json.loads(spawn("check", "--output-format", "json").out)["files"]:
        assert {diagnostic["url"] for diagnostic in file["diagnostics"]} == {
            f"{SITE}rules/{code}/" for code in ("DSC101", "DSC113")
        }
    run = json.loads(spawn("check", "--output-format", "sarif").out)["runs"][0]
    assert all(rule["helpUri"] == f"{SITE}rules/{rule['id']}/" for rule in run["tool"]["driver"]["rules"])
    linked = spawn("check", "--output-format", "concise", FORCE_HYPERLINK="1").out
    assert f"\x1b]8;;{SITE}rules/DSC101/\x1b\\DSC101\x1b]8;;\x1b\\" in linked


def test_rules_are_listed(here: Path, spawn: Spawns) -> None:
    assert [line.split()[0] for line in spawn("rules").out.splitlines()] == sorted(RULES)
    rules = json.loads(spawn("rules", "--output-format", "json").out)["rules"]
    assert [rule["code"] for rule in rules] == sorted(RULES)
    assert all(rule["title"] and rule["explanation"] and rule["url"] for rule in rules)
    assert spawn("rules", "DSC203,unknown-key").out.count("\n") == 2
    assert "did you mean `unknown-key`?" in spawn("rules", "unknown-keys").err


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_help_says_what_exit_codes_mean(here: Path, spawn: Spawns, command: list[str]) -> None:
    ended = spawn(*command, "--help", COLUMNS="80")
    assert ended.code == 0
    codes = ended.out.partition("\nexit codes:\n")[2]
    assert codes.startswith("  0  ")
    assert "\n  2  " in codes
    assert all(len(line) <= 80 for line in ended.out.splitlines())
    assert spawn("help", *command, COLUMNS="80") == ended


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_an_unknown_option_is_answered_by_its_own_command(
    here: Path, spawn: Spawns, command: list[str]
) -> None:
    code, out, err = spawn(*command, "--halp")
    assert (code, out) == (2, "")
    name = " ".join(["dsconfig", *command])
    assert err == (
        f"dsconfig: error: unknown option `--halp`: did you mean `--help`? (see `{name} --help`)\n"
    )


def test_version_and_help_of_nothing(here: Path, spawn: Spawns) -> None:
    assert spawn("-V") == spawn("--version")
    assert spawn("help") == spawn("--help")
    assert "did you mean `check`?" in spawn("help", "chek").err


def test_completion_knows_every_command_and_option(here: Path, spawn: Spawns) -> None:
    for shell in ("bash", "zsh", "fish"):
        code, script, err = spawn("completion", shell)
        assert (code, err) == (0, "")
        for word in (*COMMANDS, "min-severity", "unknown-key", "zero3", "0.14.5", "gpus-per-node"):
            assert word in script, (shell, word)
    program = (
        'eval "$("$0" completion bash)"; COMP_WORDS=(dsconfig "${@}"); COMP_CWORD=2;'
        " _shtab_dsconfig 2>/dev/null; echo ${COMPREPLY[@]}"
    )
    command = str(Path(__import__("sys").executable).parent / "dsconfig")
    for words, completed in {("check", "--min-se"): "--min-severity", ("help", "migr"): "migrate"}.items():
        argv = ["bash", "-c", program, command, *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.stdout.split() == [completed]


def test_paths_of_services_count_from_the_repository(
    folder: Path, spawn: Spawns, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "old" / "broken.json").symlink_to("nothing")
    monkeypatch.chdir(folder / "old")
    run = json.loads(spawn("check", "b.json", "broken.json", "--output-format", "sarif").out)["runs"][0]
    uris = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]}
    assert uris == {"old/b.json"}
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    (trouble,) = invocation["toolExecutionNotifications"]
    assert trouble["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "old/broken.json"
    assert "file=old/b.json" in spawn("check", "--output-format", "github").out


def test_one_note_tells_of_all_world_sizes(folder: Path, spawn: Spawns) -> None:
    for number in range(5):
        (folder / f"c{number}.json").write_text(CONFIG)
    notes = [line for line in spawn("check").out.splitlines() if "world sizes" in line]
    assert len(notes) == 1
    assert notes[0].startswith("note: 7 files work at some world sizes only: ")
    assert notes[0].endswith("; -v names the other 4")
    assert "c4.json at 1, 2, 4, 8" in spawn("check", "-v").out


def test_verbose_says_which_settings_count(folder: Path, spawn: Spawns) -> None:
    (folder / "dsconfig.toml").write_text('ignore = ["DSC101"]\n')
    for path in ("a.json", "."):
        assert spawn("check", "-v", path).err.count("dsconfig: note: settings: dsconfig.toml\n") == 1
    assert "settings" not in spawn("check", "a.json").err


def test_what_is_missing_is_told_with_an_example(here: Path, spawn: Spawns) -> None:
    (here / "a.json").write_text(CONFIG)
    plan = spawn("elastic", "plan", "a.json")
    assert (plan.code, '"elasticity": {"enabled": true' in plan.err) == (1, True)
    assert "for example `dsconfig elastic run --nnodes" in spawn("elastic", "run").err
    assert "`stage`" not in spawn("explain", "zero").out
    assert "`zero_optimization`" in spawn("explain", "zero_optimisation").err
    assert "`zero_optimization`" in spawn("explain", "zero").out, (
        "a key of inference configs, which points on"
    )
    assert "\n  stage  " in spawn("explain", "zero_optimization").out


@pytest.mark.parametrize("name", ["foo.yaml", "foo.yml", "foo.hjson", "foo.jsonc", "foo.json"])
@pytest.mark.parametrize("preset", ["zero2", "muon", "zero3-offload-nvme"])
def test_init_writes_what_the_name_says(here: Path, spawn: Spawns, name: str, preset: str) -> None:
    assert spawn("init", name, "--preset", preset, *TARGET).code == 0
    text = (here / name).read_text("utf-8")
    assert text.startswith("# " if name[-4:] in ("yaml", ".yml") else "{")
    assert spawn("check", name, *TARGET).code == 0
    spawn("init", "same.json", "--preset", preset, *TARGET)
    resolved = [spawn("resolve", each, "--world-size", "4", *TARGET).out for each in (name, "same.json")]
    plain = [
        {key: value for key, value in json.loads(each).items() if key[0] not in "/"} for each in resolved
    ]
    assert plain[0] == plain[1]
