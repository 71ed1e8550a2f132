"""`Checkpoints`: a folder of checkpoints that a superseded group cannot spoil, and DeepSpeed's Universal
Checkpoint between world sizes.

    <root>/round-<incarnation>-<round>/<tag>/     what the ranks of that round wrote; no two rounds share one
    <root>/commits/<life>.<number>.json           one file a commit; the greatest name is the latest

The commit itself is the agent's compare-and-set (`Session.commit`); the files serve a job whose store is new.
A *life* is that of one store: each new one counts on from the files it finds, whatever the clocks say.  A
late writer of an old commit writes an old name, so it cannot hide a newer one.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastic.atomic_write import atomic_write
from elastic.worker.session import Session

KEPT_COMMITS = 8


@dataclass(frozen=True, slots=True)
class Saved:
    """A committed checkpoint."""

    root: Path
    name: str
    """`round-.../tag`: what `Session.commit` was given."""
    world_size: int

    @property
    def folder(self) -> Path:
        """The folder of the round: DeepSpeed's `load_dir`."""
        return self.root / Path(self.name).parent

    @property
    def tag(self) -> str:
        """DeepSpeed's `tag`."""
        return Path(self.name).name


class Checkpoints:
    """The checkpoints of a job below one folder that all nodes see."""

    def __init__(self, root: str | os.PathLike[str], session: Session) -> None:
        self._root = Path(root)
        self._session = session
        self._commits = self._root / "commits"
        # Fixed before this round trains: a writer that comes late must not count on from its successors.
        self._life = self._count_life()

    @property
    def folder(self) -> Path:
        """This round's own folder: DeepSpeed's `save_dir`."""
        return self._root / f"round-{self._session.incarnation}-{self._session.round}"

    def latest(self) -> Saved | None:
        """What to load: the store's pointer of this round, else, with a new store, the latest commit file.

        The pointer was fixed when the round began, and is the same on all ranks.  The files may look
        different to each host: ask on one rank, and hand the answer to the others.
        """
        name = self._session.checkpoint
        found = self._read_commits()
        if name is None:
            return found[-1] if found else None
        known = next((saved for saved in found if saved.name == name), None)
        return known or Saved(self._root, name, self._world_size(name))

    def commit(self, tag: str) -> bool:
        """Make this round's `tag` the latest; `False` where the round is over.

        Call it on one rank, after a barrier behind all ranks' writing.
        """
        name = f"{self.folder.name}/{tag}"
        about: dict[str, Any] = {"name": name, "world_size": self._session.world_size}
        about |= {"incarnation": self._session.incarnation, "round": self._session.round}
        atomic_write(self.folder / tag / "elastic.json", about)
        number = self._session.commit_number(name)
        if number is None:
            return False
        atomic_write(self._commits / f"{self._life:06}.{number:09}.json", about)
        for old in sorted(self._commits.glob("*.json"))[:-KEPT_COMMITS]:
            old.unlink(missing_ok=True)
        return True

    def _count_life(self) -> int:
        files = sorted(self._commits.glob("*.json"))
        if not files:
            return 1
        last = int(files[-1].name.partition(".")[0])
        about = _read(files[-1])
        return last if about and about["incarnation"] == self._session.incarnation else last + 1

    def _read_commits(self) -> list[Saved]:
        read = [_read(file) for file in sorted(self._commits.glob("*.json"))]
        return [Saved(self._root, about["name"], about["world_size"]) for about in read if about]

    def _world_size(self, name: str) -> int:
        return int(json.loads((self._root / name / "elastic.json").read_text("utf-8"))["world_size"])


def universal(saved: Saved, workers: int = 1) -> Path:
    """The folder of the checkpoint in DeepSpeed's universal form, converted where it is not yet.

    ZeRO's optimizer state is cut for one world size; the universal form can be loaded at any.  Call it on one
    rank, then `engine.load_checkpoint(folder, tag)` on all, with `load_universal` in the config
    (`with_universal`).  Needs DeepSpeed; source: `deepspeed/checkpoint/ds_to_universal.py`.
    """
    target = saved.folder / f"{saved.tag}_universal"
    if not (target / "elastic.json").exists():
        # Its own name: the converter of an earlier round may still be at work, on another host as well.
        partial = target.with_name(f"{target.name}.partial-{secrets.token_hex(6)}")
        command = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal"]
        command += ["--input_folder", str(saved.folder / saved.tag), "--output_folder", str(partial)]
        command += ["--num_extract_workers", str(workers), "--num_merge_workers", str(workers)]
        subprocess.run([*command, "--inject_missing_state"], check=True, stdout=subprocess.DEVNULL)
        atomic_write(partial / "elastic.json", {"from": saved.name, "world_size": saved.world_size})
        try:
            partial.rename(target)
        except OSError:
            if not (target / "elastic.json").exists():
                raise
            shutil.rmtree(partial, ignore_errors=True)  # another one was first
    return target


def with_universal(config: dict[str, Any]) -> dict[str, Any]:
    """A copy of a DeepSpeed config that loads universal checkpoints."""
    return {**config, "checkpoint": {**config.get("checkpoint", {}), "load_universal": True}}


def _read(file: Path) -> dict[str, Any] | None:
    """What a commit file says; `None` where it was thrown away meanwhile."""
    try:
        about: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return about
