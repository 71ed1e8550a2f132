"""Windows and macOS, simulated: paths, file systems, consoles, encodings, and modules that are missing there."""

from __future__ import annotations

import ctypes
import errno
import io
import json
import ntpath
import os
import stat
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dsconfig.check import discover
from dsconfig.check.discover import GitListing
from dsconfig.cli import EXIT_BROKEN_PIPE, main
from dsconfig.core import file_access
from dsconfig.document import atomic_write
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.lsp.protocol import path_from_uri, uri_from_path
from dsconfig.render import FORMATS, sarif
from dsconfig.render.terminal_style import style_of
from tests.cli.conftest import Runs, Spawns

CONFIG = '{"train_batch_size": 8, "日本": "é", "zero_optimization": {"stage": 2, "overlap_com": true}}'


@contextmanager
def windows_paths() -> Iterator[None]:
    """Give `os.path` and `os.sep` the meaning that they have on Windows, for code that opens no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "path", ntpath)
        patch.setattr(os, "sep", "\\")
        yield


# Paths.


def test_a_path_on_another_drive_stays_absolute() -> None:
    with windows_paths():
        assert file_access.relative_path("D:\\job\\ds.json", "C:\\work") == "D:\\job\\ds.json"
        assert file_access.relative_path("C:\\work\\a\\ds.json", "C:\\work") == "a\\ds.json"


def test_no_command_needs_all_files_on_one_drive(
    here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every path that is shown may be on another drive than the working directory."""

    relpath = os.path.relpath

    def relpath_on_one_drive(path: str, start: str = os.curdir) -> str:
        if start == os.curdir or not path.startswith(start):
            raise ValueError("path is on mount 'D:', start on mount 'C:'")
        return relpath(path, start)

    (here / "dsconfig.toml").write_text('target = "0.19.8"\nexclude = ["old"]\n')
    (here / "conf").mkdir()
    (here / "conf" / "ds.json").write_text(CONFIG)
    (here / "requirements.txt").write_text("deepspeed==0.19.8\ntransformers==4.45\n")
    (here / "train.py").write_text(
        "from transformers import Trainer, TrainingArguments\nTrainingArguments('out')\n"
    )
    (here / "run.sh").write_text("deepspeed --num_gpus 2 train.py --deepspeed conf/ds.json\n")
    monkeypatch.setattr(os.path, "relpath", relpath_on_one_drive)
    for arguments in (
        ["check", str(here / "conf" / "ds.json")],
        ["check", str(here / "run.sh"), "--output-format", "sarif"],
        ["fix", "--diff", str(here / "conf" / "ds.json")],
        ["memory", str(here / "run.sh"), "--params", "7B"],
        ["resolve", str(here / "run.sh")],
    ):
        code, out, err = run(*arguments)
        assert "internal error" not in out + err, arguments
        assert "Traceback" not in out + err
        assert code in (0, 1, 2)


def test_a_path_of_a_linux_machine_is_absolute_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with windows_paths():
        monkeypatch.setattr(
            ntpath, "isabs", lambda path: path[1:3] == ":\\" or path[:2] == "\\\\"
        )  # as in Python 3.13
        assert file_access.is_absolute("/data/ds.json")
        assert file_access.is_absolute("D:\\job\\ds.json")
        assert not file_access.is_absolute("conf\\ds.json")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///c%3A/Users/a%20b/ds.json", "c:\\Users\\a b\\ds.json"),
        ("file:///C%3A/x/%C3%A9.json", "C:\\x\\é.json"),
        ("file://server/share/x.json", "\\\\server\\share\\x.json"),
    ],
)
def test_an_editor_names_drives_and_shares(uri: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with windows_paths():
        monkeypatch.setattr("dsconfig.lsp.protocol.os.name", "nt")
        found = path_from_uri(uri), uri_from_path(path)
        monkeypatch.undo()
    assert found == (path, uri)


def test_git_lists_files_with_slashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "_IS_FOLDED", True)
    with windows_paths():
        listing = GitListing("C:\\repo", ["conf/zero/DS.json", "nested/"])
        assert listing.lists_path("C:\\repo\\conf\\zero\\ds.json")
        assert listing.lists_path("C:\\repo\\conf")
        assert not listing.lists_path("C:\\repo\\conf\\other.json")
        assert listing.is_nested_repository("C:\\repo\\nested")
    assert GitListing("/repo", ["über.json"]).lists_path("/repo/u\u0308ber.json"), "decomposed, as on HFS+"


