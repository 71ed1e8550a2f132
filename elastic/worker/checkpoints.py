"""`Checkpoints`: a checkpoint directory that a superseded group cannot corrupt; support for Universal Checkpoint."""

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

from elastic.json_files import Json, atomic_write
from elastic.worker.checkpoint_name import CheckpointError, DamagedCommitError, check_name
from elastic.worker.session import Session

# Layout of the directory:
#
#     <root>/round-<incarnation>-<round>/<tag>/     files of the ranks of that round; no two rounds share a directory
#     <root>/commits/<life>.<number>.json           one file per commit; the greatest name is the latest
#
# The commit itself is the agent's compare-and-set (`Session.commit`); the files are for jobs with a new store. A *life*
# belongs to one store: each new store continues counting from the existing files, independent of clocks. A late writer
# of an old commit writes an old name, so it cannot hide a newer one.

KEPT_COMMITS = 8


_KINDS = {"name": str, "world_size": int, "incarnation": int, "round": int}
_COMMIT_FILE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.json")
"""Pattern for the names of commit files; more digits could make a name too long for a file system."""
_LONGEST = 1 << 16
"""Maximum length of a commit file in bytes; a commit file usually has about 200."""
_MOST_RANKS = 1 << 31


class CheckpointCommit(TypedDict):
    """The content of a commit file, and of `elastic.json` in each checkpoint."""

    name: str
    world_size: int
    incarnation: int
    round: int


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint that the job has committed."""

    root: Path
    name: str
    """Name of the checkpoint, `round-.../tag`, as passed to `Session.commit`."""
    world_size: int

    def __post_init__(self) -> None:
        """Reject a name that leads outside the root, because loading a checkpoint may execute code."""
        _check_inside(self.root, self.name)

    @property
    def folder(self) -> Path:
        """Directory of the round that saved the checkpoint, which is DeepSpeed's `load_dir`."""
        return self.root / Path(self.name).parent

    @property
    def tag(self) -> str:
        """Last part of the checkpoint's name, DeepSpeed's `tag`."""
        return Path(self.name).name


class Checkpoints:
    """The checkpoints of a job, in a directory that all nodes share."""

    def __init__(self, root: str | os.PathLike[str], session: Session) -> None:
        self._root = Path(root)
        self._session = session
        self._commits = self._root / "commits"
        if self._commits.is_symlink():
            raise CheckpointError(f"{self._commits} is a link: commits must be in {self._root}")
        # Fixed before this round trains: a late writer must not continue the count of its successors.
        self._life = self._count_life()

    @property
    def folder(self) -> Path:
        """Directory for this round's checkpoints, which is DeepSpeed's `save_dir`."""
        return self._root / f"round-{self._session.incarnation}-{self._session.round}"

    def latest(self) -> SavedCheckpoint | None:
        """Return the committed checkpoint to load, or `None` if there is none.

        The checkpoint is the one that the store points to, or with a new store, the one in the latest commit file. The
        pointer was fixed when the round began, and is the same on all ranks. Hosts may see different files, so call
        this method on one rank, and broadcast the result.
        """
        name = self._session.checkpoint
        if name is not None:
            return SavedCheckpoint(self._root, name, self._world_size(name))
        files = self._files()
        try:
            commit = _read_commit_file(files[-1]) if files else None
        except DamagedCommitError as error:
            # The job relied on this commit being the latest: only the user may decide to discard it.
            fallback = "from the previous commit" if len(files) > 1 else "from the beginning"
            advice = "remove it and restart the job, in the same store with another `--rdzv-id`"
            raise DamagedCommitError(f"{error}; {advice}: the job continues {fallback}") from None
        return commit and SavedCheckpoint(self._root, commit["name"], commit["world_size"])

    def commit(self, tag: str) -> bool:
        """Commit `tag` as the latest checkpoint and return `True`; if the round is over, end the process.

        Call this method on one rank, after a barrier that all ranks enter once they have written their files.
        """
        session = self._session
        saved = SavedCheckpoint(self._root, f"{self.folder.name}/{tag}", session.world_size)
        if "/" in tag:
            raise CheckpointError(f"checkpoint tag `{tag}` is not the name of a folder")
        commit: CheckpointCommit = {
            "name": saved.name,
            "world_size": session.world_size,
            "incarnation": session.incarnation,
            "round": session.round,
        }
        atomic_write(self.folder / tag / "elastic.json", commit)
        number = session.commit_number(commit["name"])
        atomic_write(self._commits / f"{self._life:06}.{number:09}.json", commit)
        for old in self._files()[:-KEPT_COMMITS]:
            with suppress(OSError):  # an extra file does no harm
                old.unlink()
        return True

    def _count_life(self) -> int:
        files = self._files()
        if not files:
            return 1
        last = int(files[-1].name.partition(".")[0])
        try:
            commit = _read_commit_file(files[-1])
        except DamagedCommitError:
            commit = None  # an extra life hides nothing; `latest` reports the damage
        return last if commit and commit["incarnation"] == self._session.incarnation else last + 1

    def _files(self) -> list[Path]:
        """Return the paths of the commit files, oldest first."""
        matches = [_COMMIT_FILE.fullmatch(name) for name in _list_folder(self._commits)]
        ordered = sorted((int(one[1]), int(one[2]), one[0]) for one in matches if one)
        return [self._commits / name for _, _, name in ordered]

    def _world_size(self, name: str) -> int:
        _check_inside(self._root, name)
        file = self._root / name / "elastic.json"
        try:
            commit = _read_commit_file(file)
        except DamagedCommitError as error:
            advice = "restore a copy from `commits`, or restart with a new store"
            raise DamagedCommitError(f"{error}; {advice}") from None
        if commit is None:
            raise CheckpointError(
                f"checkpoint `{name}` is not in {self._root}: all nodes must share that directory"
            )
        return commit["world_size"]


