"""Validate checkpoint names, which are relative paths inside the checkpoint directory."""

from __future__ import annotations

from elastic.errors import ElasticityError

LONGEST = 1024
_LONGEST_PART = 255
"""Maximum length of a file name in bytes."""


class CheckpointError(ElasticityError):
    """A checkpoint name or commit file is invalid."""


class DamagedCommitError(CheckpointError):
    """A commit file has invalid content, which a restart does not repair."""


def check_name(name: str) -> None:
    """Raise `CheckpointError` for a name that is not a plain relative path."""
    parts = name.split("/")
    # Unprintable characters are rejected: control characters affect terminals, lone surrogates cannot be encoded.
    is_plain = name.isprintable() and all(0 < len(part.encode()) <= _LONGEST_PART for part in parts)
    if not is_plain or {".", ".."} & {*parts} or len(name) > LONGEST:
        excerpt = name if len(name) <= LONGEST else f"{name[:40]}..."
        raise CheckpointError(f"checkpoint name {excerpt!r} is not a path below the checkpoint directory")