def test_a_path_in_the_current_folder_is_shown_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "_HERE", ".\\")
    assert discover._shorten_path(".\\conf\\ds.json") == "conf\\ds.json"


def test_a_makefile_below_a_folder_starts_jobs() -> None:
    with windows_paths():
        assert is_shell_script_name("scripts\\Makefile")


def test_sarif_names_drives_and_shares() -> None:
    with windows_paths():
        assert sarif._artifact_location("D:\\job\\a b.json") == {"uri": "file:///D%3A/job/a%20b.json"}
        assert sarif._artifact_location("\\\\server\\share\\a.json") == {"uri": "file://server/share/a.json"}


# Files.


@pytest.fixture
def windows_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without locks, on which an open file cannot be replaced."""
    monkeypatch.setattr(atomic_write, "_LOCKS", False)
    monkeypatch.setattr(atomic_write, "_PATIENCE", 0.2)


@pytest.mark.usefixtures("windows_files")
def test_a_file_that_is_open_elsewhere_is_replaced_once_it_is_closed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, denials = os.replace, iter((True, True, False))

    def deny_at_first(source: str, target: str) -> None:
        if next(denials):
            raise PermissionError(errno.EACCES, "Access is denied", source, None, target)
        replace(source, target)

    (here / "ds.json").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", deny_at_first)
        patch.setattr(os, "name", "nt")
        atomic_write.rewrite_if_unchanged("ds.json", b"old", b"new")
    assert (here / "ds.json").read_text() == "new"


@pytest.mark.usefixtures("windows_files")
def test_a_file_that_stays_open_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(source: str, target: str) -> None:
        raise PermissionError(errno.EACCES, "Access is denied", source, None, target)

    (here / "ds.json").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", deny)
        patch.setattr(os, "name", "nt")
        with pytest.raises(PermissionError) as raised:
            atomic_write.rewrite_if_unchanged("ds.json", b"old", b"new")
    assert raised.value.filename == str(here / "ds.json")
    assert [path.name for path in here.iterdir() if path.is_file()] == ["ds.json"], "without its draft"


@pytest.mark.usefixtures("windows_files")
def test_a_draft_of_another_run_is_left_alone(here: Path) -> None:
    drafts = [here / f".dsconfig-draft-{digit * 16}" for digit in "ab"]
    for draft in drafts:
        draft.write_text("new")
    os.utime(drafts[1], (time.time() - 100_000,) * 2)
    atomic_write.remove_stale_drafts(str(here))
    assert [draft.exists() for draft in drafts] == [True, False]


# Consoles and encodings.


def test_a_diff_keeps_its_line_ends(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text streams of Windows write a line feed as `\\r\\n`, and would double the returns of the file."""
    (here / "ds.json").write_bytes(CONFIG.replace("{", "{\r\n", 1).encode())
    buffer = io.BytesIO()
    with monkeypatch.context() as patch:
        stdout = io.TextIOWrapper(buffer, "cp1252", newline="\r\n")
        patch.setattr(sys, "stdout", stdout)
        main(["fix", "--diff", "ds.json"])
    lines = buffer.getvalue().split(b"\n")
    assert b"\r\r" not in buffer.getvalue()
    stdout.detach()
    assert lines[0] == b"--- a/ds.json"
    assert b" {\r" in lines
    assert any(line.startswith(b"+") and "日本".encode() in line for line in lines)


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_code_page_ends_no_command(here: Path, spawn: Spawns, output_format: str) -> None:
    (here / "ds.json").write_text(CONFIG, "utf-8")
    arguments = ("check", "ds.json", "--output-format", output_format)
    done = spawn(*arguments, PYTHONIOENCODING="cp1252")
    expected = spawn(*arguments, PYTHONIOENCODING="utf-8")
    assert (done.code, done.err.count("Traceback")) == (1, 0)
    if output_format not in ("full", "concise"):
        assert done.out == expected.out, "programs read the same bytes on every system"


def test_configs_are_written_as_utf8(here: Path, spawn: Spawns) -> None:
    (here / "ds.json").write_text(CONFIG.replace('overlap_com"', 'overlap_comm"'), "utf-8")
    assert "日本" in spawn("resolve", "ds.json", "--world-size", "8", PYTHONIOENCODING="cp1252").out


