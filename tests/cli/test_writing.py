"""Writing over a file keeps all that is not its text, or does not happen."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsconfig.cli import main
from dsconfig.document import atomic_write

from .conftest import Runs, Spawns

COMMAND = str(Path(sys.executable).parent / "dsconfig")
OLD = b'{"train_batch_size": 8, "zero_optimization": {}, "prescale_gradients": 1}\n'
NEW = OLD.replace(b": 1}", b": true}")
TARGET = ("--target", "0.19.8")
DRAFT = ".dsconfig-draft-0123456789abcdef"
root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change users"
)


@pytest.fixture
def file(here: Path) -> Path:
    path = here / "ds_config.json"
    path.write_bytes(OLD)
    return path


def left(folder: str = ".") -> list[str]:
    """Other files in the directory of a file."""
    return sorted(name for name in os.listdir(folder) if name not in (".git", "ds_config.json"))


@pytest.mark.parametrize(
    "argv",
    [
        ("fix", "ds_config.json"),
        ("check", "--fix", "ds_config.json"),
        ("resolve", "--world-size", "8", "in.json", "-o", "ds_config.json"),
    ],
)
def test_hard_links_are_not_parted(file: Path, run: Runs, argv: tuple[str, ...]) -> None:
    os.link(file, "other")
    Path("in.json").write_text('{"train_batch_size": 8}')
    code, _, err = run(*argv)
    Path("in.json").unlink()
    assert code == 2
    message = "has 2 hard links, which replacing it would separate; it is not written"
    assert err.startswith(f"dsconfig: error: ds_config.json: {message}\n")
    assert file.read_bytes() == OLD
    assert os.path.samefile(file, "other")
    assert left() == ["other"]
    assert "+{" in run("fix", "--diff", "ds_config.json").out


def test_the_others_are_fixed(file: Path, run: Runs) -> None:
    os.link(file, "a.json")
    Path("b.json").write_bytes(OLD)
    code, out, _ = run("fix", *TARGET)
    assert (code, Path("b.json").read_bytes()) == (2, NEW)
    assert "Fixed 1 problem in 1 file" in out


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_extended_attributes_and_mode_are_kept(file: Path, run: Runs) -> None:
    try:
        os.setxattr(file, "user.note", b"ours")
    except OSError:
        pytest.skip("none on this file system")
    file.chmod(0o604)
    assert run("fix", str(file), *TARGET).code == 0
    assert (file.read_bytes(), os.getxattr(file, "user.note")) == (NEW, b"ours")
    assert stat.S_IMODE(file.stat().st_mode) == 0o604


@root_only
def test_the_owner_is_kept(file: Path, run: Runs) -> None:
    os.chown(file, 12345, 23456)
    file.chmod(0o640)
    run("fix", str(file), *TARGET)
    status = file.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o640)
    assert file.read_bytes() == NEW


class Nobody:
    """Runs the command as a user without rights: in a fork, since Python itself may be out of their reach."""

    def __init__(self, run: Runs) -> None:
        for verb in (["check"], ["fix", "--diff"], ["fix"], ["show"], ["compat"]):
            run(*verb, "warm-up.json")  # so that all is imported

    def __call__(self, *argv: str) -> tuple[int, str]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            sys.stdout, sys.stderr = open(os.devnull, "w"), open(writer, "w")  # noqa: SIM115
            code = main(argv)
            sys.stderr.flush()
            os._exit(code)
        os.close(writer)
        with open(reader) as pipe:
            output = pipe.read()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output


@pytest.fixture
def as_nobody(run: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nobody]:
    """A working directory that all users may look into, as pytest's own are not, with a config in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        monkeypatch.chdir(folder)
        os.mkdir(".git")
        Path("warm-up.json").write_bytes(OLD)
        runner = Nobody(run)
        os.rename("warm-up.json", "ds_config.json")
        Path("ds_config.json").write_bytes(OLD)
        yield runner
        monkeypatch.undo()


@root_only
def test_what_may_not_be_written_is_left(as_nobody: Nobody) -> None:
    file = Path("ds_config.json")
    file.chmod(0o644)
    error = "dsconfig: error: ds_config.json: "
    assert as_nobody("fix", "ds_config.json") == (2, f"{error}permission denied\n")
    file.chmod(0o666)
    message = "its folder cannot be written: permission denied"
    assert as_nobody("fix", "ds_config.json") == (2, f"{error}{message}\n")
    file.chmod(0o600)
    for verb in ("check", "fix", "show", "compat"):
        assert as_nobody(verb, "ds_config.json") == (2, f"{error}permission denied\n")
    Path("closed").mkdir(mode=0o700)
    Path("a.json").touch(0o600)
    file.chmod(0o644)
    code, message = as_nobody("check", ".", "-q")
    assert code == 1
    assert sorted(message.splitlines()) == [
        "dsconfig: note: a.json cannot be read (permission denied); skipped",
        "dsconfig: note: closed cannot be read (permission denied); skipped",
    ]
    assert (file.read_bytes(), left()) == (OLD, ["a.json", "closed"])


