"""Examination of a machine: what it has for DeepSpeed, what is wrong, and what of a config it cannot do."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.cli.shadowed_packages import shadowing_problems
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, at
from dsconfig.core.version_ranges import version_numbers
from dsconfig.core.wording import one_of
from dsconfig.launch.hostfile import read_hostfile
from dsconfig.rules._advisory_table import affecting

if TYPE_CHECKING:
    from dsconfig.cli.doctor.machine import Machine

Status: TypeAlias = Literal["ok", "info", "unknown", "warning", "error"]


class Item(NamedTuple):
    """One fact about the machine, and what follows from it."""

    topic: str
    status: Status
    message: str
    help: str | None = None


class Needs(NamedTuple):
    """Config and ranks, which tell what the machine needs."""

    data: JsonObject
    world_size: int | None = None
    """Ranks of the job; None if unknown."""

    def device(self, section: str) -> str:
        """Device of `offload_optimizer` or `offload_param`; `none` without one."""
        device = at(self.data, f"zero_optimization.{section}.device")
        return device if isinstance(device, str) else "none"

    @property
    def has_nvme(self) -> bool:
        """Whether the config offloads to NVMe."""
        return "nvme" in (self.device("offload_optimizer"), self.device("offload_param"))

    def is_on(self, path: str) -> bool:
        """Whether a switch is `true`."""
        return at(self.data, path) is True


NO_NEEDS = Needs({})
_PROGRAMS = (
    *("deepspeed", "torch", "transformers", "accelerate", "trl", "peft", "lightning", "pytorch-lightning"),
    *("numpy", "pydantic", "triton", "ninja", "flash-attn", "bitsandbytes", "mpi4py"),
)


def examine(machine: Machine, needs: Needs = NO_NEEDS) -> Iterator[Item]:
    """Yield the facts about a machine by topic; with needs, also what a config cannot do there."""
    yield from _versions(machine)
    yield from _accelerator(machine, needs)
    yield from _ops(machine, needs)
    yield from _memory(machine, needs)
    yield from _drives(machine, needs)
    yield from _launch(machine)
    yield from _environment(machine)


# Versions.


def _versions(machine: Machine) -> Iterator[Item]:
    versions = machine.versions
    programs = [f"{name} {versions[name]}" for name in _PROGRAMS if name in versions]
    if programs:
        yield Item("versions", "ok", ", ".join(programs))
    if "deepspeed" not in versions:
        yield Item(
            "versions", "warning", "DeepSpeed is not installed in this environment", "pip install deepspeed"
        )
    if "torch" not in versions:
        yield Item("versions", "warning", "PyTorch is not installed in this environment", "pip install torch")
    for problem in shadowing_problems(machine.packages):
        message, _, remedy = problem.partition("; ")
        yield Item("versions", "warning", message, remedy)
    dependent = 0
    for each in affecting(versions):
        if each.when:
            dependent += 1
        else:
            status: Status = "error" if each.effect == "crashes" else "warning"
            yield Item(
                "versions", status, f"{each.affected}: {each.summary} (advisory `{each.id}`)", each.remedies
            )
    if dependent:
        counted = "1 known defect" if dependent == 1 else f"{dependent} known defects"
        yield Item(
            "versions",
            "info",
            f"{counted} of these versions depend on the config",
            "run `dsconfig doctor ds_config.json`, or `dsconfig rules --advisories`",
        )


# GPUs and CUDA.


def _accelerator(machine: Machine, needs: Needs) -> Iterator[Item]:
    gpus = machine.gpus
    if gpus is None and machine.platform == "darwin":
        yield Item("gpu", "info", "macOS has no CUDA: DeepSpeed runs on the CPU or with MPS")
    elif gpus is None:
        yield Item("gpu", "unknown", "`nvidia-smi` gives no list of GPUs: the number of GPUs is unknown")
    elif not gpus:
        yield Item("gpu", "warning", "`nvidia-smi` lists no GPU")
    else:
        kinds = {each: gpus.count(each) for each in dict.fromkeys(gpus)}
        yield Item(
            "gpu",
            "ok",
            ", ".join(f"{count} x {each.name}, {_gib(each.memory)}" for each, count in kinds.items()),
        )
    visible = len(gpus) if gpus is not None else None
    selected = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if selected is not None:
        visible = yield from _visible_devices(selected, visible)
    if needs.world_size and visible is not None and needs.world_size > visible:
        yield Item(
            "gpu",
            "warning",
            f"the job has {needs.world_size} ranks, and {visible} GPUs are visible here",
            "this needs several nodes, or fewer ranks",
        )
    capabilities = [each.capability for each in gpus or () if each.capability]
    if (
        capabilities
        and min(capabilities) < (8, 0)
        and (needs.is_on("bf16.enabled") or needs.is_on("bfloat16.enabled"))
    ):
        oldest = min(capabilities)
        yield Item(
            "gpu",
            "warning",
            f"the config enables bf16, and a GPU has compute capability {oldest[0]}.{oldest[1]}: bf16 needs 8.0",
            "enable `fp16` instead of `bf16`",
        )


def _visible_devices(selected: str, count: int | None) -> Generator[Item, None, int]:
    """Yield what `CUDA_VISIBLE_DEVICES` selects, and return the number of GPUs."""
    words = [word.strip() for word in selected.split(",") if word.strip()]
    shown = f"CUDA_VISIBLE_DEVICES={selected}"
    if not words or words[0] == "-1":
        yield Item("gpu", "warning", f"{shown} hides every GPU", "unset CUDA_VISIBLE_DEVICES")
        return 0
    absent = [word for word in words if word.isdecimal() and count is not None and int(word) >= count]
    if absent:
        # CUDA ignores the first invalid index and everything behind it.
        kept = words.index(absent[0])
        yield Item(
            "gpu", "error", f"{shown}: there is no GPU {absent[0]}, so CUDA uses the first {kept} of the list"
        )
        return kept
    yield Item(
        "gpu", "info", f"{shown}: {len(words)} GPUs are visible; the `deepspeed` launcher numbers them from 0"
    )
    return len(words)


# Ops that DeepSpeed compiles.

_MINOR_VERSIONS_AGREE = (10, 11, 12)
"""CUDA series of which DeepSpeed accepts any two minor versions (op_builder/builder.py, `cuda_minor_mismatch_ok`)."""


def _ops(machine: Machine, needs: Needs) -> Iterator[Item]:
    torch = machine.assignments("torch", "version.py")
    built = machine.assignments("deepspeed", "git_version_info_installed.py")
    cuda = torch.get("cuda")
    ops = built.get("installed_ops")
    installed = [name for name, is_built in ops.items() if is_built is True] if isinstance(ops, dict) else []
    if "torch" in machine.versions:
        kind = (
            f"CUDA {cuda}"
            if isinstance(cuda, str)
            else f"ROCm {torch['hip']}"
            if torch.get("hip")
            else "no CUDA"
        )
        yield Item(
            "ops",
            "ok" if kind != "no CUDA" else "info",
            f"torch {machine.versions['torch']} is built for {kind}",
        )
    if installed:
        yield Item("ops", "ok", f"built ahead: {', '.join(installed)}")
        yield from _built_for_another_torch(machine, built)
    yield from _toolkit(machine, cuda, installed)
    needed = _needed_ops(needs)
    compiled = sorted(each for each in needed if each not in installed)
    if compiled or not needs.data:
        yield from _compiler(machine, compiled)
    if "async_io" in needed and "async_io" not in installed and not _has_libaio(machine):
        yield Item(
            "ops",
            "error",
            "the config offloads to NVMe, and libaio is not installed: DeepSpeed cannot build its op `async_io`",
            "apt-get install libaio-dev, or conda install -c conda-forge libaio",
        )


def _built_for_another_torch(machine: Machine, built: dict[str, Json]) -> Iterator[Item]:
    """Compare PyTorch with the one that the ops were built with (op_builder/builder.py, `assert_torch_info`)."""
    info = built.get("torch_info")
    expected = info.get("version") if isinstance(info, dict) else None
    torch = machine.versions.get("torch", "")
    if (
        isinstance(expected, str)
        and expected != "0.0"
        and torch
        and version_numbers(torch)[:2] != version_numbers(expected)[:2]
    ):
        yield Item(
            "ops",
            "error",
            f"DeepSpeed's ops were built with PyTorch {expected}, and {torch} is installed: they do not load",
            "reinstall DeepSpeed",
        )


def _toolkit(machine: Machine, cuda: Json, installed: list[str]) -> Iterator[Item]:
    if not isinstance(cuda, str):
        return
    toolkit = machine.toolkit
    if toolkit is None:
        status: Status = "info" if installed else "warning"
        message = "no CUDA toolkit (nvcc) is found: DeepSpeed cannot compile CUDA ops, such as FusedAdam"
        yield Item("ops", status, message, f"install the CUDA toolkit {_minor(cuda)}, and set CUDA_HOME")
    elif toolkit == _minor(cuda):
        yield Item("ops", "ok", f"CUDA toolkit {toolkit}")
    elif _series(toolkit) == _series(cuda) and _series(cuda) in _MINOR_VERSIONS_AGREE:
        yield Item(
            "ops", "ok", f"CUDA toolkit {toolkit}; DeepSpeed accepts it with a PyTorch for {_minor(cuda)}"
        )
    elif machine.environ.get("DS_SKIP_CUDA_CHECK") == "1":
        yield Item(
            "ops",
            "warning",
            f"CUDA toolkit {toolkit} with a PyTorch for {_minor(cuda)}; DS_SKIP_CUDA_CHECK=1 allows it",
        )
    else:
        yield Item(
            "ops",
            "warning" if installed else "error",
            f"CUDA toolkit {toolkit} with a PyTorch for {_minor(cuda)}: compiling an op raises CUDAMismatchException",
            f"install the CUDA toolkit {_minor(cuda)}, and set CUDA_HOME",
        )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _series(version: str) -> int:
    numbers = version_numbers(version)
    return numbers[0] if numbers else 0


_CPU_OPTIMIZERS = {"adam": "cpu_adam", "adamw": "cpu_adam", "adagrad": "cpu_adagrad", "lion": "cpu_lion"}
_GPU_OPTIMIZERS = {"adam": "fused_adam", "adamw": "fused_adam", "lamb": "fused_lamb", "lion": "fused_lion"}


def _needed_ops(needs: Needs) -> set[str]:
    """Return the ops that the engine loads for the optimizer and for offload."""
    name = at(needs.data, "optimizer.type")
    kinds = _CPU_OPTIMIZERS if needs.device("offload_optimizer") in ("cpu", "nvme") else _GPU_OPTIMIZERS
    ops = set()
    if isinstance(name, str) and name.lower() in kinds and not needs.is_on("optimizer.params.torch_adam"):
        ops.add(kinds[name.lower()])
    if needs.has_nvme:
        ops.add("async_io")
    return ops


def _compiler(machine: Machine, ops: list[str]) -> Iterator[Item]:
    chosen = machine.environ.get("CXX")
    compiler = machine.which(chosen) if chosen else machine.which("c++", "g++", "clang++")
    needed = (
        f", which {one_of([f'`{each}`' for each in ops], 'and')} need{'' if len(ops) > 1 else 's'}"
        if ops
        else ""
    )
    status: Status = "error" if ops else "warning"
    if compiler is None:
        missing = f"the compiler CXX={chosen}" if chosen else "no C++ compiler"
        verb = "is not found" if chosen else "is found"
        yield Item(
            "ops", status, f"{missing} {verb}: DeepSpeed cannot compile ops{needed}", "install g++ 9 or newer"
        )
    else:
        yield Item("ops", "ok", f"C++ compiler: {compiler}")
    if "ninja" not in machine.versions and machine.which("ninja") is None:
        yield Item(
            "ops", status, f"ninja is not installed: PyTorch cannot compile ops{needed}", "pip install ninja"
        )


def _has_libaio(machine: Machine) -> bool:
    folders = ["/usr/include", "/usr/local/include"]
    for flags in ("CFLAGS", "CPATH"):
        value = machine.environ.get(flags, "")
        folders += re.findall(r"-I\s*(\S+)", value) if flags == "CFLAGS" else value.split(":")
    prefix = machine.environ.get("CONDA_PREFIX")
    folders += [os.path.join(prefix, "include")] if prefix else []
    return any(machine.exists(os.path.join(folder, "libaio.h")) for folder in filter(None, folders))


# Memory.

_LEAST_SHARED_MEMORY = 1 << 30
_LEAST_LOCKED_MEMORY = 1 << 30


def _memory(machine: Machine, needs: Needs) -> Iterator[Item]:
    memory = machine.memory
    if memory is None:
        yield Item("memory", "unknown", "host memory is unknown: /proc/meminfo cannot be read")
    else:
        total, available = memory
        yield Item("memory", "ok", f"{_gib(total)} host memory, {_gib(available)} available")
    shared = machine.total_space("/dev/shm") if machine.exists("/dev/shm") else None
    if shared is not None and shared < _LEAST_SHARED_MEMORY:
        yield Item(
            "memory",
            "warning",
            f"/dev/shm has {_mib(shared)}: data loaders with workers and NCCL fail with little shared memory",
            "start the container with --shm-size=8g or --ipc=host",
        )
    limit = machine.lock_limit()
    if limit is not None and limit < _LEAST_LOCKED_MEMORY:
        offloads = any(
            needs.device(each) in ("cpu", "nvme") for each in ("offload_optimizer", "offload_param")
        )
        yield Item(
            "memory",
            "warning"
            if offloads and "nvme" in (needs.device("offload_optimizer"), needs.device("offload_param"))
            else "info",
            f"a process may lock {_mib(limit)} of memory (`ulimit -l`): InfiniBand and locked I/O buffers need more",
            "ulimit -l unlimited, or --ulimit memlock=-1 for a container",
        )


# Drives.

_NO_DIRECT_IO = frozenset(("tmpfs", "ramfs", "devtmpfs", "squashfs", "9p", "vboxsf", "ecryptfs"))
"""File systems on which opening a file with O_DIRECT may fail; tmpfs allows it since Linux 6.6."""
_REMOTE = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "ceph", "fuse", "gpfs"))
_LEAST_FREE_SPACE = 50 << 30


def _drives(machine: Machine, needs: Needs) -> Iterator[Item]:
    for section in ("offload_optimizer", "offload_param"):
        if needs.device(section) == "nvme":
            name = at(needs.data, f"zero_optimization.{section}.nvme_path")
            if isinstance(name, str) and name not in ("", "auto"):
                yield from _drive(machine, f"{section}.nvme_path", name)


def _drive(machine: Machine, key: str, name: str) -> Iterator[Item]:
    if not (os.path.isabs(name) or name.startswith("/")):  # the job may run on Linux, and this machine not
        yield Item(
            "nvme",
            "warning",
            f"`{key}` is `{name}`, which depends on the working directory",
            "use an absolute path",
        )
        return
    existing = name
    while not machine.exists(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    if existing == name and not os.path.isdir(machine.path(name)):
        yield Item(
            "nvme", "error", f"`{key}` is {name}, which is no folder", "name a folder on a local NVMe drive"
        )
        return
    if not machine.is_writable(existing):
        problem = "is not writable" if existing == name else f"does not exist, and {existing} is not writable"
        yield Item(
            "nvme", "error", f"`{key}` is {name}, which {problem}", "name a folder that the job may write to"
        )
    elif existing != name:
        yield Item(
            "nvme", "info", f"`{key}` is {name}, which does not exist; DeepSpeed creates it in {existing}"
        )
    mount = machine.mount_of(existing)
    if mount is None:
        yield Item("nvme", "unknown", f"the file system of {existing} is unknown")
    elif mount.kind in _NO_DIRECT_IO:
        yield Item(
            "nvme",
            "warning",
            f"`{key}` is on {mount.kind} ({mount.point}), which may lack the direct I/O (O_DIRECT) that DeepSpeed uses",
            "name a folder on a local NVMe drive",
        )
    elif mount.kind.partition(".")[0] in _REMOTE:
        yield Item(
            "nvme",
            "warning",
            f"`{key}` is on {mount.kind} ({mount.point}), which is no local drive: offloading is slow there",
            "name a folder on a local NVMe drive",
        )
    free = machine.free_space(existing)
    if free is not None:
        low = free < _LEAST_FREE_SPACE
        needed = ": the optimizer states take 12 bytes per parameter" if low else ""
        yield Item("nvme", "warning" if low else "ok", f"{_gib(free)} are free on {existing}{needed}")


# Launchers.

_HOSTFILE = "/job/hostfile"
"""Hostfile that the launcher reads by default (deepspeed launcher/constants.py, `DLTS_HOSTFILE`)."""


def _launch(machine: Machine) -> Iterator[Item]:
    text = machine.read(_HOSTFILE)
    if text is None:
        return
    hostfile = read_hostfile(text)
    for problem in hostfile.problems:
        where = f"{_HOSTFILE}:{problem.line}" if problem.line else _HOSTFILE
        yield Item("launch", "error", f"{where}: {problem.message}", "write one `HOST slots=N` a line")
    if hostfile.slots:
        hosts = len(hostfile.slots)
        yield Item(
            "launch",
            "ok",
            f"{_HOSTFILE}: {hosts} host{'s' if hosts > 1 else ''}, {sum(hostfile.slots.values())} slots",
        )
    if len(hostfile.slots) > 1:
        if machine.which("pdsh") is None:
            yield Item(
                "launch",
                "warning",
                "pdsh is not installed: the `deepspeed` launcher cannot reach the other hosts",
                "apt-get install pdsh, or pass `--launcher openmpi`, `slurm` or `impi`",
            )
        yield from _ssh(machine, list(hostfile.slots))


def _ssh(machine: Machine, hosts: list[str]) -> Iterator[Item]:
    """Look for keys that let the launcher log in; whether the hosts accept them is not tried."""
    home = machine.environ.get("HOME", "/root")
    names = machine.listed(os.path.join(home, ".ssh"))
    if (
        not any(name.startswith("id_") and not name.endswith(".pub") for name in names)
        and "config" not in names
    ):
        yield Item(
            "launch",
            "warning",
            f"{home}/.ssh has neither a key nor a config for {' or '.join(hosts[:3])}",
            "set up ssh without a password to every host",
        )


# Environment variables.

_NAMES = re.compile(
    r"(?:DS|NCCL|ACCELERATE|DEEPSPEED|CUDA|TORCH_NCCL|FSDP|MASTER)_\w+|RANK|WORLD_SIZE|LOCAL_RANK|OMP_NUM_THREADS"
    r"|PYTORCH_CUDA_ALLOC_CONF|PYTORCH_ALLOC_CONF|TORCH_CUDA_ARCH_LIST|TORCH_EXTENSIONS_DIR"
)
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD")
_SHOWN = 40


def _environment(machine: Machine) -> Iterator[Item]:
    environ = machine.environ
    shown = [
        f"{name}={shlex.quote(environ[name])}"
        for name in sorted(environ)
        if _NAMES.fullmatch(name) and not _SECRET.search(name)
    ]
    if shown:
        more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        yield Item("environment", "info", ", ".join(shown[:_SHOWN]) + more)
    launched = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name in environ]
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in environ]
    if "RANK" in launched and missing:
        yield Item(
            "environment",
            "error",
            f"RANK is set, but {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not",
            "start the job with a launcher, or set all four",
        )
    folder = environ.get("TORCH_EXTENSIONS_DIR")
    if folder and machine.exists(folder) and not machine.is_writable(folder):
        yield Item(
            "environment",
            "error",
            f"TORCH_EXTENSIONS_DIR={folder} is not writable: ops cannot be compiled",
            "name a folder that you may write to",
        )
    if environ.get("NCCL_P2P_DISABLE") == "1":
        yield Item(
            "environment",
            "info",
            "NCCL_P2P_DISABLE=1: GPUs exchange data through host memory, which is slow",
            "unset it, unless NCCL hangs without it",
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB" if size >= 1 << 20 else f"{size / 1024:.0f} KiB"
