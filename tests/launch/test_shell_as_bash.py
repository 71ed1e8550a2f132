"""Shell scripts: what is read of a script agrees with what bash runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dsconfig.launch.shell.interpreter import ShellInterpreter

DATA = Path(__file__).parent / "shell" / "scripts.txt"
"""Scripts under their names; each starts `deepspeed` or `torchrun` once or more."""
OPEN = frozenset((
    "test_or_group", "test_and_multi", "if_unknown", "for_after", "for_seq", "for_brace", "eval_unknown", "if_cmd",
    "printf_v", "mapfile", "test_ternary_u", "until", "while_cnt", "cmdsub_var", "case_star", "case_pos",
    "while_read_file",
))  # fmt: skip
"""Scripts with a value that depends on the machine or a loop, and is unknown here."""
FILES = {
    "env.sh": "export N=6\nBS=5\nFROMARG=$1\n",
    "inner.sh": "deepspeed --num_gpus $1 t.py --deepspeed ds.json --per_device_train_batch_size ${BS:-1}\n",
    "numbers.txt": "9\n",
    "tmpl.json": '{"train_micro_batch_size_per_gpu": ${BS}}',
    "ds.json": "{}",
}
RECORD = """#!/bin/bash
{ printf '%s' "$0"; for word in "$@"; do printf '\\x1f%s' "$word"; done; printf '\\n'; } >> "$RECORD"
"""


def scripts() -> dict[str, str]:
    parts = DATA.read_text(encoding="utf-8").split("#### ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def flags(words: list[str]) -> dict[str, str]:
    """The flags of a command with their values."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            following = words[at + 1] if at + 1 < len(words) else "--"
            found[name] = value if equals else "" if following.startswith("--") else following
    return found


def commands_of_bash(folder: Path) -> list[dict[str, str]]:
    """The commands that bash starts, with programs that record their arguments."""
    record, programs = folder / "record", folder / "bin"
    programs.mkdir()
    for name in ("deepspeed", "torchrun"):
        (programs / name).write_text(RECORD)
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "RECORD": str(record), "HOME": str(folder)}
    subprocess.run(
        ["bash", "run.sh"], cwd=folder, env=environment, capture_output=True, timeout=20, check=False
    )
    lines = record.read_text().splitlines() if record.exists() else []
    return [flags(line.split("\x1f")) for line in lines]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("name", scripts())
def test_commands_agree_with_bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "inner.sh").chmod(0o755)
    (tmp_path / "sub").mkdir()
    (tmp_path / "run.sh").write_text(scripts()[name])
    shell = ShellInterpreter(scripts()[name], str(tmp_path / "run.sh"))
    read = [
        flags(list(each.words)) for each in shell.run_commands() if each.words[0] in ("deepspeed", "torchrun")
    ]
    expected = commands_of_bash(tmp_path)
    assert len(read) == len(expected)
    for command, real in zip(read, expected, strict=True):
        known = {flag: value for flag, value in command.items() if "$" not in value and "`" not in value}
        assert known == {flag: real[flag] for flag in known}
        assert (known == real) == (name not in OPEN), "a value is unknown"