class BrokenPipeOfWindows(io.TextIOWrapper):
    """Output whose reader has ended, which Windows reports as an invalid argument."""

    broken = False

    def write(self, text: str) -> int:
        self.broken = True
        return super().write(text)

    def flush(self) -> None:
        if self.broken:
            raise OSError(errno.EINVAL, "Invalid argument")


def test_an_output_that_nobody_reads_is_no_error(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "ds.json").write_text(CONFIG)
    with monkeypatch.context() as patch:
        stdout = BrokenPipeOfWindows(io.BytesIO())
        patch.setattr(sys, "stdout", stdout)
        patch.setattr("dsconfig.cli._discard_buffer", lambda _: None)
        patch.setattr("dsconfig.cli._IS_WINDOWS", True)
        code = main(["explain", "DSC101"])
        stdout.broken = False
    assert code == EXIT_BROKEN_PIPE
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("accepts", [True, False])
def test_a_console_is_asked_whether_it_understands_colors(
    monkeypatch: pytest.MonkeyPatch, accepts: bool
) -> None:
    modes: list[int] = []

    class Kernel:
        @staticmethod
        def GetConsoleMode(handle: int, mode: Any) -> int:  # noqa: N802
            mode._obj.value = 3
            return 1

        @staticmethod
        def SetConsoleMode(handle: int, mode: int) -> int:  # noqa: N802
            modes.append(mode)
            return int(accepts)

    class Console(io.StringIO):
        encoding = "cp437"

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return 1

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(get_osfhandle=lambda descriptor: 7))
    monkeypatch.setattr(ctypes, "windll", types.SimpleNamespace(kernel32=Kernel), raising=False)
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.delenv("CI", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        style = style_of(Console())
    assert (style.color, style.links, style.wraps) == (accepts, accepts, True)
    assert modes == [7], "3 and ENABLE_VIRTUAL_TERMINAL_PROCESSING"


# What other systems lack.

BARE = """
import asyncio, os, signal, subprocess, sys, tempfile, json
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "readline"):
    sys.modules[name] = None
for name in ("geteuid getuid getegid getgid getpgrp killpg setsid fork fchown fchmod chown listxattr getxattr setxattr "
             "removexattr set_blocking statvfs mkfifo uname getloadavg sched_getaffinity "
             "O_NONBLOCK O_CLOEXEC O_NOCTTY O_NOFOLLOW O_DIRECTORY WNOHANG").split():
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL SIGPIPE SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGSTOP pthread_sigmask SIG_BLOCK setitimer alarm "
             "pthread_kill sigwait").split():
    if hasattr(signal, name):
        delattr(signal, name)
from dsconfig.cli import main
import dsconfig.lsp.stdio_server
for arguments in json.loads(sys.argv[1]):
    print(arguments[0], main(arguments), flush=True)
"""
"""A program that runs commands without the modules, functions and constants that Windows lacks."""
COMMANDS = {
    "check": ["check", "."],
    "fix": ["fix", "ds.json"],
    "migrate": ["migrate", "ds.json", "--to", "0.16.9"],
    "compat": ["compat", "ds.json"],
    "resolve": ["resolve", "ds.json", "--world-size", "8"],
    "show": ["show", "ds.json"],
    "memory": ["memory", "ds.json", "--params", "7B"],
    "init": ["init", "new.json", "--yes"],
    "doctor": ["doctor"],
    "explain": ["explain", "DSC101"],
    "schema": ["schema"],
    "elastic": ["elastic", "plan", "elastic.json"],
    "run": ["elastic", "run", "elastic.json", "train.py"],
}


def test_commands_need_nothing_that_windows_lacks(here: Path) -> None:
    (here / "ds.json").write_text(CONFIG)
    (here / "train.py").write_text("")
    elasticity = {"enabled": True, "max_train_batch_size": 16, "micro_batch_sizes": [2, 4], "version": 0.1}
    (here / "elastic.json").write_text(json.dumps({"elasticity": elasticity}))
    command = [sys.executable, "-c", BARE, json.dumps(list(COMMANDS.values()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    assert "internal error" not in done.stderr, done.stderr
    for name, arguments in COMMANDS.items():
        assert f"\n{arguments[0]} " in f"\n{done.stdout}", f"{name}: {done.stderr}"
    assert "elastic 2" in done.stdout, "the agent needs Linux"
    assert "overlap_comm" in (here / "ds.json").read_text()
    assert stat.S_IMODE((here / "ds.json").stat().st_mode) & 0o600 == 0o600
