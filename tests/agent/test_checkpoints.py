"""Commits as files: which one counts, whatever the clocks say and whoever comes late."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from elastic import Checkpoints, universal, with_universal
from elastic.agent.errors import RefusedError
from elastic.agent.job_settings import LocalNode, RendezvousSettings
from elastic.agent.node import assign_rank, worker_environment
from elastic.agent.node_view import view_of
from elastic.worker import session
from elastic.worker.checkpoint_name import CheckpointError, DamagedCommitError
from elastic.worker.checkpoints import KEPT_COMMITS, SavedCheckpoint
from tests.agent.fakes import job_of, running


@dataclass
class Worker:
    """As much of a `Session` as checkpoints need; its store is a counter."""

    incarnation: int
    round: int = 1
    world_size: int = 2
    checkpoint: str | None = None
    superseded: bool = False
    commits: int = 0

    def commit_number(self, _name: str) -> int:
        if self.superseded:
            raise ProcessLookupError  # it is no more
        self.commits += 1
        return self.commits


def at(root: Path, worker: Worker) -> Checkpoints:
    return Checkpoints(root, cast("Any", worker))


def latest(root: Path, worker: Worker) -> tuple[str, int] | None:
    saved = at(root, worker).latest()
    return (saved.name, saved.world_size) if saved else None


def test_the_last_commit_counts(tmp_path: Path) -> None:
    worker = Worker(100)
    assert latest(tmp_path, worker) is None
    mine = at(tmp_path, worker)
    assert mine.commit("one")
    assert mine.commit("two")
    assert latest(tmp_path, Worker(101, world_size=4)) == ("round-100-1/two", 2)
    saved = mine.latest()
    assert saved is not None
    assert (saved.folder, saved.tag) == (tmp_path / "round-100-1", "two")


def test_a_superseded_round_commits_nothing(tmp_path: Path) -> None:
    assert at(tmp_path, Worker(100)).commit("one")
    with pytest.raises(ProcessLookupError):
        at(tmp_path, Worker(100, superseded=True)).commit("stale")
    assert latest(tmp_path, Worker(200)) == ("round-100-1/one", 2)


def test_a_new_store_counts_on_though_its_clock_is_behind(tmp_path: Path) -> None:
    for number in range(3):
        assert at(tmp_path, Worker(900, commits=number)).commit(f"old-{number}")
    assert at(tmp_path, Worker(100)).commit("new")
    assert latest(tmp_path, Worker(50)) == ("round-100-1/new", 2)


def test_a_late_writer_of_an_old_store_hides_nothing(tmp_path: Path) -> None:
    old = at(tmp_path, Worker(100, commits=5))
    assert old.commit("old")
    assert at(tmp_path, Worker(200)).commit("new")
    assert old.commit("late")
    assert latest(tmp_path, Worker(300)) == ("round-200-1/new", 2)


def test_the_store_is_asked_first(tmp_path: Path) -> None:
    mine = at(tmp_path, Worker(100))
    assert mine.commit("one")
    assert mine.commit("two")
    assert latest(tmp_path, Worker(100, round=2, checkpoint="round-100-1/one")) == ("round-100-1/one", 2)
    for file in (tmp_path / "commits").iterdir():
        file.unlink()
    assert latest(tmp_path, Worker(100, round=2, checkpoint="round-100-1/one")) == ("round-100-1/one", 2)


def test_old_commits_are_forgotten(tmp_path: Path) -> None:
    mine = at(tmp_path, Worker(100))
    for number in range(KEPT_COMMITS + 5):
        assert mine.commit(f"step-{number}")
    files = sorted((tmp_path / "commits").iterdir())
    assert len(files) == KEPT_COMMITS
    assert json.loads(files[-1].read_text())["name"].endswith(f"step-{KEPT_COMMITS + 4}")


def test_the_config_that_loads_universal_checkpoints() -> None:
    config = {"checkpoint": {"tag_validation": "Fail"}}
    assert with_universal(config)["checkpoint"] == {"tag_validation": "Fail", "load_universal": True}
    assert config == {"checkpoint": {"tag_validation": "Fail"}}


UNPRINTABLE = ("a\nb", "\x1b[2J", "\ud800", "x" * 300)
COMMIT = '{"name": "%s", "world_size": %s, "incarnation": 1, "round": 1}'


@pytest.mark.parametrize(
    "name", ["../one", "/etc", "a/../../one", "a//b", "", "a\0b", ".", "x" * 2000, *UNPRINTABLE]
)
def test_a_name_that_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="is not a path below the checkpoint directory"):
        latest(tmp_path, Worker(100, checkpoint=name))
    with pytest.raises(CheckpointError):
        at(tmp_path, Worker(100)).commit(name)
    assert list(tmp_path.rglob("elastic.json")) == []


def test_a_link_that_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    assert at(outside, Worker(100)).commit("one")
    root.mkdir()
    (root / "round-100-1").symlink_to(outside / "round-100-1")
    with pytest.raises(CheckpointError, match="is behind a link"):
        latest(root, Worker(100, checkpoint="round-100-1/one"))
    with pytest.raises(CheckpointError, match="is behind a link"):
        at(root, Worker(100)).commit("two")
    (root / "commits").symlink_to(outside / "commits")
    with pytest.raises(CheckpointError, match="is a link"):
        at(root, Worker(100))
    assert not (outside / "round-100-1" / "two").exists()


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")
    assert at(tmp_path / "here", Worker(100)).commit("one")
    assert latest(tmp_path / "here", Worker(100)) == ("round-100-1/one", 2)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "\xff", '{"name": 1}', "[" * 10000, "[" * 100000, " " * 100000),
        *(
            COMMIT % ("a", size)
            for size in ('"2"', "true", "2.0", "0", "-1", "1" + "0" * 400, "1" + "0" * 5000)
        ),
        *(COMMIT % (name, 2) for name in ("..", "/etc", "\\ud800", "\\u001b[2J", "b" * 300)),
    ],
)
def test_a_broken_commit_file(tmp_path: Path, text: str) -> None:
    assert at(tmp_path, Worker(100)).commit("one")
    assert at(tmp_path, Worker(200)).commit("two")
    file = max((tmp_path / "commits").iterdir())
    file.write_text(text, encoding="latin-1")
    with pytest.raises(DamagedCommitError, match=r"commit file \S+ is damaged: .*; remove it") as raised:
        latest(tmp_path, Worker(300))
    assert "\n" not in str(raised.value)
    file.unlink()
    assert latest(tmp_path, Worker(300)) == ("round-100-1/one", 2)


@pytest.mark.parametrize("text", ["", "[]"])
def test_a_damaged_commit_file_that_does_not_count(tmp_path: Path, text: str) -> None:
    """The store knows what was committed last; the next commit hides the damaged file for good."""
    assert at(tmp_path, Worker(100)).commit("one")
    file = max((tmp_path / "commits").iterdir())
    file.write_text(text)
    worker = Worker(100, round=2, checkpoint="round-100-1/one", commits=1)
    assert latest(tmp_path, worker) == ("round-100-1/one", 2)
    assert at(tmp_path, worker).commit("two")
    assert latest(tmp_path, Worker(200)) == ("round-100-2/two", 2)


def test_a_damaged_file_beside_a_checkpoint(tmp_path: Path) -> None:
    assert at(tmp_path, Worker(100)).commit("one")
    (tmp_path / "round-100-1" / "one" / "elastic.json").write_text("{")
    with pytest.raises(DamagedCommitError, match=r"elastic\.json is damaged: .*; restore a copy"):
        latest(tmp_path, Worker(100, round=2, checkpoint="round-100-1/one"))


def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start may read it."""
    assert at(tmp_path, Worker(100)).commit("one")
    answers = os.open

    def fail(path: Path, flags: int) -> int:
        if ".json" in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return answers(path, flags)

    worker = at(tmp_path, Worker(100))
    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(
        CheckpointError, match=r"cannot read the commit file .*: Input/output error"
    ) as raised:
        worker.latest()
    assert not isinstance(raised.value, DamagedCommitError)


