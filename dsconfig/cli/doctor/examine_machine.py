"""Examine a machine: its support for DeepSpeed, problems, and config settings that cannot work on it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.cli.shadowed_packages import shadowing_problems
from dsconfig.core.file_access import is_absolute
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, value_at_dotted_path
from dsconfig.core.version_ranges import version_numbers
from dsconfig.core.wording import join_alternatives
from dsconfig.launch.hostfile import read_hostfile
from dsconfig.rules._advisory_table import advisories_for_versions

if TYPE_CHECKING:
    from dsconfig.cli.doctor.machine import Machine

Status: TypeAlias = Literal["ok", "info", "unknown", "warning", "error"]


class MachineFact(NamedTuple):
    """A fact about a machine, and what follows from it."""

    topic: str
    status: Status
    message: str
    help: str | None = None


class ConfigNeeds(NamedTuple):
    """A config and its world size, which determine the hardware and software that it requires."""

    data: JsonObject
    world_size: int | None = None
    """Number of ranks of the job; None if unknown."""

    def offload_device(self, section: str) -> str:
        """Return the device of `offload_optimizer` or `offload_param`; `none` if the section is absent."""
        device = value_at_dotted_path(self.data, f"zero_optimization.{section}.device")
        return device if isinstance(device, str) else "none"

    @property
    def has_nvme(self) -> bool:
        """Whether the config offloads to NVMe."""
        return "nvme" in (self.offload_device("offload_optimizer"), self.offload_device("offload_param"))

    def is_enabled(self, path: str) -> bool:
        """Return whether the switch at a path of the config is `true`."""
        return value_at_dotted_path(self.data, path) is True


NO_NEEDS = ConfigNeeds({})
_PROGRAMS = (
    *("deepspeed", "torch", "transformers", "accelerate", "trl", "peft", "lightning", "pytorch-lightning"),
    *("numpy", "pydantic", "triton", "ninja", "flash-attn", "bitsandbytes", "mpi4py"),
)


def examine_machine(machine: Machine, needs: ConfigNeeds = NO_NEEDS) -> Iterator[MachineFact]:
    """Yield the facts about a machine by topic, including settings in `needs` that cannot work on it."""
    yield from _package_versions(machine)
    yield from _examine_accelerator(machine, needs)
    yield from _examine_ops(machine, needs)
    yield from _examine_memory(machine, needs)
    yield from _examine_nvme_drives(machine, needs)
    yield from _examine_launchers(machine)
    yield from _examine_environment(machine)


# Versions.


def _package_versions(machine: Machine) -> Iterator[MachineFact]:
    versions = machine.installed_versions
    programs = [f"{name} {versions[name]}" for name in _PROGRAMS if name in versions]
    if programs:
        yield MachineFact("versions", "ok", ", ".join(programs))
    if "deepspeed" not in versions:
        yield MachineFact(
            "versions", "warning", "DeepSpeed is not installed in this environment", "pip install deepspeed"
        )
    if "torch" not in versions:
        yield MachineFact(
            "versions", "warning", "PyTorch is not installed in this environment", "pip install torch"
        )
    for problem in shadowing_problems(machine.packages):
        message, _, remedy = problem.partition("; ")
        yield MachineFact("versions", "warning", message, remedy)
    dependent = 0
    for each in advisories_for_versions(versions):
        if each.when:
            dependent += 1
        else:
            status: Status = "error" if each.effect == "crashes" else "warning"
            yield MachineFact(
                "versions", status, f"{each.affected}: {each.summary} (advisory `{each.id}`)", each.remedies
            )
    if dependent:
        counted = "1 known defect" if dependent == 1 else f"{dependent} known defects"
        yield MachineFact(
            "versions",
            "info",
            f"{counted} of these versions depend on the config",
            "run `dsconfig doctor ds_config.json`, or `dsconfig rules --advisories`",
        )


# GPUs and CUDA.


def _examine_accelerator(machine: Machine, needs: ConfigNeeds) -> Iterator[MachineFact]:
    gpus = machine.gpus
    if gpus is None and machine.platform == "darwin":
        yield MachineFact("gpu", "info", "macOS has no CUDA: DeepSpeed runs on the CPU or with MPS")
    elif gpus is None:
        yield MachineFact("gpu", "unknown", "`nvidia-smi` does not list the GPUs, so their number is unknown")
    elif not gpus:
        yield MachineFact("gpu", "warning", "`nvidia-smi` lists no GPU")
    else:
        kinds = {each: gpus.count(each) for each in dict.fromkeys(gpus)}
        yield MachineFact(
            "gpu",
            "ok",
            ", ".join(f"{count} x {each.name}, {_format_gib(each.memory)}" for each, count in kinds.items()),
        )
    visible = len(gpus) if gpus is not None else None
    selected = machine.environ.get("CUDA_VISIBLE_DEVICES")
    if selected is not None:
        visible = yield from _examine_visible_devices(selected, visible)
    if needs.world_size and visible is not None and needs.world_size > visible:
        yield MachineFact(
            "gpu",
            "warning",
            f"the job has {needs.world_size} ranks, but only {visible} GPUs are visible",
            "run it on several nodes, or with fewer ranks",
        )
    capabilities = [each.capability for each in gpus or () if each.capability]
    if (
        capabilities
        and min(capabilities) < (8, 0)
        and (needs.is_enabled("bf16.enabled") or needs.is_enabled("bfloat16.enabled"))
    ):
        oldest = min(capabilities)
        yield MachineFact(
            "gpu",
            "warning",
            f"the config enables bf16, which needs compute capability 8.0, but a GPU has {oldest[0]}.{oldest[1]}",
            "enable `fp16` instead of `bf16`",
        )


def _examine_visible_devices(selected: str, count: int | None) -> Generator[MachineFact, None, int]:
    """Yield facts about the GPUs selected by `CUDA_VISIBLE_DEVICES`, and return their number."""
    words = [word.strip() for word in selected.split(",") if word.strip()]
    shown = f"CUDA_VISIBLE_DEVICES={selected}"
    if not words or words[0] == "-1":
        yield MachineFact("gpu", "warning", f"{shown} hides every GPU", "unset CUDA_VISIBLE_DEVICES")
        return 0
    absent = [word for word in words if word.isdecimal() and count is not None and int(word) >= count]
    if absent:
        # CUDA ignores the first invalid index and everything behind it.
        kept = words.index(absent[0])
        yield MachineFact(
            "gpu", "error", f"{shown}: there is no GPU {absent[0]}, so CUDA uses the first {kept} of the list"
        )
        return kept
    yield MachineFact(
        "gpu", "info", f"{shown}: {len(words)} GPUs are visible; the `deepspeed` launcher numbers them from 0"
    )
    return len(words)


# Ops that DeepSpeed compiles.

_MINOR_VERSIONS_AGREE = (10, 11, 12)
"""CUDA major versions whose minor versions may differ (DeepSpeed op_builder/builder.py, `cuda_minor_mismatch_ok`)."""


def _examine_ops(machine: Machine, needs: ConfigNeeds) -> Iterator[MachineFact]:
    torch = machine.assigned_literals("torch", "version.py")
    built = machine.assigned_literals("deepspeed", "git_version_info_installed.py")
    cuda = torch.get("cuda")
    ops = built.get("installed_ops")
    installed = [name for name, is_built in ops.items() if is_built is True] if isinstance(ops, dict) else []
    if "torch" in machine.installed_versions:
        kind = (
            f"CUDA {cuda}"
            if isinstance(cuda, str)
            else f"ROCm {torch['hip']}"
            if torch.get("hip")
            else "no CUDA"
        )
        yield MachineFact(
            "ops",
            "ok" if kind != "no CUDA" else "info",
            f"torch {machine.installed_versions['torch']} is built for {kind}",
        )
    if installed:
        yield MachineFact("ops", "ok", f"prebuilt ops: {', '.join(installed)}")
        yield from _examine_torch_of_built_ops(machine, built)
    yield from _examine_cuda_toolkit(machine, cuda, installed)
    needed = _ops_needed_by_config(needs)
    compiled = sorted(each for each in needed if each not in installed)
    if compiled or not needs.data:
        yield from _examine_compiler(machine, compiled)
    if "async_io" in needed and "async_io" not in installed and not _has_libaio(machine):
        yield MachineFact(
            "ops",
            "error",
            "the config offloads to NVMe, but libaio is not installed, so DeepSpeed cannot build the op `async_io`",
            "apt-get install libaio-dev, or conda install -c conda-forge libaio",
        )


def _examine_torch_of_built_ops(machine: Machine, built: dict[str, Json]) -> Iterator[MachineFact]:
    """Compare the installed PyTorch with the one that built the ops (op_builder/builder.py)."""
    info = built.get("torch_info")
    expected = info.get("version") if isinstance(info, dict) else None
    torch = machine.installed_versions.get("torch", "")
    if (
        isinstance(expected, str)
        and expected != "0.0"
        and torch
        and version_numbers(torch)[:2] != version_numbers(expected)[:2]
    ):
        yield MachineFact(
            "ops",
            "error",
            f"DeepSpeed's ops were built with PyTorch {expected}, but {torch} is installed, so they cannot be loaded",
            "reinstall DeepSpeed",
        )


def _examine_cuda_toolkit(machine: Machine, cuda: Json, installed: list[str]) -> Iterator[MachineFact]:
    if not isinstance(cuda, str):
        return
    toolkit = machine.cuda_toolkit_version
    if toolkit is None:
        status: Status = "info" if installed else "warning"
        message = "no CUDA toolkit (nvcc) was found, so DeepSpeed cannot compile CUDA ops, such as FusedAdam"
        yield MachineFact(
            "ops", status, message, f"install the CUDA toolkit {_minor_version(cuda)}, and set CUDA_HOME"
        )
    elif toolkit == _minor_version(cuda):
        yield MachineFact("ops", "ok", f"CUDA toolkit {toolkit}")
    elif _major_version(toolkit) == _major_version(cuda) and _major_version(cuda) in _MINOR_VERSIONS_AGREE:
        yield MachineFact(
            "ops",
            "ok",
            f"CUDA toolkit {toolkit}; DeepSpeed accepts it with a PyTorch for {_minor_version(cuda)}",
        )
    elif machine.environ.get("DS_SKIP_CUDA_CHECK") == "1":
        yield MachineFact(
            "ops",
            "warning",
            f"CUDA toolkit {toolkit} with a PyTorch for {_minor_version(cuda)}; DS_SKIP_CUDA_CHECK=1 allows it",
        )
    else:
        yield MachineFact(
            "ops",
            "warning" if installed else "error",
            f"CUDA toolkit {toolkit} with a PyTorch for {_minor_version(cuda)}: compiling an op "
            "raises CUDAMismatchException",
            f"install the CUDA toolkit {_minor_version(cuda)}, and set CUDA_HOME",
        )


def _minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _major_version(version: str) -> int:
    numbers = version_numbers(version)
    return numbers[0] if numbers else 0


_CPU_OPTIMIZERS = {"adam": "cpu_adam", "adamw": "cpu_adam", "adagrad": "cpu_adagrad", "lion": "cpu_lion"}
_GPU_OPTIMIZERS = {"adam": "fused_adam", "adamw": "fused_adam", "lamb": "fused_lamb", "lion": "fused_lion"}


def _ops_needed_by_config(needs: ConfigNeeds) -> set[str]:
    """Return the DeepSpeed ops that the engine loads for the optimizer and for offload."""
    name = value_at_dotted_path(needs.data, "optimizer.type")
    kinds = (
        _CPU_OPTIMIZERS if needs.offload_device("offload_optimizer") in ("cpu", "nvme") else _GPU_OPTIMIZERS
    )
    ops = set()
    if (
        isinstance(name, str)
        and name.lower() in kinds
        and not needs.is_enabled("optimizer.params.torch_adam")
    ):
        ops.add(kinds[name.lower()])
    if needs.has_nvme:
        ops.add("async_io")
    return ops


def _examine_compiler(machine: Machine, ops: list[str]) -> Iterator[MachineFact]:
    chosen = machine.environ.get("CXX")
    compiler = machine.find_program(chosen) if chosen else machine.find_program("c++", "g++", "clang++")
    needed = (
        f", which {join_alternatives([f'`{each}`' for each in ops], 'and')} need{'' if len(ops) > 1 else 's'}"
        if ops
        else ""
    )
    status: Status = "error" if ops else "warning"
    if compiler is None:
        missing = f"the compiler CXX={chosen}" if chosen else "no C++ compiler"
        verb = "was not found" if chosen else "was found"
        yield MachineFact(
            "ops", status, f"{missing} {verb}: DeepSpeed cannot compile ops{needed}", "install g++ 9 or later"
        )
    else:
        yield MachineFact("ops", "ok", f"C++ compiler: {compiler}")
    if "ninja" not in machine.installed_versions and machine.find_program("ninja") is None:
        yield MachineFact(
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


def _examine_memory(machine: Machine, needs: ConfigNeeds) -> Iterator[MachineFact]:
    memory = machine.host_memory
    if memory is None:
        yield MachineFact("memory", "unknown", "host memory is unknown: /proc/meminfo cannot be read")
    else:
        total, available = memory
        yield MachineFact(
            "memory", "ok", f"{_format_gib(total)} host memory, {_format_gib(available)} available"
        )
    shared = machine.total_space("/dev/shm") if machine.exists("/dev/shm") else None
    if shared is not None and shared < _LEAST_SHARED_MEMORY:
        yield MachineFact(
            "memory",
            "warning",
            f"/dev/shm has {_format_mib(shared)}: data loaders with workers and NCCL fail with little shared memory",
            "start the container with --shm-size=8g or --ipc=host",
        )
    limit = machine.lock_limit()
    if limit is not None and limit < _LEAST_LOCKED_MEMORY:
        offloads = any(
            needs.offload_device(each) in ("cpu", "nvme") for each in ("offload_optimizer", "offload_param")
        )
        yield MachineFact(
            "memory",
            "warning"
            if offloads
            and "nvme" in (needs.offload_device("offload_optimizer"), needs.offload_device("offload_param"))
            else "info",
            f"a process may lock {_format_mib(limit)} of memory (`ulimit -l`): InfiniBand and "
            "locked I/O buffers need more",
            "ulimit -l unlimited, or --ulimit memlock=-1 for a container",
        )


# Drives.

_NO_DIRECT_IO = frozenset(("tmpfs", "ramfs", "devtmpfs", "squashfs", "9p", "vboxsf", "ecryptfs"))
"""File systems on which opening a file with O_DIRECT may fail; tmpfs allows it since Linux 6.6."""
_REMOTE = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "ceph", "fuse", "gpfs"))
_LEAST_FREE_SPACE = 50 << 30


def _examine_nvme_drives(machine: Machine, needs: ConfigNeeds) -> Iterator[MachineFact]:
    for section in ("offload_optimizer", "offload_param"):
        if needs.offload_device(section) == "nvme":
            name = value_at_dotted_path(needs.data, f"zero_optimization.{section}.nvme_path")
            if isinstance(name, str) and name not in ("", "auto"):
                yield from _examine_drive(machine, f"{section}.nvme_path", name)


def _examine_drive(machine: Machine, key: str, name: str) -> Iterator[MachineFact]:
    if not is_absolute(name):
        yield MachineFact(
            "nvme",
            "warning",
            f"`{key}` is `{name}`, which depends on the working directory",
            "use an absolute path",
        )
        return
    existing = name
    while not machine.exists(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    if existing == name and not os.path.isdir(machine.path_on_machine(name)):
        yield MachineFact(
            "nvme", "error", f"`{key}` is {name}, which is no folder", "name a folder on a local NVMe drive"
        )
        return
    if not machine.is_writable(existing):
        problem = "is not writable" if existing == name else f"does not exist, and {existing} is not writable"
        yield MachineFact(
            "nvme", "error", f"`{key}` is {name}, which {problem}", "name a folder that the job may write to"
        )
    elif existing != name:
        yield MachineFact(
            "nvme", "info", f"`{key}` is {name}, which does not exist; DeepSpeed creates it in {existing}"
        )
    mount = machine.mount_of(existing)
    if mount is None:
        yield MachineFact("nvme", "unknown", f"the file system of {existing} is unknown")
    elif mount.kind in _NO_DIRECT_IO:
        yield MachineFact(
            "nvme",
            "warning",
            f"`{key}` is on {mount.kind} ({mount.point}), which may lack the direct I/O (O_DIRECT) that DeepSpeed uses",
            "name a folder on a local NVMe drive",
        )
    elif mount.kind.partition(".")[0] in _REMOTE:
        yield MachineFact(
            "nvme",
            "warning",
            f"`{key}` is on {mount.kind} ({mount.point}), which is no local drive: offloading is slow there",
            "name a folder on a local NVMe drive",
        )
    free = machine.free_space(existing)
    if free is not None:
        low = free < _LEAST_FREE_SPACE
        needed = ": the optimizer states take 12 bytes per parameter" if low else ""
        yield MachineFact(
            "nvme", "warning" if low else "ok", f"{_format_gib(free)} are free on {existing}{needed}"
        )


# Launchers.

_HOSTFILE = "/job/hostfile"
"""Hostfile that the launcher reads by default (deepspeed launcher/constants.py, `DLTS_HOSTFILE`)."""


def _examine_launchers(machine: Machine) -> Iterator[MachineFact]:
    text = machine.read_text(_HOSTFILE)
    if text is None:
        return
    hostfile = read_hostfile(text)
    for problem in hostfile.problems:
        where = f"{_HOSTFILE}:{problem.line}" if problem.line else _HOSTFILE
        yield MachineFact("launch", "error", f"{where}: {problem.message}", "write one `HOST slots=N` a line")
    if hostfile.slots:
        hosts = len(hostfile.slots)
        yield MachineFact(
            "launch",
            "ok",
            f"{_HOSTFILE}: {hosts} host{'s' if hosts > 1 else ''}, {sum(hostfile.slots.values())} slots",
        )
    if len(hostfile.slots) > 1:
        if machine.find_program("pdsh") is None:
            yield MachineFact(
                "launch",
                "warning",
                "pdsh is not installed: the `deepspeed` launcher cannot reach the other hosts",
                "apt-get install pdsh, or pass `--launcher openmpi`, `slurm` or `impi`",
            )
        yield from _examine_ssh_keys(machine, list(hostfile.slots))


def _examine_ssh_keys(machine: Machine, hosts: list[str]) -> Iterator[MachineFact]:
    """Check for keys with which the launcher can log in; whether hosts accept them is not tested."""
    home = machine.environ.get("HOME", "/root")
    names = machine.list_folder(os.path.join(home, ".ssh"))
    if (
        not any(name.startswith("id_") and not name.endswith(".pub") for name in names)
        and "config" not in names
    ):
        yield MachineFact(
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


def _examine_environment(machine: Machine) -> Iterator[MachineFact]:
    environ = machine.environ
    shown = [
        f"{name}={shlex.quote(environ[name])}"
        for name in sorted(environ)
        if _NAMES.fullmatch(name) and not _SECRET.search(name)
    ]
    if shown:
        more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        yield MachineFact("environment", "info", ", ".join(shown[:_SHOWN]) + more)
    launched = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name in environ]
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in environ]
    if "RANK" in launched and missing:
        yield MachineFact(
            "environment",
            "error",
            f"RANK is set, but {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not",
            "start the job with a launcher, or set all four",
        )
    folder = environ.get("TORCH_EXTENSIONS_DIR")
    if folder and machine.exists(folder) and not machine.is_writable(folder):
        yield MachineFact(
            "environment",
            "error",
            f"TORCH_EXTENSIONS_DIR={folder} is not writable: ops cannot be compiled",
            "name a folder that you may write to",
        )
    if environ.get("NCCL_P2P_DISABLE") == "1":
        yield MachineFact(
            "environment",
            "info",
            "NCCL_P2P_DISABLE=1: GPUs exchange data through host memory, which is slow",
            "unset it, unless NCCL hangs without it",
        )


def _format_gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _format_mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB" if size >= 1 << 20 else f"{size / 1024:.0f} KiB"
