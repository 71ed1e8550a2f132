"""Which names a checkpoint may have: paths below the folder of checkpoints that do not lead out of it."""

from __future__ import annotations

from elastic.errors import ElasticityError

LONGEST = 1024
_LONGEST_PART = 255
"""Bytes that a file system takes for one name."""


class CheckpointError(ElasticityError):
    """A checkpoint's name or a commit file that cannot be used."""


class DamagedCommitError(CheckpointError):
    """A commit file says nothing that can be used: it will not at the next start either."""


def check_name(name: str) -> None:
    """Raise `CheckpointError` for a name that is no plain path below a folder."""
    parts = name.split("/")
    # What cannot be printed has no place in a path: controls speak to terminals, half characters to nobody.
    plain = name.isprintable() and all(0 < len(part.encode()) <= _LONGEST_PART for part in parts)
    if not plain or {".", ".."} & {*parts} or len(name) > LONGEST:
        shown = name if len(name) <= LONGEST else f"{name[:40]}..."
        raise CheckpointError(f"checkpoint name {shown!r} is not a path below the folder of checkpoints")
