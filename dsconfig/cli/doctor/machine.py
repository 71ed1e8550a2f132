"""Describe a machine using files, environment variables and a few commands; nothing is imported or changed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

_LONGEST_FILE = 1 << 20
_PATIENCE = 10.0
"""Timeout of a command in seconds, because `nvidia-smi` waits for a driver that hangs."""


class MountedFileSystem(NamedTuple):
    """A file system with its mount point and type."""

    point: str
    kind: str


class InstalledGpu(NamedTuple):
    """A GPU as listed by `nvidia-smi`."""

    name: str
    memory: int
    """Memory of the GPU in bytes."""
    capability: tuple[int, int] | None
    """Compute capability of the GPU; None if the driver does not report it."""


def run_command(words: Sequence[str]) -> str | None:
    """Return the output of a command, or None if it cannot be run or fails."""
    try:
        done = subprocess.run(
            list(words), capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None


def memory_lock_limit() -> int | None:
    """Return how many bytes a process may lock (`ulimit -l`), or None if unlimited or unsupported."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


class Machine:
    """Read-only view of a machine, in which tests replace the root, the environment and the commands.

    Args:
        root: folder that stands for `/`.
        environ: environment variables.
        run: runs a command and returns its output, or None.
        packages: folders with installed distributions, in the order of imports.
        lock_limit: bytes that a process may lock; None for no limit.
        platform: the platform, as in `sys.platform`.
    """

    def __init__(
        self,
        root: str = "/",
        environ: Mapping[str, str] | None = None,
        run: Callable[[Sequence[str]], str | None] = run_command,
        packages: Sequence[str] | None = None,
        lock_limit: Callable[[], int | None] = memory_lock_limit,
        platform: str = sys.platform,
    ) -> None:
        self._root = root
        self.environ = os.environ if environ is None else environ
        self.run = run
        self.packages = [folder or os.curdir for folder in sys.path] if packages is None else packages
        self.lock_limit = lock_limit
        self.platform = platform

    # Files

    def path_on_machine(self, name: str) -> str:
        """Return the actual path of a file below the machine's root."""
        return name if self._root == "/" else os.path.join(self._root, name.lstrip("/"))

    def read_text(self, name: str) -> str | None:
        """Return the text of a file, or None if the file cannot be read."""
        return _read_text(self.path_on_machine(name))

    def exists(self, name: str) -> bool:
        """Return whether a file or folder exists."""
        return os.path.exists(self.path_on_machine(name))

    def list_folder(self, name: str) -> list[str]:
        """Return the sorted entries of a folder, or an empty list if it cannot be read."""
        try:
            return sorted(os.listdir(self.path_on_machine(name)))
        except OSError:
            return []

    def is_writable(self, name: str) -> bool:
        """Return whether the user may create files in a folder."""
        return os.access(self.path_on_machine(name), os.W_OK | os.X_OK)

    def free_space(self, name: str) -> int | None:
        """Return the number of bytes available to the user, or None if unknown."""
        space = self._file_system_stats(name)
        return None if space is None else space.f_bavail * space.f_frsize

    def total_space(self, name: str) -> int | None:
        """Return the size of a file system in bytes, or None if unknown."""
        space = self._file_system_stats(name)
        return None if space is None else space.f_blocks * space.f_frsize

    def _file_system_stats(self, name: str) -> os.statvfs_result | None:
        try:
            return os.statvfs(self.path_on_machine(name))
        except (OSError, AttributeError):  # Windows has no statvfs
            return None

    def mount_of(self, name: str) -> MountedFileSystem | None:
        """Return the file system that contains a path according to `/proc/mounts`, or None if unknown."""
        mount = None
        for line in (self.read_text("/proc/mounts") or "").splitlines():
            words = line.split()
            if len(words) < 3:
                continue
            point = words[1].replace("\\040", " ")
            is_inside = name == point or name.startswith(point.rstrip("/") + "/")
            if is_inside and (mount is None or len(point) >= len(mount.point)):
                mount = MountedFileSystem(point, words[2])
        return mount

    # Programs and packages

    def find_program(self, *names: str) -> str | None:
        """Return the path to the first of these programs found in `PATH`, or None."""
        is_windows = self.platform == "win32"
        folders = self.environ.get("PATH", "").split(";" if is_windows else ":")
        suffixes = self.environ.get("PATHEXT", ".EXE").lower().split(";") if is_windows else [""]
        for name in (f"{each}{suffix}" for each in names for suffix in suffixes):
            for folder in filter(None, folders):
                if os.access(self.path_on_machine(os.path.join(folder, name)), os.X_OK):
                    return os.path.join(folder, name)
        return None

    @cached_property
    def installed_versions(self) -> dict[str, str]:
        """Versions of the installed distributions by lowercase name, taken from their metadata folders."""
        versions: dict[str, str] = {}
        for folder in self.packages:
            try:
                names = sorted(os.listdir(folder))
            except OSError:
                continue
            for entry in names:
                if match := _METADATA.fullmatch(entry):
                    versions.setdefault(match["name"].lower().replace("_", "-"), match["version"])
        return versions

    def read_package_file(self, *parts: str) -> str | None:
        """Return the text of a file in an installed package, or None if there is no such file."""
        texts = (_read_text(os.path.join(folder, *parts)) for folder in self.packages)
        return next((text for text in texts if text is not None), None)

    def assigned_literals(self, *parts: str) -> dict[str, Json]:
        """Return the literals that a package's Python file assigns; it is read, not imported."""
        try:
            tree = ast.parse(self.read_package_file(*parts) or "")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
        values: dict[str, Json] = {}
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for target in targets:
                if isinstance(target, ast.Name) and value is not None:
                    try:
                        values[target.id] = ast.literal_eval(value)
                    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                        continue
        return values

    # Hardware

    @cached_property
    def gpus(self) -> list[InstalledGpu] | None:
        """The NVIDIA GPUs; None if unknown because `nvidia-smi` is missing or fails."""
        for query in ("name,memory.total,compute_cap", "name,memory.total"):  # older drivers lack the last
            out = self.run(("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"))
            if out is not None:
                return [gpu for line in out.splitlines() if (gpu := _parse_gpu_line(line)) is not None]
        return None

    @cached_property
    def cuda_toolkit_version(self) -> str | None:
        """Version of the CUDA toolkit that compiles ops, such as `12.4`, or None if there is none."""
        home = self.environ.get("CUDA_HOME") or self.environ.get("CUDA_PATH")
        nvcc = self.find_program("nvcc")
        homes = (
            [home]
            if home
            else [*([os.path.dirname(os.path.dirname(nvcc))] if nvcc else []), "/usr/local/cuda"]
        )
        for folder in homes:
            out = self.run((os.path.join(folder, "bin", "nvcc"), "--version"))
            if out and (match := re.search(r"release (\d+\.\d+)", out)):
                return match[1]
            text = self.read_text(os.path.join(folder, "version.json")) or ""
            if match := re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"(\d+\.\d+)', text):
                return match[1]
        return None

    @cached_property
    def host_memory(self) -> tuple[int, int] | None:
        """Total and available host memory in bytes, within a container's limit, or None if unknown."""
        if self.platform == "darwin":
            size = (self.run(("sysctl", "-n", "hw.memsize")) or "").strip()
            return (int(size), int(size)) if size.isdecimal() else None
        text = self.read_text("/proc/meminfo") or ""
        values = {name: int(kilobytes) << 10 for name, kilobytes in re.findall(r"(\w+):\s+(\d+) kB", text)}
        if "MemTotal" not in values:
            return None
        total, available = values["MemTotal"], values.get("MemAvailable", values["MemTotal"])
        for limit_file, used_file in _CGROUPS:
            limit, used = (self.read_text(each) or "" for each in (limit_file, used_file))
            if limit.strip().isdecimal() and int(limit) < total:
                total = int(limit)
                available = min(available, total - (int(used) if used.strip().isdecimal() else 0))
        return total, available


_METADATA = re.compile(r"(?P<name>[\w.]+)-(?P<version>\d[\w.+!]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files with the limit and use of memory in a container, for both versions of control groups."""


def _read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_FILE)
    except (OSError, ValueError):
        return None


def _parse_gpu_line(line: str) -> InstalledGpu | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) < 2 or not parts[1].isdecimal():
        return None
    numbers = re.fullmatch(r"(\d+)\.(\d+)", parts[2]) if len(parts) > 2 else None
    return InstalledGpu(
        parts[0], int(parts[1]) << 20, (int(numbers[1]), int(numbers[2])) if numbers else None
    )
