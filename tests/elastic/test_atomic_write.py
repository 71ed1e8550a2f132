"""Files of jobs: whole or not at all, whoever writes them, and whatever kills the writer."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from elastic.json_files import atomic_write


def test_it_makes_the_folder(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a/b/c.json", {"x": 1})
    assert json.loads((tmp_path / "a/b/c.json").read_text()) == {"x": 1}
    assert os.listdir(tmp_path / "a/b") == ["c.json"]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    atomic_write(tmp_path / "c.json", {"x": 1})
    with pytest.raises(TypeError):
        atomic_write(tmp_path / "c.json", {"x": {1, 2}})
    assert os.listdir(tmp_path) == ["c.json"]
    assert json.loads((tmp_path / "c.json").read_text()) == {"x": 1}


def test_many_writers_of_one_process(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            atomic_write(tmp_path / "c.json", {"x": [number] * 1000})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            if (tmp_path / "c.json").exists():
                assert len(set(json.loads((tmp_path / "c.json").read_text())["x"])) == 1
    assert os.listdir(tmp_path) == ["c.json"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes of Unix")
def test_a_killed_writer_leaves_the_old_file_and_is_cleaned_up_after(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    atomic_write(path, {"x": 1})
    child = os.fork()
    if child == 0:
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        atomic_write(path, {"x": 2})
    os.waitpid(child, 0)
    assert json.loads(path.read_text()) == {"x": 1}
    (left,) = set(os.listdir(tmp_path)) - {"c.json"}
    atomic_write(path, {"x": 3})
    assert (tmp_path / left).exists(), "its writer may be at work on another host"
    os.utime(tmp_path / left, (0, 0))
    atomic_write(path, {"x": 4})
    assert os.listdir(tmp_path) == ["c.json"]
