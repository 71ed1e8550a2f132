"""`dsconfig fix` and `check --fix`: files are fixed whole, with their mode and encoding, or left alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dsconfig.document.atomic_write import FileChangedError, rewrite_if_unchanged, write_atomically

from .conftest import Runs, Spawns

BROKEN = (
    '{\r\n  "train_batch_size": 8,\r\n  "prescale_gradients": 1, // why\r\n  "no_such_key_here": 1\r\n}\r\n'
)
FIXED = BROKEN.replace('gradients": 1', 'gradients": true')
TARGET = ("--target", "0.19.8")


@pytest.fixture
def file(here: Path) -> Path:
    path = here / "ds_config.json"
    path.write_bytes(b"\xef\xbb\xbf" + BROKEN.encode())
    return path


def test_safe_fixes_keep_every_other_byte(file: Path, run: Runs) -> None:
    file.chmod(0o640)
    code, out, err = run("fix", file.name, *TARGET)
    assert file.read_bytes() == b"\xef\xbb\xbf" + FIXED.encode()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (code, err) == (1, "")
    applied, *left, last = out.splitlines()
    assert applied == "ds_config.json: prescale_gradients: replace with `true` (DSC113 coerced-value)"
    assert [line.split()[:2] for line in left] == [
        ["ds_config.json:1:1:", "DSC002"],
        ["ds_config.json:4:3:", "DSC101"],
    ]
    assert last == "Fixed 1 problem in 1 file; 2 problems left, 1 of them fixable with --unsafe-fixes."
    assert sorted(os.listdir()) == [".git", "ds_config.json"]


def test_unsafe_fixes_when_asked(file: Path, run: Runs) -> None:
    result = run("fix", file.name, *TARGET, "--unsafe-fixes")
    assert "no_such_key_here" not in file.read_text()
    assert result.code == 0
    assert result.out.endswith("Fixed 2 problems in 1 file; 1 problem left.\n")


def test_nothing_to_do(files: Path, run: Runs) -> None:
    before = (files / "clean.json").stat().st_mtime_ns
    assert run("fix", "clean.json") == (0, "Nothing to fix.\n", "")
    assert run("fix", "clean.json", "-q") == (0, "", "")
    assert (files / "clean.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("verb", [("fix",), ("check", "--fix", "-q")])
def test_a_diff_writes_nothing(file: Path, run: Runs, verb: tuple[str, ...]) -> None:
    before = file.read_bytes()
    code, out, _ = run(*verb, file.name, *TARGET, "--diff")
    assert code == 1
    assert out.startswith("--- a/ds_config.json\n+++ b/ds_config.json\n@@ ")
    assert '-  "prescale_gradients": 1, // why\r\n+  "prescale_gradients": true, // why\r\n' in out
    assert file.read_bytes() == before


def test_a_diff_is_what_git_applies(file: Path, spawn: Spawns) -> None:
    import subprocess

    file.write_text(BROKEN[:-2], newline="")
    patch = spawn("fix", file.name, *TARGET, "--diff").out
    Path("fix.patch").write_text(patch, newline="")
    subprocess.run(["git", "apply", "--unsafe-paths", "fix.patch"], check=True)
    assert file.read_bytes() == FIXED[:-2].encode()


def test_check_shows_what_is_left(file: Path, run: Runs) -> None:
    code, out, err = run("check", "--fix", file.name, *TARGET, "--output-format", "concise")
    assert code == 1
    assert [line.split()[1] for line in out.splitlines()[:2]] == ["DSC002", "DSC101"]
    assert file.read_bytes().endswith(FIXED.encode())
    assert (
        "ds_config.json: prescale_gradients: replace with `true` (DSC113 coerced-value)\nFixed 1 problem"
        in out
    )
    assert "1 warning" in out
    assert not err


@pytest.mark.parametrize("form", ["full", "json"])
def test_check_says_what_it_fixed(file: Path, run: Runs, form: str) -> None:
    other = {"train_batch_size": 8, "amp": None, "prescale_gradients": 0, "fp16": {"enabled": 0}}
    Path("other.json").write_text(json.dumps(other))
    Path("clean.json").write_text('{"train_batch_size": 8}')
    names = (file.name, "other.json", "clean.json")
    message = "{} 4 problems in 2 files; 2 problems left, 1 of them fixable with --unsafe-fixes.\n"
    listed = (
        "- ds_config.json: 1 x DSC113 (coerced-value)\n"
        "- other.json: 1 x DSC104 (removed-key), 2 x DSC113 (coerced-value)\n"
    )
    result = run("check", "--fix", "--diff", *names, *TARGET)
    assert result.err.startswith(message.format("Would fix"))
    assert listed not in result.err
    result = run("check", "--fix", "--show-fixes", *names, *TARGET, "--output-format", form)
    assert message.format("Fixed") + listed in (result.out if form == "full" else result.err)
    result = run("check", "--fix", *names, *TARGET, "--output-format", form)
    assert "Nothing to fix; 2 problems left" in (result.out if form == "full" else result.err)
    assert "fix" not in run("check", "--fix", "-q", "clean.json", *TARGET).out


def test_stdin_goes_to_stdout(spawn: Spawns) -> None:
    code, out, err = spawn("fix", "-", *TARGET, stdin=BROKEN.encode())
    assert (code, out) == (1, FIXED)
    assert "Fixed 1 problem" in err
    text = '{"train_batch_size": 8, "job": "é"}'
    assert spawn("fix", "-", "-q", stdin=text.encode(), PYTHONIOENCODING="ascii").out == text


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["check", "--diff", "."], "--diff requires --fix"),
        (["check", "--fix", "-"], "use `dsconfig fix -`"),
        (["check", "--fix", "--diff", "--output-format", "json", "."], "--diff cannot be combined with json"),
        (["fix", "-", "clean.json"], "`-` cannot be combined with other paths"),
        (["fix", "missing.json"], "missing.json: no such file or directory"),
    ],
)
def test_wrong_use(files: Path, run: Runs, argv: list[str], message: str) -> None:
    code, _, err = run(*argv)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_link_stays_a_link(file: Path, run: Runs) -> None:
    Path("sub").mkdir()
    Path("sub/link.json").symlink_to(file)
    run("fix", "sub/link.json", *TARGET)
    assert Path("sub/link.json").is_symlink()
    assert file.read_bytes().endswith(FIXED.encode())
    assert os.listdir("sub") == ["link.json"]


def test_a_file_that_may_not_be_written_is_left(
    file: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    before = file.read_bytes()
    code, _, err = run("fix", file.name, *TARGET)
    assert (code, err) == (2, "dsconfig: error: ds_config.json: permission denied\n")
    assert file.read_bytes() == before


def test_bytes_that_are_no_text_are_left(here: Path, run: Runs) -> None:
    data = b'{"train_batch_size": 8, "prescale_gradients": 1, "job": "\xff"}'
    (here / "a.json").write_bytes(data)
    assert run("fix", "a.json", *TARGET).code == 1
    assert (here / "a.json").read_bytes() == data


# -- writing -----------------------------------------------------------------------------------------------


def test_what_someone_else_wrote_is_kept(here: Path) -> None:
    path = here / "a.json"
    path.write_bytes(b"theirs")
    with pytest.raises(FileChangedError, match="changed while it was being fixed"):
        rewrite_if_unchanged(str(path), b"read", b"ours")
    assert path.read_bytes() == b"theirs"
    assert sorted(os.listdir()) == [".git", "a.json"]


def test_a_change_in_the_last_moment_is_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = here / "a.json"
    path.write_bytes(b"read")
    real = os.fsync

    def late(descriptor: int) -> None:
        real(descriptor)
        path.write_bytes(b"read, and more")

    monkeypatch.setattr(os, "fsync", late)
    with pytest.raises(FileChangedError):
        rewrite_if_unchanged(str(path), b"read", b"ours")
    assert path.read_bytes() == b"read, and more"
    assert sorted(os.listdir()) == [".git", "a.json"]


def test_a_full_disk_leaves_the_file_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = here / "a.json"
    path.write_bytes(b"read")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        rewrite_if_unchanged(str(path), b"read", b"ours")
    assert path.read_bytes() == b"read"
    assert sorted(os.listdir()) == [".git", "a.json"]


def test_a_written_file_keeps_its_mode_and_its_link(here: Path) -> None:
    real = here / "real.json"
    real.write_bytes(b"old")
    real.chmod(0o640)
    (here / "link.json").symlink_to("real.json")
    write_atomically("link.json", b"new")
    assert (here / "link.json").is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(here: Path) -> None:
    (here / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically("folder", b"new")
    assert sorted(os.listdir()) == [".git", "folder"]


def test_a_pipe_is_written_into(here: Path) -> None:
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically("pipe", b"new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert sorted(os.listdir()) == [".git", "pipe"]


def test_a_terminal_gets_no_control_characters_of_a_file(here: Path) -> None:
    """Piped, the same diff has them, so that it can be applied."""
    text = b'{\n"nob": "\x1b[31mred\t\x9b",\n"fp16": {"enabled": "true"}, "train_batch_size": 8}\n'
    (here / "a.json").write_bytes(text.replace(b"\x9b", "\x9b".encode()))
    command = [str(Path(sys.executable).parent / "dsconfig"), "fix", "--diff", "--unsafe-fixes", "a.json"]
    piped = subprocess.run(command, capture_output=True, check=False).stdout
    assert b'-"nob": "\x1b[31mred\t\xc2\x9b",' in piped
    terminal, end = os.openpty()
    subprocess.run(command, stdout=end, stderr=subprocess.DEVNULL, check=False)
    os.close(end)
    output = os.read(terminal, 1 << 16).replace(b"\r\n", b"\n")
    os.close(terminal)
    assert output == piped.replace(b"\x1b", rb"\x1b").replace(b"\xc2\x9b", rb"\x9b")


def test_a_run_that_was_cut_short_says_so(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "ds.json").write_text('{"train_batch_size": "8", "zero_optimization": {"stage": 2, "stag": 2,}}')
    monkeypatch.setattr(import_module("dsconfig.fix.apply_fixes"), "MAX_PASSES", 1)
    assert run("fix", "ds.json", "--unsafe-fixes").out.endswith("run again to fix more.\n")
    monkeypatch.undo()
    assert "run again" not in run("fix", "ds.json", "--unsafe-fixes").out
