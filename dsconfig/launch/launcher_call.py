"""Recognize the launcher that a command calls, and split the launcher's flags from the program that follows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dsconfig.core.json_types import NamedTuple

_SHORT_FLAGS = {"-H": "hostfile", "-i": "include", "-e": "exclude"}
"""Short flags of `deepspeed` and their long names. Source: launcher/runner.py:parse_args."""
_SWITCHES = frozenset(
    {
        "module", "no_python", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi", "save_pid", "elastic_training",
        "bind_cores_to_rank", "quiet", "standalone", "multi_gpu", "use_deepspeed", "debug",
    }
)  # fmt: skip
"""Launcher flags that have no value, so that a word after them may be the program."""
_MOST_WORDS = 60
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""Environment variables with the settings of torch's allocator (c10/core/AllocatorConfig.cpp)."""
NODE_GPUS, MPI_WORKERS, MPI_SLOTS = "DSCONFIG_NODE_GPUS", "DSCONFIG_MPI_WORKERS", "DSCONFIG_MPI_SLOTS"
"""Variables in which dsconfig keeps facts from a manifest: the GPUs of a command's machine, and the workers and slots
of MPI.
"""
DEEPSPEED, TORCHRUN, ACCELERATE, PYTHON = "deepspeed", "torchrun", "accelerate", "python"


class LauncherCall(NamedTuple):
    """A launcher call in a command: the launcher's name and flags, the visible GPUs, and the program."""

    name: str
    """`deepspeed`, `torchrun` or `accelerate`; `python` for a program without a launcher."""
    flags: Mapping[str, str] = MappingProxyType({})
    """Values of the flags, whose names have underscores and no leading dashes; a switch has an empty value."""
    visible_devices: str = ""
    """Value of `CUDA_VISIBLE_DEVICES`; empty if it is not set."""
    program: tuple[str, ...] = ()
    """The program and the first word after it."""

    @property
    def visible_device_entries(self) -> tuple[str, ...] | None:
        """The entries of `CUDA_VISIBLE_DEVICES`, or None if it is unset or unknown before the run."""
        text = self.visible_devices.strip()
        if not text or any(character in text for character in "$`{"):
            return None
        return tuple(part.strip() for part in text.split(","))

    def integer_flag(self, *names: str) -> int | None:
        """Return the first of these flags that is set as an integer, or None if none is set or the value is unknown."""
        text = next((self.flags[name] for name in names if name in self.flags), "")
        return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else None


_LONGEST_NUMBER = 10


def find_launcher_call(words: tuple[str, ...], variables: Mapping[str, str]) -> LauncherCall | None:
    """Return the launcher call of a command, or None if the command calls no known launcher."""
    start = _find_launcher(words)
    if start is None:
        return None
    name, at = start
    flags: dict[str, str] = {}
    while at < min(len(words), _MOST_WORDS):
        word = words[at]
        if not word.startswith("-"):
            break  # the program
        flag, equals, value = word.partition("=")
        key = _SHORT_FLAGS.get(flag) or flag.lstrip("-").replace("-", "_")
        at += 1
        if equals:
            flags[key] = value
        elif key in _SWITCHES or at >= len(words) or words[at].startswith("--"):
            flags[key] = ""
            if key == "module":
                break
        else:
            flags[key] = words[at]
            at += 1
    if name == TORCHRUN and (address := variables.get("PET_MASTER_ADDR")):
        # The default of a flag is its PET_ variable: torch distributed/argparse_util.py:env.
        flags.setdefault("master_addr", address)
    return LauncherCall(name, flags, variables.get("CUDA_VISIBLE_DEVICES", ""), words[at : at + 2])


def _find_launcher(words: tuple[str, ...]) -> tuple[str, int] | None:
    """Return the launcher and the index of the word after its name, or None if the command calls no launcher."""
    for at, word in enumerate(words[:_MOST_WORDS]):
        base = word.rpartition("/")[2]
        if base in (DEEPSPEED, TORCHRUN):
            return base, at + 1
        if base == ACCELERATE and words[at + 1 : at + 2] == ("launch",):
            return ACCELERATE, at + 2
        if word == "-m" and (launcher := _LAUNCHER_MODULES.get("".join(words[at + 1 : at + 2]))):
            return launcher, at + 2
        if base.endswith(".py"):
            return (PYTHON, at) if starts_one_python(words[:at]) else None
        if word == "-m" and starts_one_python(words[:at]):
            module = words[at + 1] if at + 1 < len(words) else ""
            return None if module.partition(".")[0] in _LAUNCHER_PACKAGES else (PYTHON, at + 1)
    return None


_LAUNCHER_MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "deepspeed.launcher.runner": DEEPSPEED,
    "accelerate.commands.launch": ACCELERATE,
}
"""Modules behind `python -m`, each with the launcher that it is."""


def starts_one_python(words: tuple[str, ...]) -> bool:
    """Return whether the words before a program or `-m` run Python exactly once.

    `srun` or `mpirun` may run Python several times; a wrapper such as `uv run` runs it once.
    """
    names = [word.rpartition("/")[2].rstrip("0123456789.") for word in words]
    if not words or (names[0] not in _SINGLE_WRAPPERS and names[0] != PYTHON):
        return False
    at = max((at for at, name in enumerate(names) if name == PYTHON), default=None)
    if at is None:  # `uv run train.py`
        return words[:2] == ("uv", "run") and _STARTS_SEVERAL.isdisjoint(names)
    return _STARTS_SEVERAL.isdisjoint(names) and all(word in _PYTHON_OPTIONS for word in words[at + 1 :])


_PYTHON_OPTIONS = ("-u", "-O", "-B", "-W", "-X", "ignore", "faulthandler")
_SINGLE_WRAPPERS = frozenset(
    {
        "uv", "poetry", "pipenv", "pixi", "hatch", "rye", "pdm", "conda", "mamba", "micromamba", "nohup", "time", "env",
        "sudo", "nice", "numactl", "taskset", "stdbuf", "timeout", "xvfb-run", "ray",
    }
)  # fmt: skip
"""Commands that run the command after them once."""
_STARTS_SEVERAL = frozenset(
    {"srun", "mpirun", "mpiexec", "jsrun", "aprun", "parallel", "xargs", "pdsh", "ssh", "docker"}
)
"""Commands that may run the command after them several times, or in an environment that the script does not show."""
_LAUNCHER_PACKAGES = ("torch", "accelerate", "deepspeed", "horovod", "mpi4py", "ray", "lightning")
"""Packages whose modules start another program."""
