"""Texts around a config, and configs, that once took far more work than their length: `blow_ups.py`.

Work is counted in lines of Python, which no machine changes. What one line does in `re` or `str` is not
counted, so each pattern is also read at a length whose square takes minutes, in a process that the system
ends before that.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from dsconfig.cli import main
from dsconfig.document import read_text
from dsconfig.launch.repository_files import resolve_written_path
from dsconfig.launch.requirements import find_requirements
from dsconfig.lsp.completion_cursor import cursor_at
from dsconfig.lsp.open_documents import open_document_from_item
from dsconfig.lsp.relevant_documents import is_document_relevant
from tests.fuzz.blow_ups import CONFIG, JOB, NAME, Files, many, patterns, repeated
from tests.fuzz.measure import MEMORY

SIZES = (4_000, 8_000, 16_000)
"""n, 2n, 4n: characters of a text, more or less."""
LONG = 128_000
"""Characters: their square is more than a minute's work of `re`."""
SECONDS = 30
"""CPU time at which a process is ended; none needs a tenth of it."""
STEEPEST, UNCOUNTED = 2.8, 30_000
"""Lines for twice the length, of which the square has four; and lines that a cache saves."""

PATTERNS = patterns()


def _pinned(name: str, text: str) -> object:
    Path(name).write_text(text, "utf-8")
    return find_requirements("deepspeed", str(Path(NAME).resolve()))


def _is_ours(text: str) -> bool:
    item = {"uri": "file:///ds.json", "languageId": "json", "version": 1, "text": text}
    return is_document_relevant(open_document_from_item(item, "utf-16"))


CALLS: Mapping[str, Callable[[int], Callable[[], object]]] = {
    "requirement, blanks": lambda n: partial(_pinned, "requirements.txt", many(n, f"deepspeed{' ' * 3900}x")),
    "requirement, sources": lambda n: partial(_pinned, "requirements.txt", many(n, "deepspeed@git+" * 270)),
    "locked": lambda n: partial(_pinned, "uv.lock", repeated('name = "deepspeed"\nversion = "1"\n', 20 * n)),
    "slashes": lambda n: partial(resolve_written_path, f"$A{'/' * n}$B.json", "run.sh"),
    "schemas": lambda n: partial(_is_ours, f'{{"x": "{repeated("$schema:deepspeed-", n)}"}}'),
    "word before the cursor": lambda n: partial(
        cursor_at, read_text("{" + "a" * n + " ", NAME, "json"), n + 2
    ),
}
"""What no pattern's command comes to: a call in an empty repository, for a length."""


class Run(NamedTuple):
    """What the command came to."""

    code: int
    """Exit code; negative: the signal that ended the process."""
    lines: int
    """Lines of Python."""
    written: str

    @property
    def is_failed(self) -> bool:
        """Whether it was ended, or met what it did not expect."""
        return self.code not in (0, 1, 2) or "internal error" in self.written


@pytest.fixture(scope="module", autouse=True)
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import and cache once what each of the processes would."""
    folder, before = tmp_path_factory.mktemp("warm"), Path.cwd()
    write(folder, {NAME: CONFIG, "run.sh": JOB})
    os.chdir(folder)
    with redirect_stdout(StringIO()):
        main(["check", "."])
        main(["check", "run.sh"])
    os.chdir(before)


@pytest.mark.parametrize("name", PATTERNS)
def test_work_grows_with_the_length(name: str, tmp_path: Path) -> None:
    found: list[list[Run]] = []
    for size in SIZES:
        folder, files = tmp_path / str(size), PATTERNS[name](size)
        write(folder, files)
        found.append([run(folder, partial(main, argv), count=True) for argv in commands(files)])
    assert not [each for runs in found for each in runs if each.is_failed]
    for runs in zip(*found, strict=True):
        counts = [each.lines for each in runs]
        assert all(long <= STEEPEST * short + UNCOUNTED for short, long in pairwise(counts)), counts


@pytest.mark.parametrize("name", PATTERNS)
def test_a_long_text_is_read_or_left_alone_soon(name: str, tmp_path: Path) -> None:
    """Which no clock shows: the process is ended where it takes many times as long as any other."""
    files = PATTERNS[name](LONG)
    write(tmp_path, files)
    found = [run(tmp_path, partial(main, argv)) for argv in commands(files)]
    assert not [each for each in found if each.is_failed]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_about_a_long_text_ends_soon(name: str, tmp_path: Path) -> None:
    write(tmp_path, {NAME: CONFIG})
    call = CALLS[name](LONG)

    def work() -> int:
        call()
        return 0

    assert run(tmp_path, work).code == 0


def commands(files: Files) -> Iterator[list[str]]:
    """What is asked: the folder, and each launch file by its name."""
    yield ["check", "."]
    launches = ("run.sh", "job.yaml", "job.yml", "train.yaml")
    yield from (["check", name] for name in launches if name in files)


def write(folder: Path, files: Files) -> None:
    """Make a repository of the files."""
    (folder / ".git").mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def run(folder: Path, work: Callable[[], int], *, count: bool = False) -> Run:
    """Work in a folder, in a forked process that cannot take more than `SECONDS` and `MEMORY`."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code, said = 99, ""
        try:
            code, said = _limited(folder, work, count=count)
        except BaseException as error:
            said = f"0\n{type(error).__name__}: {error}"
        os.write(writer, said.encode(errors="replace"))
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        lines, _, text = pipe.read().decode(errors="replace").partition("\n")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Run(code, int(lines or 0), text)


def _limited(folder: Path, work: Callable[[], int], *, count: bool) -> tuple[int, str]:
    """The exit code, and the lines of Python before the begin of what is written."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    os.environ.pop("DSCONFIG_TARGET", None)
    os.chdir(folder)
    lines = 0

    def tracer(_: FrameType, event: str, __: object) -> object:
        nonlocal lines
        lines += event == "line"
        return tracer

    text = StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        sys.settrace(tracer if count else None)
        code = work()
        sys.settrace(None)
    return code, f"{lines}\n{text.getvalue()[:1000]}"
