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
        """Return the first of these flags that is set, as an integer; None if none is set or its value is unknown."""
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
        if word == "-m" and words[at + 1 : at + 2] in (
            ("torch.distributed.run",),
            ("torch.distributed.launch",),
        ):
            return TORCHRUN, at + 2
        if base.endswith(".py"):
            # Behind another word, such as `srun` or `mpirun`, Python may run several times.
            return (PYTHON, at) if _is_python(words[:at]) else None
    return None


def _is_python(words: tuple[str, ...]) -> bool:
    """Return whether the words before a program are a Python interpreter with only short options such as `-u`."""
    return (
        bool(words)
        and words[0].rpartition("/")[2].rstrip("0123456789.") == "python"
        and all(word in ("-u", "-O", "-B") for word in words[1:])
    )
