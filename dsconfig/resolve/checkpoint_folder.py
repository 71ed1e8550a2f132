"""Folder of a DeepSpeed checkpoint, read from file names alone: format, ranks, and files that are missing or cut off.

No file is unpickled. Names: deepspeed runtime/engine.py, `DeepSpeedEngine._get_ckpt_name` and
`_get_rank_zero_ckpt_name`; checkpoint/ds_to_universal.py.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Layout: TypeAlias = Literal["stage 0", "stage 1 or 2", "stage 3", "universal", "weights"]
"""Format of a checkpoint. Stages 1 and 2 write the same files. `weights`: a model without DeepSpeed's states."""
_OPTIMIZER = re.compile(r"(bf16_)?zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_?optim_states\.pt")
_PARTITION = re.compile(r"zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_model_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d{1,6})_model_states\.pt")
_STEP = re.compile(r"(?:global_step|checkpoint-)(\d{1,12})")
_EXPERT = re.compile(r"(?:expp_rank_\d+|layer_\d+_expert_\d+)_mp_rank_\d+_(?:optim|model)_states\.pt")
_WHOLE = re.compile(r"(?:pytorch_model|model|adapter_model)(?:-\d+-of-\d+)?\.(?:bin|safetensors)")
_MOST_FILES = 200_000
_MOST_OPENED = 4096
"""Files whose end is read, to notice those that are cut off."""


class CheckpointFolder(NamedTuple):
    """A checkpoint: the folder that `load_checkpoint` opens, and what its file names show."""

    path: str
    """Folder with the files of one step: `out/global_step500`."""
    root: str
    """Folder to pass to `load_checkpoint`."""
    tag: str | None
    """Name of the step in the file `latest`; None if there is no such file."""
    layout: Layout
    data_parallel: int | None
    """Number of ranks that share the optimizer states; None if no file shows it."""
    model_parallel: int
    """Number of ranks that split the model: tensor- and pipeline-parallel."""
    is_bf16: bool | None
    """Whether the optimizer states are those of a bf16 model; None if no file shows it."""
    missing: tuple[str, ...] = ()
    """Names of files that the other names imply, but that are absent."""
    broken: tuple[str, ...] = ()
    """Files that are empty or cut off."""
    has_experts: bool = False
    """Whether experts have files of their own."""
    swapped_ranks: int = 0
    """Ranks with tensors that were offloaded to NVMe."""
    weights: tuple[str, ...] = ()
    """Files with the weights of the whole model, or of an adapter."""
    is_of_trainer: bool = False
    """Whether the Trainer of Transformers has written it."""
    universal_tag: str | None = None
    """Content of `latest_universal`; None if there is no such file."""


def read_checkpoint(folder: str) -> CheckpointFolder | None:
    """Read a checkpoint folder; None if it holds no checkpoint.

    `folder`: the folder of one step, the one with `latest`, or an output folder of the Trainer, whose newest
    checkpoint is used.

    Raises:
        OSError: the folder cannot be read.
    """
    root = _find_checkpoint_root(folder)
    if root is None:
        return None
    is_step = _has_states(folder)
    tag, universal_tag = _first_line(root, "latest"), _first_line(root, "latest_universal")
    path = folder if is_step else _find_step_folder(root, tag)
    if path is None:
        return _read_weights_only(root)
    names = _file_names(path)
    states = [match for name in names if (match := _OPTIMIZER.fullmatch(name))]
    partitions = [match for name in names if (match := _PARTITION.fullmatch(name))]
    models = [match for name in names if (match := _MODEL.fullmatch(name))]
    ranks = {(int(match[2]), int(match[3])) for match in states}
    ranks |= {(int(match[1]), int(match[2])) for match in partitions}
    groups = {group for _, group in ranks} | {int(match[1]) for match in models}
    is_universal = os.path.isdir(os.path.join(path, "zero"))
    layout: Layout = (
        "universal"
        if is_universal
        else "stage 3"
        if partitions
        else "stage 1 or 2"
        if states
        else "stage 0"
        if models
        else "weights"
    )
    data_parallel = 1 + max(rank for rank, _ in ranks) if ranks else None
    is_bf16 = any(match[1] for match in states) if states else None
    expected = _expected_file_names(layout, data_parallel, 1 + max(groups, default=0), is_bf16=bool(is_bf16))
    return CheckpointFolder(
        path,
        root,
        tag,
        layout,
        data_parallel,
        1 + max(groups, default=0),
        is_bf16,
        tuple(name for name in expected if name not in names),
        tuple(_find_broken_files(path, [each[0] for each in (*states, *partitions, *models)])),
        any(map(_EXPERT.fullmatch, names)),
        _count_swapped_ranks(path),
        tuple(sorted(name for name in _file_names(root) if _WHOLE.fullmatch(name))),
        os.path.isfile(os.path.join(root, "trainer_state.json")),
        universal_tag,
    )


