"""Which files to check: those named, and the DeepSpeed configs of a directory, by name and content.

Names settle it where they cannot mean anything else (`ds_config_zero3.json`). Any other JSON file, and every
YAML file, must have root keys that only a DeepSpeed config has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from dsconfig.document import contents

SUFFIXES = (".json", ".hjson", ".jsonc", ".yaml", ".yml")
_NAME = re.compile(r"(?:^|[^a-z])(?:ds|deepspeed)[-_.]?(?:config|conf|cfg)(?:[^a-z].*)?\.[hj]?jsonc?$")
_YAML_NAME = re.compile(r"(?:^|[^a-z])ds[^a-z]|deepspeed|zero")
_LAUNCHES = re.compile(rb"^distributed_type\s*:\s*['\"]?DEEPSPEED\b", re.MULTILINE)
_BLOCK = re.compile(rb"^deepspeed_config\s*:", re.MULTILINE)
SKIPPED = frozenset(("node_modules", "__pycache__", "site-packages"))
UNMISTAKABLE = frozenset((
    "zero_optimization",
    "train_micro_batch_size_per_gpu",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "deepspeed_transformer_kernel",
    "wall_clock_breakdown",
))  # fmt: skip
TYPICAL = frozenset((
    "train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_print",
    "gradient_clipping",
    "prescale_gradients",
    "optimizer",
    "scheduler",
    "fp16",
    "bf16",
    "activation_checkpointing",
    "flops_profiler",
    "comms_logger",
    "communication_data_type",
    "sparse_attention",
    "compression_training",
    "data_efficiency",
    "elasticity",
    "autotuning",
))  # fmt: skip
"""Keys that other programs use too: three of them make a DeepSpeed config."""
_LARGEST = 1 << 20
"""A larger file is no config that someone wrote by hand, and not worth reading to find out."""


def configs(
    folder: str, root: str, exclude: Sequence[str] = (), closed: Callable[[str], object] = str
) -> Iterator[str]:
    """The DeepSpeed configs below `folder`, in a fixed order.

    Links to folders are not followed. What looks like a config and cannot be read is named too, so that
    reading it says why.

    Args:
        folder: where to look.
        root: what patterns are relative to.
        exclude: patterns of what is passed over.
        closed: is told each folder and file that may not be looked into.
    """
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            closed(_short(folder))
            continue
        if any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        below = []
        for entry in entries:
            if entry.name.startswith(".") or entry.name in SKIPPED or excluded(entry.path, root, exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
            elif entry.name.lower().endswith(SUFFIXES) and _is_wanted(entry, closed):
                yield _short(entry.path)
        folders += reversed(below)


def _is_wanted(entry: os.DirEntry[str], closed: Callable[[str], object]) -> bool:
    """Whether an entry is a config, or is named like one and is no file, or cannot be told."""
    try:
        is_file = entry.is_file()
    except OSError:  # a link to itself
        return True
    if not is_file:
        return _NAME.search(entry.name.lower()) is not None
    if is_config(entry.path):
        return True
    if not os.access(entry.path, os.R_OK):
        closed(_short(entry.path))
    return False


def _short(path: str) -> str:
    return path[2:] if path.startswith("./") else path


def excluded(path: str, root: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names the file, a directory above it, or, without a slash, any part of its path."""
    if not patterns:
        return False
    from fnmatch import fnmatch

    parts = os.path.relpath(path, root).replace(os.sep, "/").split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    return any(
        fnmatch(name, pattern.strip("/"))
        for pattern in patterns
        for name in (above if "/" in pattern.strip("/") else [*parts, above[-1]])
    )


def is_config(path: str) -> bool:
    """Whether the file at `path` is a DeepSpeed config, as far as its name and its root keys tell."""
    name = os.path.basename(path).lower()
    if _NAME.search(name):
        return True
    data = content(path)
    if name.endswith((".yaml", ".yml")):
        return is_launch(data) or (bool(_YAML_NAME.search(name)) and _has_keys(path, data))
    return _has_keys(path, data)


def is_launch(data: bytes) -> bool:
    """Whether a YAML text looks like a launch file of Accelerate for DeepSpeed."""
    return bool(_LAUNCHES.search(data) and _BLOCK.search(data))


def linked_configs(names: Iterable[str]) -> set[str]:
    """The absolute paths of the configs that launch files among these name."""
    found = set()
    for name in names:
        if name.lower().endswith((".yaml", ".yml")) and is_launch(content(name)):
            from dsconfig.consumers.launch_file import linked
            from dsconfig.document import read_file

            if (link := linked(read_file(name))) and link[1]:
                found.add(os.path.abspath(link[1]))
    return found


def content(path: str) -> bytes:
    """The file's bytes; empty where it is too large or cannot be read."""
    try:
        if os.path.getsize(path) > _LARGEST:
            return b""
        data = contents(path, _LARGEST)
    except OSError:
        return b""
    return data if len(data) <= _LARGEST else b""


def _has_keys(path: str, data: bytes) -> bool:
    # Most JSON files of a repository name none of the keys, and need no parsing to be passed over.
    words = set(re.findall(rb"[a-z]+(?:_[a-z0-9]+)+|fp16|bf16", data))
    known = {key.encode() for key in UNMISTAKABLE | TYPICAL}
    return not words.isdisjoint(known) and _is_config(_root_keys(path, data))


def _is_config(keys: frozenset[str]) -> bool:
    return not keys.isdisjoint(UNMISTAKABLE) or len(keys & TYPICAL) >= 3


def _root_keys(path: str, data: bytes) -> frozenset[str]:
    from dsconfig.document import read_bytes

    yaml = path.lower().endswith((".yaml", ".yml"))
    value = read_bytes(data, path, "yaml" if yaml else "json").value()
    return frozenset(key for key in value if isinstance(key, str)) if isinstance(value, dict) else frozenset()
