"""`Checkpoints`: a folder of checkpoints that a superseded group cannot spoil.

    <root>/round-<incarnation>-<round>/<tag>/     what the ranks of that round wrote; no two rounds share one
    <root>/commits/<life>.<number>.json           one file a commit; the greatest name is the latest

The commit itself is the agent's compare-and-set (`Session.commit`); the files serve a job whose store is new.
A *life* is that of one store: each new one counts on from the files it finds, whatever the clocks say.  A
late writer of an old commit writes an old name, so it cannot hide a newer one.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from elastic.atomic_write import atomic_write
from elastic.worker.session import Session

KEPT_COMMITS = 8


class Commit(TypedDict):
    """What a commit file says, and the file `elastic.json` beside each checkpoint."""

    name: str
    world_size: int
    incarnation: int
    round: int


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
        """What to load: the store's pointer of this round or, if the store is new, the latest commit file.

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
        """Make this round's `tag` the latest; `True`, or if the round is over the process ends here.

        Call it on one rank, after a barrier behind all ranks' writing.
        """
        session = self._session
        commit: Commit = {
            "name": f"{self.folder.name}/{tag}",
            "world_size": session.world_size,
            "incarnation": session.incarnation,
            "round": session.round,
        }
        atomic_write(self.folder / tag / "elastic.json", commit)
        number = session.commit_number(commit["name"])
        atomic_write(self._commits / f"{self._life:06}.{number:09}.json", commit)
        for old in sorted(self._commits.glob("*.json"))[:-KEPT_COMMITS]:
            old.unlink(missing_ok=True)
        return True

    def _count_life(self) -> int:
        files = sorted(self._commits.glob("*.json"))
        if not files:
            return 1
        last = int(files[-1].name.partition(".")[0])
        commit = _read(files[-1])
        return last if commit and commit["incarnation"] == self._session.incarnation else last + 1

    def _read_commits(self) -> list[Saved]:
        read = [_read(file) for file in sorted(self._commits.glob("*.json"))]
        return [Saved(self._root, commit["name"], commit["world_size"]) for commit in read if commit]

    def _world_size(self, name: str) -> int:
        return int(json.loads((self._root / name / "elastic.json").read_text("utf-8"))["world_size"])


def _read(file: Path) -> Commit | None:
    """What a commit file says; `None` if it was deleted in the meantime."""
    try:
        return cast("Commit", json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        return None
