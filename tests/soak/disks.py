"""`Disk`: a small disk that can be filled, where this user may mount one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path


class Disk:
    """Memory mounted on a folder; without the right to mount, an ordinary folder that nothing fills."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._balloon = folder / "balloon"
        size = f"size={megabytes}m"
        command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def fill(self) -> None:
        """Leave not a byte."""
        with self._balloon.open("wb") as file:
            while (free := os.statvfs(self._folder)).f_bavail:
                with contextlib.suppress(OSError):  # others write just now
                    os.posix_fallocate(file.fileno(), 0, file.seek(0, 2) + free.f_bavail * free.f_bsize)

    def empty(self) -> None:
        """Make the room again."""
        self._balloon.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it, whoever may still use it."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=False)
