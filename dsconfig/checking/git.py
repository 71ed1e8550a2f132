"""What git knows of a folder: its files, without what ignore rules leave out.

Git itself is asked, since nobody else knows all of its rules. It runs with nothing that a repository's own
configuration could have it start.
"""

from __future__ import annotations

import os

_COMMAND = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-c", "core.hooksPath=")


class Listing:
    """The files below a folder that git tracks, or would."""

    def __init__(self, folder: str, names: list[str]) -> None:
        base = os.path.join(folder, "")
        self._paths = {base + name for name in names}
        self._inner = {path.rstrip("/") for path in self._paths if path.endswith("/")}
        for name in names:
            while (name := name.rpartition("/")[0]) and base + name not in self._paths:
                self._paths.add(base + name)

    def has(self, path: str) -> bool:
        """Whether the file, or something in the folder, is there."""
        return path in self._paths or path in self._inner

    def ends_at(self, path: str) -> bool:
        """Whether a folder is a repository of its own, into which the listing does not go."""
        return path in self._inner or os.path.lexists(os.path.join(path, ".git"))


def listing(folder: str) -> Listing | None:
    """What git lists below a folder; None where it knows nothing of it, or ignores it as a whole."""
    import subprocess

    command = [*_COMMAND, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "."]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    except OSError:
        return None
    names = os.fsdecode(done.stdout).split("\0")[:-1]
    return Listing(folder, names) if done.returncode == 0 and names else None