@pytest.mark.parametrize(
    "put",
    [os.mkfifo, os.mkdir, lambda file: os.symlink("/dev/zero", file), lambda file: os.symlink(file, file)],
)
def test_what_is_no_file(tmp_path: Path, put: Callable[[Path], None]) -> None:
    """A pipe would keep the reader waiting, and a device never end."""
    assert at(tmp_path, Worker(100)).commit("one")
    commit, beside = max((tmp_path / "commits").iterdir()), tmp_path / "round-100-1" / "one" / "elastic.json"
    for file in (commit, beside):
        file.unlink()
        put(file)
    with pytest.raises(DamagedCommitError, match="is damaged: it is not a regular file; remove it"):
        latest(tmp_path, Worker(200))
    with pytest.raises(DamagedCommitError, match="is damaged: it is not a regular file; restore a copy"):
        latest(tmp_path, Worker(100, round=2, checkpoint="round-100-1/one"))
    (tmp_path / "commits" / "000000.000000001.json").mkdir()
    worker = at(tmp_path, Worker(100, round=2, commits=1))
    assert all(worker.commit(f"step{number}") for number in range(10)), "what cannot be removed stays"


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(CheckpointError, match="is behind a link"):
        latest(tmp_path, Worker(100, checkpoint="a/b"))


