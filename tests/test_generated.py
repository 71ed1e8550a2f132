"""Generated files are what the model says, and writing them again changes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from dsconfig import generate


def test_generated_files_are_fresh() -> None:
    assert generate.stale() == [], "run `python -m dsconfig.generate`"


@pytest.mark.parametrize("name", generate.FILES)
def test_a_generated_file_says_so_in_its_first_line(name: str) -> None:
    first = (generate.ROOT / name).read_text(encoding="utf-8").partition("\n")[0]
    assert "Generated from" in first
    assert "python -m dsconfig.generate" in first


def test_a_stale_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.stale() == list(generate.FILES)
    for name in generate.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(sys, "argv", ["generate"])
    assert generate.main() == 0
    assert generate.stale() == []
    (tmp_path / next(iter(generate.FILES))).write_text("")
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert generate.main() == 1


def test_the_command_checks() -> None:
    done = subprocess.run([sys.executable, "-m", "dsconfig.generate", "--check"], check=False)
    assert done.returncode == 0
