"""`dsconfig check`: every option, on configs whose findings are settled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsconfig

from .conftest import CLEAN, REFUSED, UNKNOWN, Runs, Spawns


def test_a_clean_file(files: Path, run: Runs) -> None:
    result = run("check", "clean.json", "--target", "0.19.8", "--world-size", "8")
    assert result == (0, "Checked 1 file against DeepSpeed 0.19.8 (--target): no problems found.\n", "")


def test_findings_are_shown_with_their_source(files: Path, run: Runs) -> None:
    code, out, err = run("check", "refused.json", "--target", "0.19.8")
    assert (code, err) == (1, "")
    assert out.startswith("error[DSC101] unknown-key (rejected): ")
    assert " --> refused.json:1:51\n" in out
    assert REFUSED in out
    assert f"{'^' * 18}\n" in out
    assert out.endswith("against DeepSpeed 0.19.8 (--target): 1 error.\n")


def test_the_summary_goes_where_the_findings_go(files: Path, run: Runs) -> None:
    code, out, err = run("check", "unknown.json", "--target", "0.19.8", "--output-format", "concise")
    assert (code, err) == (1, "")
    assert out.startswith("unknown.json:1:25: DSC101 unknown-key ignored warning: ")
    assert out.endswith("Checked 1 file against DeepSpeed 0.19.8 (--target): 1 warning.\n")


def test_json_is_one_document(files: Path, run: Runs) -> None:
    _, out, err = run("check", "clean.json", "unknown.json", "--target", "0.19.8", "--output-format", "json")
    document = json.loads(out)
    assert list(document) == ["version", "target", "files"]
    assert (document["version"], document["target"]) == (1, "0.19.8")
    clean, unknown = document["files"]
    reader = {"name": "deepspeed", "why": 'no value is "auto"', "origin": "default", "likely": True}
    assert clean == {"path": "clean.json", "target": "0.19.8", "reader": reader, "diagnostics": []}
    (diagnostic,) = unknown["diagnostics"]
    fields = (
        "code name effect severity message help path line column end_line end_column releases related fix url"
    )
    assert " ".join(diagnostic) == fields
    assert diagnostic["path"] == ["no_such_key_here"]
    assert (diagnostic["line"], diagnostic["column"], diagnostic["end_line"], diagnostic["end_column"]) == (
        1,
        25,
        1,
        43,
    )
    assert diagnostic["releases"] == ["0.19.8"]
    assert "against DeepSpeed 0.19.8" in err


def test_quiet_shows_findings_only(files: Path, run: Runs) -> None:
    assert run("check", "clean.json", "-q") == (0, "", "")
    code, out, err = run("check", "unknown.json", "-q")
    assert (code, err) == (1, "")
    assert "Checked" not in out


def test_statistics_count_by_rule(files: Path, run: Runs) -> None:
    out = run("check", ".", "unknown.json", "refused.json", "--statistics").out
    assert "     2 DSC101 unknown-key\n" in out
    result = run("check", "unknown.json", "--statistics", "--output-format", "json")
    assert json.loads(result.out)["files"]
    assert "     1 DSC101 unknown-key\n" in result.err


@pytest.mark.parametrize(
    ("level", "warning", "error"), [("error", 0, 1), ("warning", 1, 1), ("info", 1, 1), ("never", 0, 0)]
)
def test_fail_on(files: Path, run: Runs, level: str, warning: int, error: int) -> None:
    assert run("check", "clean.json", "--fail-on", level).code == 0
    assert run("check", "unknown.json", "--fail-on", level).code == warning
    assert run("check", "refused.json", "--fail-on", level).code == error


def test_exit_zero_is_for_findings_not_for_wrong_use(files: Path, run: Runs) -> None:
    assert run("check", "refused.json", "--exit-zero").code == 0
    assert run("check", "refused.json", "missing.json", "--exit-zero").code == 2


# -- selection -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "is_shown"),
    [
        (["--select", "DSC2"], False),
        (["--select", "DSC2", "--extend-select", "DSC101"], True),
        (["--select", "DSC2,DSC101"], True),
        (["--ignore", "DSC101"], False),
        (["--ignore", "dsc101"], False),
        (["--ignore", "DSC1"], False),
        (["--ignore", "unknown-key"], False),
        (["--ignore", "DSC1", "--select", "DSC101"], True),
        (["--ignore", "DSC101", "--select", "DSC1"], False),
        (["--ignore", "DSC2", "--ignore", "DSC101"], False),
    ],
)
def test_selection(files: Path, run: Runs, options: list[str], is_shown: bool) -> None:
    result = run("check", "unknown.json", *options)
    assert ("DSC101" in result.out) == is_shown
    assert result.code == int(is_shown)
    assert ("1 suppressed" in result.out) != is_shown


def test_an_unknown_rule_is_refused_with_the_nearest(files: Path, run: Runs) -> None:
    for option in ("--select", "--ignore", "--extend-select"):
        code, out, err = run("check", "clean.json", option, "unknown-keys")
        assert (code, out) == (2, "")
        assert err == f"dsconfig: error: {option}: unknown rule `unknown-keys`, did you mean `unknown-key`?\n"


# -- target, world size, consumer ------------------------------------------------------------------


def test_the_target_is_told_with_its_origin(files: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "dsconfig.toml").write_text('target = "0.14.5"\n')
    assert "DeepSpeed 0.14.5 (dsconfig.toml)" in run("check", "clean.json").out
    monkeypatch.setenv("DSCONFIG_TARGET", "0.16.9")
    assert "DeepSpeed 0.16.9 (DSCONFIG_TARGET)" in run("check", "clean.json").out
    assert "DeepSpeed 0.18.9 (--target)" in run("check", "clean.json", "--target", "0.18.9").out


def test_several_releases_are_checked_at_once(files: Path, run: Runs) -> None:
    out = run("check", "refused.json", "--target", ">=0.16.8,<=0.17.2").out
    assert "DeepSpeed 0.16.8 to 0.17.2 (5 releases, --target): 1 error, 1 warning.\n" in out
    assert "= releases: 0.16.8 to 0.17.0\n" in out
    assert "= releases: 0.17.1 to 0.17.2\n" in out


def test_a_release_newer_than_known_is_refused_unless_it_is_installed(
    files: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run("check", "clean.json", "--target", "99.0.0")
    assert (code, "unknown DeepSpeed release `99.0.0`" in err) == (2, True)
    (files / "deepspeed-99.0.0+cu1.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(files))
    for target in ("99.0.0", "installed"):
        code, out, _ = run("check", "clean.json", "--target", target)
        assert (code, "note: 99.0.0 is newer than every release that dsconfig knows" in out) == (0, True)
    assert run("check", "clean.json", "--target", "99.0.1").code == 2


def test_world_sizes_are_noted_where_unknown(files: Path, run: Runs) -> None:
    (files / "sizes.json").write_text('{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4}')
    assert "note: sizes.json works at these world sizes: " in run("check", "sizes.json").out
    assert "note" not in run("check", "sizes.json", "--world-size", "2").out
    assert run("check", "sizes.json", "--world-size", "3").code == 1


def test_the_consumer_is_passed_on(files: Path, run: Runs) -> None:
    (files / "auto.json").write_text('{"train_batch_size": "auto", "zero_optimization": {}}')
    assert run("check", "auto.json", "--consumer", "deepspeed").code == 1
    assert run("check", "auto.json", "--consumer", "transformers").code == 0


# -- files -----------------------------------------------------------------------------------------


def test_stdin(spawn: Spawns) -> None:
    result = spawn("check", "-", "--output-format", "concise", stdin=UNKNOWN.encode())
    assert result.out.startswith("<stdin>:1:25: DSC101")
    named = spawn(
        "check", "-", "--stdin-filename", "a.yaml", "-q", stdin=b"# a comment\ntrain_batch_size: 8\n"
    )
    assert named == (0, "", "")


def test_a_directory_stands_for_its_configs(files: Path, run: Runs) -> None:
    (files / "deep" / "er").mkdir(parents=True)
    (files / "deep" / "er" / "ds_config.json").write_text(CLEAN)
    (files / "zero.json").write_text('{"zero_optimization": {"stage": 1}}')
    (files / "package.json").write_text('{"name": "no config"}')
    deep = 'deep/er/ds_config.json: probably read by deepspeed: no value is "auto"\n'
    assert run("check", ".", "--show-files").out.splitlines()[0].startswith("zero.json: ")
    assert run("check", "--show-files").out.endswith(f"\n{deep}")
    assert run("check", "deep", "deep/er/ds_config.json", "--show-files").out == deep


def test_one_bad_path_does_not_stop_the_others(files: Path, run: Runs) -> None:
    code, out, err = run("check", "missing.json", "clean.json")
    assert code == 2
    assert err == "dsconfig: error: missing.json: no such file or directory\n"
    assert out.endswith("no problems found.\n")


def test_a_long_run_shows_progress_on_a_terminal_only(
    files: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsconfig.cli.check_files._PATIENCE", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    result = run("check", "clean.json", "unknown.json", "--color", "never")
    assert "Checking" in result.err
    assert "DSC101" in result.out
    assert run("check", "clean.json", "unknown.json", "-q").err == ""


def test_a_long_report_ends_with_its_rules_and_where_to_start(here: Path, run: Runs) -> None:
    """What to do first: safe fixes, then the errors among much else, then the most frequent rule."""

    def last_lines(files: int = 28, **keys: object) -> list[str]:
        for number in range(files):
            (here / f"ds_config_{number}.json").write_text('{"train_batch_size": 8, "no_such_key_here": 1}')
        (here / "ds_config.json").write_text(
            json.dumps({"train_batch_size": 8, "no_such_key_here": 1, **keys})
        )
        out = run("check", "--target", "0.19.8", "--output-format", "concise").out
        return [line for line in out.splitlines() if not line.startswith(("ds_config", "Checked", "note"))]

    assert last_lines() == []
    assert last_lines(prescale_gradients=0, fp16={"enabled": 0}) == [
        "    29 DSC101 unknown-key",
        "     2 DSC113 coerced-value",
        "start here: `--fix` fixes 2 of 31 problems, and changes nothing that works",
    ]
    assert last_lines(gradient_clipping="b", zero_optimization={"stage": 7})[-1] == (
        "start here: `--min-severity error` shows only the 2 errors"
    )
    lines = last_lines(files=29)
    assert lines[1:] == [
        "start here: `dsconfig explain DSC101` says what to do about unknown-key, 30 of 30 problems"
    ]
    assert "start here" not in run("check", "-q").out
    statistics = run("check", "--target", "0.19.8", "--statistics").out
    assert statistics.count("DSC101 unknown-key\n") == 1
    assert "start here" in statistics


def test_a_long_report_is_the_same_in_python(here: Path, run: Runs) -> None:
    unknown = {f"no_such_key_{letter * 3}": 1 for letter in "abcdefghijklmnopqrst"}
    config = {"train_batch_size": 8, "zero_optimization": unknown, "fp16": unknown}
    (here / "a.json").write_text(json.dumps(config))
    assert (
        run("check", "a.json", "--target", "0.19.8").out
        == str(dsconfig.check("a.json", target="0.19.8")) + "\n"
    )


def test_color(files: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def colored(*options: str) -> bool:
        return "\x1b[" in run("check", "unknown.json", *options).out

    assert not colored()
    assert colored("--color", "always")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert colored()
    assert not colored("--color", "never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colored()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_terminal_encoding_will_do(files: Path, spawn: Spawns, encoding: str) -> None:
    (files / "näme.json").write_text('{"train_batch_size": 8, "学習\\ud800": "é"}', encoding="utf-8")
    for style in ("full", "concise", "json"):
        result = spawn("check", "näme.json", "--output-format", style, PYTHONIOENCODING=encoding)
        assert result.code == 1, result.err
        assert "internal" not in result.err


def test_the_file_itself_can_silence_a_finding(files: Path, run: Runs) -> None:
    (files / "a.json").write_text(
        '{"$dsconfig": {"ignore": ["unknown-key"]}, "train_batch_size": 8, "no_such_key": 1}'
    )
    code, out, _ = run("check", "a.json")
    assert code == 0
    assert out.endswith("no problems found, 1 suppressed.\n")


def test_a_suppression_that_silences_nothing_is_found(files: Path, run: Runs) -> None:
    (files / "a.json").write_text('{"$dsconfig": {"ignore": ["unknown-key"]}, "train_batch_size": 8}')
    code, out, _ = run("check", "a.json", "--output-format", "concise")
    assert code == 1
    assert out.startswith(
        "a.json:1:27: DSC008 unused-suppression ignored warning: unused suppression `unknown-key`"
    )