def _check_inside(root: Path, name: str) -> None:
    """Raise `CheckpointError` for a checkpoint name that leads outside the root, possibly through links."""
    check_name(name)
    try:
        inside = (root / name).resolve() == root.resolve() / name
    except (OSError, RuntimeError):  # cyclic links
        inside = False
    if not inside:
        raise CheckpointError(f"checkpoint `{name}` is behind a link: it must be in {root}")


def _list_folder(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"cannot read the directory {folder}: {error.strerror}") from None


def _read_regular_file(file: Path) -> bytes:
    """Return the content of a regular file; a pipe would block, and a link may lead outside the directory."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise ValueError("it is not a regular file")
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        text = opened.read(_LONGEST + 1)
    if len(text) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} bytes")
    return text


def _read_commit_file(file: Path) -> CheckpointCommit | None:
    """Return the content of a commit file, or `None` if the file has been deleted meanwhile."""
    try:
        commit = json.loads(_read_regular_file(file).decode())
    except FileNotFoundError:
        return None
    except OSError as error:  # may be a temporary error
        raise CheckpointError(f"cannot read the commit file {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _damaged_commit_error(file, str(error)) from None
    for key, kind in _KINDS.items():
        if not isinstance(commit, dict) or type(commit.get(key)) is not kind:
            raise _damaged_commit_error(file, f"`{key}` is missing or has the wrong type")
    if not 0 < commit["world_size"] < _MOST_RANKS:
        raise _damaged_commit_error(file, "`world_size` is not a valid number of ranks")
    try:
        check_name(commit["name"])
    except CheckpointError as error:
        raise _damaged_commit_error(file, str(error)) from None
    return cast("CheckpointCommit", commit)


def _damaged_commit_error(file: Path, why: str) -> DamagedCommitError:
    return DamagedCommitError(f"commit file {file} is damaged: {why}")


# DeepSpeed's Universal Checkpoint: load a checkpoint at another world size.


def universal(saved: SavedCheckpoint, workers: int = 1) -> Path:
    """Convert a checkpoint to DeepSpeed's universal format, unless done already, and return the new directory.

    ZeRO partitions optimizer states for one world size; the universal format can be loaded at any world size. Call this
    function on one rank, then `engine.load_checkpoint(folder, tag)` on all ranks, with `load_universal` in the config
    (`with_universal`). Requires DeepSpeed. Source: `deepspeed/checkpoint/ds_to_universal.py`.
    """
    name = SavedCheckpoint(
        saved.root, f"{saved.name}_universal", saved.world_size
    ).name  # rejects a link there
    target = saved.root / name
    if not (target / "elastic.json").exists():
        # Unique name: the converter of an earlier round may still run, also on another host.
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
            shutil.rmtree(partial, ignore_errors=True)  # another process was faster
    return target


def with_universal(config: Mapping[str, Json]) -> dict[str, Json]:
    """Return a copy of a DeepSpeed config that makes DeepSpeed load universal checkpoints."""
    return {**config, "checkpoint": {**config.get("checkpoint", {}), "load_universal": True}}
