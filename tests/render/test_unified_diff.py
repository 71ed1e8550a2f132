"""The diff that `--diff` prints: right, as short as difflib's on real edits, and linear."""

from __future__ import annotations

import random
import shutil
import subprocess
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsconfig.cli.output_files import changed_lines, unified_diff_lines

TEXTS = st.lists(st.sampled_from(["a", "b", "{", "}", "", "x\r", "long line"])).map("\n".join)


def patched(old: str, diff: list[str]) -> str:
    """The old text with the diff carried out, as a strict patch tool does it."""
    lines, result, at = old.splitlines(keepends=True) if "\r" not in old else _lines(old), [], 0
    ahead = iter([*diff[2:], ""])
    line = next(ahead)
    while line:
        start, count = _range(line.split(" ")[1])
        start -= count > 0
        result += lines[at:start]
        at = start
        while (line := next(ahead)) and not line.startswith("@@"):
            sign, text = line[0], line[1:]
            text = text.removesuffix("\n\\ No newline at end of file\n")
            if sign in " -":
                assert lines[at] == text
                at += 1
            if sign in " +":
                result.append(text)
    return "".join([*result, *lines[at:]])


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [text.rsplit("\n", maxsplit=1)[-1]]


def _range(text: str) -> tuple[int, int]:
    start, _, count = text[1:].partition(",")
    return int(start), int(count or 1)


@given(TEXTS, TEXTS)
def test_it_leads_from_one_text_to_the_other(old: str, new: str) -> None:
    diff = list(unified_diff_lines(old, new, "a/x", "b/x"))
    assert bool(diff) == (old != new)
    if diff:
        assert diff[:2] == ["--- a/x\n", "+++ b/x\n"]
        assert patched(old, diff) == new


def edited(old: list[str], spread: random.Random) -> list[str]:
    """The lines with some removed, changed and added, as a fix does."""
    new: list[str] = []
    for line in old:
        dice = spread.random()
        if dice < 0.03:
            continue
        new.append(f"changed {line}" if dice < 0.06 else line)
        if dice > 0.97:
            new.append(f"added {dice}\n")
    return new


@pytest.mark.parametrize("seed", range(10))
def test_it_is_as_short_as_difflib(seed: int) -> None:
    spread = random.Random(seed)
    old = [
        f'  "key_{i}": {spread.randrange(4)},\n' if spread.random() < 0.7 else "  },\n" for i in range(300)
    ]
    new = edited(old, spread)
    ours = list(unified_diff_lines("".join(old), "".join(new), "a", "b"))
    theirs = list(unified_diff(old, new, "a", "b"))
    assert len(ours) <= len(theirs) + 6


@pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")
@pytest.mark.parametrize("seed", range(20))
def test_git_applies_it(seed: int, tmp_path: Path) -> None:
    spread = random.Random(seed)
    ends = ["\n", "\r\n"][seed % 2]
    old = "".join(spread.choice(["{", "}", '"a": 1,', f'"k{i}": 2,']) + ends for i in range(200))
    new = "".join(edited(old.splitlines(keepends=True), spread)).rstrip("\r\n" if seed % 3 else "")
    file = tmp_path / "x.json"
    file.write_text(old, newline="")
    (tmp_path / "x.diff").write_text(
        "".join(unified_diff_lines(old, new, "a/x.json", "b/x.json")), newline=""
    )
    subprocess.run(["git", "apply", "--whitespace=nowarn", "x.diff"], cwd=tmp_path, check=True)
    assert file.read_bytes().decode() == new


class Counted(str):
    """A line that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("distinct", [True, False], ids=["each line once", "one line again and again"])
def test_the_work_is_linear(distinct: bool) -> None:
    """Neither a file of lines that differ, nor one of a single line, is compared line with line."""
    old = [Counted(f"{i if distinct else 0}\n") for i in range(4000)]
    new = [line for number, line in enumerate(old) if number % 2]
    Counted.compared = 0
    assert changed_lines(old, new)
    assert Counted.compared < 20 * len(old)
