"""Bad input ends in one clear line, or one finding, with the right exit code, and never in a traceback."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dsconfig.document import read_file

from .conftest import CLEAN, Runs


def refused(result: tuple[int, str, str], *message: str) -> None:
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("dsconfig: error: ")
    assert err.count("\n") == 1
    for text in message:
        assert text in err


WRONG_USE = {
    "a missing file": (["check", "missing.json"], "missing.json: no such file or directory"),
    "a NUL in a path": (["check", "a\0b"], r"a\x00b: no such file"),
    "a directory without configs": (
        ["check", "empty"],
        "empty: no DeepSpeed configs found in this directory",
    ),
    "no path, no configs": (["check"], ".: no DeepSpeed configs found"),
    "an unknown release": (
        ["check", "--target", "0.2.99", "clean.json"],
        "`0.2.99`",
        "the nearest is `0.3.1`",
    ),
    "no release": (["check", "--target", "newest", "clean.json"], "unknown DeepSpeed release `newest`"),
    "a release to come": (
        ["check", "--target", "9.9.9", "clean.json"],
        "unknown DeepSpeed release `9.9.9`: the latest known to this version of dsconfig is",
    ),
    "an empty range": (["check", "--target", ">=99", "clean.json"], "no DeepSpeed release matches `>=99`"),
    "a broken range": (["check", "--target", ">>1", "clean.json"], "`>>1` is not a range"),
    "an unknown rule code": (["check", "--select", "DSC999", "clean.json"], "unknown rule `DSC999`"),
    "an unknown option": (
        ["check", "--tagret", "0.19.8"],
        "unknown option `--tagret`",
        "did you mean `--target`?",
        "dsconfig check --help",
    ),
    "an abbreviated option": (["check", "--world", "8"], "unknown option `--world`"),
    "an unknown format": (["check", "--output-format", "xml"], "`xml` is unknown", "concise"),
    "an unknown consumer": (
        ["check", "--consumer", "me"],
        "expected one of deepspeed",
        "lightning",
        "got `me`",
    ),
    "world size 0": (["check", "--world-size", "0"], "expected a whole number above 0, got `0`"),
    "no world size": (["check", "--world-size", "many"], "expected a whole number above 0, got `many`"),
    "a name without stdin": (["check", "clean.json", "--stdin-filename", "a"], "requires `-`"),
    "no command": ([], "no command given: `dsconfig check` checks the configs below this folder"),
    "an unknown command": (["chek"], "did you mean `check`?"),
    "a file for a command": (["clean.json"], "did you mean `dsconfig check clean.json`?"),
    "nothing to explain": (["explain"], "CODE|NAME|KEY"),
    "an unknown code": (
        ["explain", "DSC999"],
        "`DSC999` is not a rule, an advisory or a key",
        "did you mean `DSC",
    ),
    "an unknown word": (["explain", "@@@"], "`@@@` is not a rule, an advisory or a key\n"),
}


@pytest.mark.parametrize(("argv", "messages"), [(a, s) for a, *s in WRONG_USE.values()], ids=WRONG_USE)
def test_wrong_use(here: Path, run: Runs, argv: list[str], messages: list[str]) -> None:
    (here / "clean.json").write_text(CLEAN)
    (here / "empty").mkdir()
    refused(run(*argv), *messages)


def test_an_unknown_release_in_the_environment(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSCONFIG_TARGET", "nope")
    refused(run("check", "clean.json"), "DSCONFIG_TARGET: unknown DeepSpeed release `nope`")


FINDINGS = {
    "binary data": bytes(range(256)) * 20,
    "an image": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "an empty file": b"",
    "white space": b" \n\t\n",
    "a list at the root": b"[1, 2]",
    "a number at the root": b"12",
    "null at the root": b"null",
    "not UTF-8": b'{"train_batch_size": 8, "a": "\xff\xfe"}',
    "UTF-16": '{"train_batch_size": 8}'.encode("utf-16"),
    "cut off": b'{"train_batch_size": 8, "fp16": {"ena',
    "a lone surrogate": b'{"train_batch_size": 8, "\\ud800": 1}',
    "deep nesting": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a huge number": b'{"train_batch_size": ' + b"9" * 5000 + b"}",
    "a NUL": b'{"train_batch_size": 8\0}',
}


@pytest.mark.parametrize("content", FINDINGS.values(), ids=FINDINGS)
@pytest.mark.parametrize("style", ["full", "concise", "json"])
def test_bad_content_is_a_finding(here: Path, run: Runs, content: bytes, style: str) -> None:
    (here / "bad.json").write_bytes(content)
    code, out, err = run("check", "bad.json", "--target", "0.19.8", "--output-format", style)
    assert code == 1
    assert "DSC" in out
    assert "error:" not in err


@pytest.mark.parametrize("content", [b"a: *b", b"a: [", b"- 1", b"", b"\t", b"\xff", b"!!python/object:x {}"])
def test_bad_yaml_is_a_finding(here: Path, run: Runs, content: bytes) -> None:
    (here / "bad.yaml").write_bytes(content)
    code, out, err = run("check", "bad.yaml", "--target", "0.19.8")
    assert (code, err) == (1, "")
    assert "DSC" in out


def test_an_unreadable_file(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    (here / "a.json").write_text(CLEAN)
    monkeypatch.setattr("dsconfig.cli.check_files.read_file", denied)
    code, out, err = run("check", "a.json", "-q")
    assert (code, out, err) == (2, "", "dsconfig: error: a.json: permission denied\n")


def test_an_internal_error_is_one_line_and_the_next_file_is_checked(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str) -> object:
        if path == "a.json":
            raise KeyError("oh\nno")
        return read_file(path)

    for name in ("a.json", "b.json"):
        (here / name).write_text(CLEAN)
    monkeypatch.setattr("dsconfig.cli.check_files.read_file", broken)
    code, out, err = run("check", "a.json", "b.json")
    assert code == 2
    assert "Checked 1 file" in out
    assert err.startswith("dsconfig: error: internal error while checking a.json: KeyError: ")
    assert err.count("\n") == 1
    monkeypatch.setenv("DSCONFIG_DEBUG", "1")
    assert "Traceback" in run("check", "a.json").err


def test_an_internal_error_outside_of_files(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("dsconfig.check.effective_settings"), "find_settings", lambda _: 1 / 0)
    refused(run("check"), "internal error: ZeroDivisionError", "DSCONFIG_DEBUG=1")


def test_ctrl_c(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    (here / "a.json").write_text(CLEAN)
    monkeypatch.setattr("dsconfig.cli.check_files.read_file", interrupted)
    assert run("check", "a.json") == (130, "", "")


def test_a_reader_that_has_gone(here: Path) -> None:
    command = Path(sys.executable).parent / "dsconfig"
    keys = ",".join(f'"key_{i}": 1' for i in range(3000))
    (here / "bad.json").write_text(f'{{"zero_optimization": {{{keys}}}}}')
    with subprocess.Popen(
        [str(command), "check", "bad.json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize("verb", ["check", "check --target >=0.16", "resolve --world-size 8", "show"])
@pytest.mark.parametrize(
    "text",
    [
        '{"train_batch_size": "' + "9" * 5000 + '"}',
        '{"train_batch_size": 1' + "0" * 400 + "}",
        '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1' + "0" * 400 + "}",
        '{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 1000000000000000}',
        '{"train_micro_batch_size_per_gpu": false}',
        '{"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "'
        + "9" * 5000
        + '"}}}',
    ],
    ids=["digits in a string", "10^400", "10^400 steps", "text × number", "false", "digits of a schedule"],
)
def test_numbers_out_of_the_ordinary(run: Runs, here: Path, verb: str, text: str) -> None:
    (here / "odd.json").write_text(text)
    result = run(*verb.split(), "odd.json")
    assert result.code in (0, 1), result.err
    assert "internal error" not in result.err


NUL_PATHS = {
    "accelerate.yaml": 'distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: "a\\u0000b.json"\n',
    "recipe.yaml": 'output_dir: x\nper_device_train_batch_size: 1\ndeepspeed: "a\\u0000b.json"\n',
    "arguments.json": '{"deepspeed": "a\\u0000b.json", "output_dir": "x", "per_device_train_batch_size": 1}',
    "run.sh": "deepspeed train.py --deepspeed a\0b.json --model_name_or_path m\0\n",
    "ds_config.json": '{"$dsconfig": {"model": "a\\u0000b"}, "zero_optimization": {"stage": 3}}',
}


@pytest.mark.parametrize("verb", ["check", "fix --diff", "resolve", "show", "compat", "migrate", "memory"])
@pytest.mark.parametrize("name", [*NUL_PATHS, "."])
def test_no_file_is_called_by_a_name_with_a_nul(run: Runs, here: Path, verb: str, name: str) -> None:
    for each, text in NUL_PATHS.items():
        if name in (each, "."):
            (here / each).write_text(text)
    result = run(*verb.split(), name)
    assert result.code in (0, 1, 2)
    assert "internal error" not in result.err
    assert "\0" not in result.out + result.err


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["check", "a.json", "--world-size", "8", "b.json"], "Checked 2 files"),
        (["show", "a.json", "--world-size", "8", "train_batch_size"], "train_batch_size"),
        (["rules", "DSC101", "--color", "never", "DSC102"], "DSC102"),
    ],
)
def test_arguments_may_follow_options(here: Path, run: Runs, argv: list[str], shown: str) -> None:
    for name in ("a.json", "b.json"):
        (here / name).write_text('{"train_batch_size": 8}')
    code, out, _ = run(*argv)
    assert (code, shown in out) == (0, True)