def test_commits_of_lives_without_end(tmp_path: Path) -> None:
    """The greatest number is the latest, however many digits it has."""
    for life in ("000002", "999999", "1000000"):
        (tmp_path / "commits").mkdir(exist_ok=True)
        (tmp_path / "commits" / f"{life}.000000001.json").write_text(COMMIT % (f"a/{life}", 2))
    assert latest(tmp_path, Worker(100)) == ("a/1000000", 2)


def test_a_link_in_place_of_the_universal_form(tmp_path: Path) -> None:
    """Loading a checkpoint may execute code."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    assert at(root, Worker(100)).commit("one")
    outside.mkdir()
    (outside / "elastic.json").write_text("{}")
    (root / "round-100-1" / "one_universal").symlink_to(outside)
    with pytest.raises(CheckpointError, match="`round-100-1/one_universal` is behind a link"):
        universal(SavedCheckpoint(root, "round-100-1/one", 2))


def test_files_that_are_no_commits(tmp_path: Path) -> None:
    assert at(tmp_path, Worker(100)).commit("one")
    for name in ("notes.json", ".hidden.json", "1.json", f"{'9' * 240}.1.json"):
        (tmp_path / "commits" / name).write_text("not ours")
    assert latest(tmp_path, Worker(100)) == ("round-100-1/one", 2)
    assert at(tmp_path, Worker(101)).commit("two"), "and the next store counts on from ours"


def test_a_checkpoint_that_this_host_does_not_see(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="all nodes must share that directory"):
        latest(tmp_path, Worker(100, checkpoint="round-1-1/one"))


@pytest.mark.parametrize("name", ["../../etc", "/etc", "a/../../b", "a\x1b[2J", "."])
def test_a_session_hands_on_no_checkpoint_outside_of_the_folder(name: str, tmp_path: Path) -> None:
    environ = {
        "LOCAL_WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        **{f"DSCONFIG_ELASTIC_{key}": "1" for key in ("PROCESSES", "INCARNATION", "ROUND", "RESTARTS")},
        **{f"DSCONFIG_ELASTIC_{key}": "1" for key in ("TRAIN_BATCH_SIZE", "MICRO_BATCH_SIZE")},
        **{f"DSCONFIG_ELASTIC_{key}": "1" for key in ("ACCUMULATION_STEPS", "RUN_ID")},
        "DSCONFIG_ELASTIC_CONFIG": str(tmp_path / "ds_config.json"),
        "DSCONFIG_ELASTIC_AGENT": str(tmp_path),
    }
    with pytest.raises(CheckpointError, match="not a path below the checkpoint directory"):
        session._read_session({**environ, "DSCONFIG_ELASTIC_CHECKPOINT": name})


def test_an_agent_hands_on_no_checkpoint_outside_of_the_folder(tmp_path: Path) -> None:
    node = LocalNode(job_of(), RendezvousSettings(), "job", "localhost", str(tmp_path), name="a")
    view = view_of(replace(running("a", size=1), start="../../etc"), "a")
    with pytest.raises(RefusedError, match="the store names an invalid checkpoint"):
        worker_environment(assign_rank(view, node), view, node)
    assert list(tmp_path.iterdir()) == []