@root_only
def test_a_group_that_cannot_be_kept_gains_nothing(as_nobody: Nobody) -> None:
    """Whoever may write a file of another user gets it; their group may then do what all others may."""
    file = Path("ds_config.json")
    os.chmod(".", 0o777)
    os.chown(file, 12345, 23456)
    file.chmod(0o676)
    assert as_nobody("fix", "ds_config.json") == (0, "")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o666)


def test_a_read_only_file_is_left_even_by_root(file: Path, run: Runs) -> None:
    file.chmod(0o444)
    code, _, err = run("fix", "ds_config.json")
    assert code == 2
    assert err.startswith("dsconfig: error: ds_config.json: ")
    assert (file.read_bytes(), left()) == (OLD, [])


def test_a_disk_that_is_full_in_the_middle(file: Path) -> None:
    file.write_bytes(OLD.replace(b"{}", b'{"a": "' + b"x" * 100_000 + b'"}'))
    before = file.read_bytes()

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

    done = subprocess.run(
        [COMMAND, "fix", "ds_config.json"], preexec_fn=small, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "dsconfig: error: ds_config.json: file too large\n")
    assert (file.read_bytes(), left()) == (before, [])


# -- drafts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [("fix", "ds_config.json"), ("fix",), ("resolve", "--world-size", "8", "ds_config.json", "-o", "out")],
)
def test_a_draft_that_was_left_is_removed(file: Path, run: Runs, argv: tuple[str, ...]) -> None:
    file.write_bytes(NEW)  # even where nothing is to be done
    Path(DRAFT).write_bytes(OLD)
    run(*argv)
    assert left() in ([], ["out"])


def test_a_draft_in_work_stays(file: Path, run: Runs, spawn: Spawns) -> None:
    program = (
        "import sys; from dsconfig.document import atomic_write\n"
        "with atomic_write._write_draft(sys.argv[1], b'new', None):\n    print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        (draft,) = left()
        run("fix", *TARGET)
        assert left() == [draft]
        other.kill()
    assert left() == [draft]
    run("fix", *TARGET)
    assert left() == []


def test_what_is_no_draft_stays(file: Path, run: Runs) -> None:
    mine = [
        ".dsconfig-draft",
        ".dsconfig-draft-0",
        f"{DRAFT}.json",
        f"a{DRAFT}",
        ".ds_config.json.123.dsconfig",
    ]
    for name in mine:
        Path(name).write_text("mine")
    os.symlink("ds_config.json", DRAFT)
    os.mkdir(".dsconfig-draft-1123456789abcdef")
    os.mkfifo(".dsconfig-draft-2123456789abcdef")
    os.link(mine[0], ".dsconfig-draft-3123456789abcdef")
    before = left()
    run("fix", *TARGET)
    assert left() == before


def test_a_diff_removes_nothing(file: Path, run: Runs) -> None:
    Path(DRAFT).write_bytes(OLD)
    run("fix", "--diff")
    run("check")
    assert left() == [DRAFT]


def test_without_locks_a_draft_is_left_for_a_day(
    file: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unknown)
    Path(DRAFT).write_bytes(OLD)
    run("fix", *TARGET)
    assert (file.read_bytes(), left()) == (NEW, [DRAFT])
    os.utime(DRAFT, (time.time() - 90_000,) * 2)
    run("fix", *TARGET)
    assert left() == []


def test_a_draft_that_is_swept_too_early_is_made_again(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, swept = os.open, []

    def slow(path: str, *args: int) -> int:
        descriptor = real(path, *args)
        if ".dsconfig-draft-" in path and not swept:
            swept.append(path)
            os.unlink(path)
        return descriptor

    monkeypatch.setattr(os, "open", slow)
    atomic_write.write_atomically("a.json", b"new")
    assert (len(swept), Path("a.json").read_bytes()) == (1, b"new")
    assert sorted(os.listdir()) == [".git", "a.json"]


def test_a_long_name(here: Path, run: Runs) -> None:
    name = "\N{CJK UNIFIED IDEOGRAPH-8A2D}" * 82 + ".json"
    Path(name).write_bytes(OLD)
    assert run("fix", name, *TARGET).code == 0
    assert Path(name).read_bytes() == NEW


def test_many_runs_at_once(file: Path) -> None:
    argv = [COMMAND, "fix", *TARGET, "ds_config.json"]
    runs = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
    errors = {run.communicate()[1] for run in runs}
    assert errors <= {
        b"",
        b"dsconfig: error: ds_config.json: changed while it was being fixed; it is not written\n",
    }
    assert (file.read_bytes(), left()) == (NEW, [])
