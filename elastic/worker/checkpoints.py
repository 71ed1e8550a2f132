"""`Checkpoints`: a folder of checkpoints that a superseded group cannot spoil; Universal Checkpoint."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from elastic.atomic_write import atomic_write
from elastic.json_types import Json
from elastic.worker.checkpoint_name import CheckpointError, DamagedCommitError, check_name
from elastic.worker.session import Session

# `Checkpoints`: a folder of checkpoints that a superseded group cannot spoil.
#
#     <root>/round-<incarnation>-<round>/<tag>/     what the ranks of that round wrote; no two rounds share one
#     <root>/commits/<life>.<number>.json           one file a commit; the greatest name is the latest
#
# The commit itself is the agent's compare-and-set (`Session.commit`); the files serve a job whose store is
# new. A *life* is that of one store: each new one counts on from the files it finds, whatever the clocks
# say. A late writer of an old commit writes an old name, so it cannot hide a newer one.

KEPT_COMMITS = 8


_KINDS = {"name": str, "world_size": int, "incarnation": int, "round": int}
_COMMIT_FILE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.json")
"""Nobody counts further; names that went on from more digits would become too long for a file system."""
_LONGEST = 1 << 16
"""Bytes of a commit file; it has some two hundred."""
_MOST_RANKS = 1 << 31


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

    def __post_init__(self) -> None:
        """Refuse a name that leads out of the root: what is loaded from there may run as code."""
        _check_inside(self.root, self.name)

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
        if self._commits.is_symlink():
            raise CheckpointError(f"{self._commits} is a link: commits must lie in {self._root}")
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
        if name is not None:
            return Saved(self._root, name, self._world_size(name))
        files = self._files()
        try:
            commit = _read(files[-1]) if files else None
        except DamagedCommitError as error:
            # That commit was promised to be the latest: only its owner may say that it never was.
            before = "from the commit before it" if len(files) > 1 else "from the beginning"
            again = "remove it and start again, in the same store with another `--rdzv-id`"
            raise DamagedCommitError(f"{error}; {again}: the job goes on {before}") from None
        return commit and Saved(self._root, commit["name"], commit["world_size"])

    def commit(self, tag: str) -> bool:
        """Make this round's `tag` the latest; `True`, or if the round is over the process ends here.

        Call it on one rank, after a barrier behind all ranks' writing.
        """
        session = self._session
        saved = Saved(self._root, f"{self.folder.name}/{tag}", session.world_size)
        if "/" in tag:
            raise CheckpointError(f"checkpoint tag `{tag}` is not the name of a folder")
        commit: Commit = {
            "name": saved.name,
            "world_size": session.world_size,
            "incarnation": session.incarnation,
            "round": session.round,
        }
        atomic_write(self.folder / tag / "elastic.json", commit)
        number = session.commit_number(commit["name"])
        atomic_write(self._commits / f"{self._life:06}.{number:09}.json", commit)
        for old in self._files()[:-KEPT_COMMITS]:
            with suppress(OSError):  # a file too many does no harm
                old.unlink()
        return True

    def _count_life(self) -> int:
        files = self._files()
        if not files:
            return 1
        last = int(files[-1].name.partition(".")[0])
        try:
            commit = _read(files[-1])
        except DamagedCommitError:
            commit = None  # a life too many hides nothing; `latest` says what is damaged, where it counts
        return last if commit and commit["incarnation"] == self._session.incarnation else last + 1

    def _files(self) -> list[Path]:
        """The commit files, oldest first."""
        found = [_COMMIT_FILE.fullmatch(name) for name in _listed(self._commits)]
        named = sorted((int(one[1]), int(one[2]), one[0]) for one in found if one)
        return [self._commits / name for _, _, name in named]

    def _world_size(self, name: str) -> int:
        _check_inside(self._root, name)
        file = self._root / name / "elastic.json"
        try:
            commit = _read(file)
        except DamagedCommitError as error:
            again = "put a copy back from `commits`, or start again with a new store"
            raise DamagedCommitError(f"{error}; {again}") from None
        if commit is None:
            raise CheckpointError(
                f"checkpoint `{name}` is not in {self._root}: all nodes must see that folder"
            )
        return commit["world_size"]


def _check_inside(root: Path, name: str) -> None:
    """Raise `CheckpointError` for a name that leads out of the root, by itself or by links."""
    check_name(name)
    try:
        inside = (root / name).resolve() == root.resolve() / name
    except (OSError, RuntimeError):  # links in a circle
        inside = False
    if not inside:
        raise CheckpointError(f"checkpoint `{name}` is behind a link: it must lie in {root}")


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"folder {folder} cannot be read: {error.strerror}") from None


def _text(file: Path) -> bytes:
    """What a plain file holds: a pipe would wait for a writer, and a link may lead out of the folder."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise ValueError("it is not a plain file")
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        text = opened.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} bytes")
    return text


def _read(file: Path) -> Commit | None:
    """What a commit file says; `None` if it was deleted in the meantime."""
    try:
        read = json.loads(_text(file).decode())
    except FileNotFoundError:
        return None
    except OSError as error:  # a disk may answer the next time
        raise CheckpointError(f"commit file {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(file, str(error)) from None
    for key, kind in _KINDS.items():
        if not isinstance(read, dict) or type(read.get(key)) is not kind:
            raise _damaged(file, f"it has no `{key}` of the right kind")
    if not 0 < read["world_size"] < _MOST_RANKS:
        raise _damaged(file, "its `world_size` is no number of ranks")
    try:
        check_name(read["name"])
    except CheckpointError as error:
        raise _damaged(file, str(error)) from None
    return cast("Commit", read)


def _damaged(file: Path, why: str) -> DamagedCommitError:
    return DamagedCommitError(f"commit file {file} is damaged: {why}")


# DeepSpeed's Universal Checkpoint: how a checkpoint of one world size is loaded at another.


def universal(saved: Saved, workers: int = 1) -> Path:
    """The folder of the checkpoint in DeepSpeed's universal form, converted unless it is already.

    ZeRO's optimizer state is cut for one world size; the universal form can be loaded at any.  Call it on one
    rank, then `engine.load_checkpoint(folder, tag)` on all, with `load_universal` in the config
    (`with_universal`).  Needs DeepSpeed; source: `deepspeed/checkpoint/ds_to_universal.py`.
    """
    name = Saved(saved.root, f"{saved.name}_universal", saved.world_size).name  # refuses a link there
    target = saved.root / name
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


def with_universal(config: Mapping[str, Json]) -> dict[str, Json]:
    """A copy of a DeepSpeed config that loads universal checkpoints."""
    return {**config, "checkpoint": {**config.get("checkpoint", {}), "load_universal": True}}