def _read_weights_only(root: str) -> CheckpointFolder | None:
    names = tuple(sorted(name for name in _file_names(root) if _WHOLE.fullmatch(name)))
    trainer = os.path.isfile(os.path.join(root, "trainer_state.json"))
    tag = _first_line(root, "latest")
    if not names and tag is None:
        return None
    return CheckpointFolder(root, root, tag, "weights", None, 1, None, weights=names, is_of_trainer=trainer)


def _find_checkpoint_root(folder: str) -> str | None:
    """The folder with `latest`; the newest `checkpoint-N` in an output folder of the Trainer."""
    if _has_states(folder):
        return os.path.dirname(os.path.normpath(folder)) or "."
    names = _file_names(folder)
    if "latest" in names or "latest_universal" in names:
        return folder
    newest = max((name for name in names if _is_step_folder(folder, name)), key=_step_number, default=None)
    if newest is None:
        return folder if any(map(_WHOLE.fullmatch, names)) else None
    inner = os.path.join(folder, newest)
    return folder if newest.startswith("global_step") else _find_checkpoint_root(inner) or inner


def _is_step_folder(folder: str, name: str) -> bool:
    return _STEP.match(name) is not None and os.path.isdir(os.path.join(folder, name))


def _step_number(name: str) -> int:
    match = _STEP.match(name)
    return int(match[1]) if match else -1


def _find_step_folder(root: str, tag: str | None) -> str | None:
    """The folder of the step that `latest` names; without it, the newest one."""
    if tag is not None:
        path = os.path.join(root, os.path.basename(tag))
        return path if os.path.isdir(path) else None
    steps = [
        name
        for name in _file_names(root)
        if _is_step_folder(root, name) and _has_states(os.path.join(root, name))
    ]
    return os.path.join(root, max(steps, key=_step_number)) if steps else None


def _has_states(folder: str) -> bool:
    return any(
        pattern.fullmatch(name)
        for name in _file_names(folder)
        for pattern in (_OPTIMIZER, _PARTITION, _MODEL)
    )


def _file_names(folder: str) -> frozenset[str]:
    with os.scandir(folder) as entries:
        return frozenset(entry.name for entry, _ in zip(entries, range(_MOST_FILES), strict=False))


def _first_line(root: str, name: str) -> str | None:
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.readline(_LONGEST_TAG).strip() or None
    except OSError:
        return None


_LONGEST_TAG = 1000


def _expected_file_names(layout: Layout, ranks: int | None, groups: int, *, is_bf16: bool) -> Iterator[str]:
    """Yield the names that a complete checkpoint with these ranks has."""
    prefix = "bf16_" if is_bf16 else ""
    for group in range(groups):
        if layout in ("stage 0", "stage 1 or 2"):
            yield f"mp_rank_{group:02d}_model_states.pt"
        for rank in range(ranks or 0) if layout in ("stage 1 or 2", "stage 3") else ():
            yield f"{prefix}zero_pp_rank_{rank}_mp_rank_{group:02d}_optim_states.pt"
            if layout == "stage 3":
                yield f"zero_pp_rank_{rank}_mp_rank_{group:02d}_model_states.pt"


def _find_broken_files(folder: str, names: list[str]) -> Iterator[str]:
    """Yield files that are empty, or whose zip directory at the end is missing: a save that did not finish."""
    for name in sorted(names)[:_MOST_OPENED]:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                start = file.read(_MAGIC)
            # `torch.save` writes a zip archive since 1.6; earlier files are plain pickles.
            if not start or (start.startswith(b"PK") and not zipfile.is_zipfile(path)):
                yield name
        except OSError:
            yield name


_MAGIC = 4


def _count_swapped_ranks(folder: str) -> int:
    path = os.path.join(folder, "offloaded_tensors")
    return sum(name.startswith("rank") for name in _file_names(path)) if os.path.isdir(path) else 0
