"""Compare a checkpoint, by its file names alone, with the job that is to load it.

No file is unpickled. Names: deepspeed runtime/engine.py, `DeepSpeedEngine._get_ckpt_name` and
`_get_rank_zero_ckpt_name`; checkpoint/ds_to_universal.py.
"""

from __future__ import annotations

import os
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.core.json_types import Json, value_at_dotted_path
from dsconfig.core.releases import NUMBERS, release_number
from dsconfig.resolve.input_config import read_input_config

if TYPE_CHECKING:
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig

Layout: TypeAlias = Literal["stage 0", "stage 1 or 2", "stage 3", "universal", "weights"]
"""Format of a checkpoint: stages 1 and 2 write the same files; `weights` is a model without DeepSpeed's states."""
_OPTIMIZER = re.compile(r"(bf16_)?zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_?optim_states\.pt")
_PARTITION = re.compile(r"zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_model_states\.pt")
_MODEL = re.compile(r"mp_rank_(\d{1,6})_model_states\.pt")
_STEP = re.compile(r"(?:global_step|checkpoint-)(\d{1,12})")
_EXPERT = re.compile(r"(?:expp_rank_\d+|layer_\d+_expert_\d+)_mp_rank_\d+_(?:optim|model)_states\.pt")
_WHOLE = re.compile(r"(?:pytorch_model|model|adapter_model)(?:-\d+-of-\d+)?\.(?:bin|safetensors)")
_MOST_FILES = 200_000
_MOST_OPENED = 4096
"""Maximal number of files whose end is read to detect truncated ones."""


class CheckpointFolder(NamedTuple):
    """A checkpoint: the folder that `load_checkpoint` opens, and what its file names show."""

    path: str
    """Folder with the files of one step, such as `out/global_step500`."""
    root: str
    """Folder to pass to `load_checkpoint`."""
    tag: str | None
    """Name of the step in the file `latest`; None if there is no such file."""
    layout: Layout
    data_parallel: int | None
    """Number of ranks that share the optimizer states; None if no file name shows the number."""
    model_parallel: int
    """Number of ranks that split the model: tensor- and pipeline-parallel."""
    is_bf16: bool | None
    """Whether the optimizer states are those of a bf16 model; None if no file name shows that."""
    missing: tuple[str, ...] = ()
    """Names of absent files whose existence the other names imply."""
    broken: tuple[str, ...] = ()
    """Names of files that are empty or truncated."""
    has_experts: bool = False
    """Whether experts have separate files."""
    swapped_ranks: int = 0
    """Ranks whose tensors were offloaded to NVMe."""
    weights: tuple[str, ...] = ()
    """Files with the weights of the whole model, or of an adapter."""
    is_of_trainer: bool = False
    """Whether the Transformers Trainer wrote the checkpoint."""
    universal_tag: str | None = None
    """Content of `latest_universal`; None if there is no such file."""


def read_checkpoint(folder: str) -> CheckpointFolder | None:
    """Read a checkpoint folder; return None if it contains no checkpoint.

    `folder` is the folder of one step, the folder with `latest`, or an output folder of the Trainer, whose newest
    checkpoint is read.

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
    """Return the folder that contains `latest`, which for the Trainer is in its newest `checkpoint-N`."""
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
    """Return the folder of the step that `latest` names, or of the newest step if `latest` is missing."""
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
    """Yield the file names of a complete checkpoint for these numbers of ranks."""
    prefix = "bf16_" if is_bf16 else ""
    for group in range(groups):
        if layout in ("stage 0", "stage 1 or 2"):
            yield f"mp_rank_{group:02d}_model_states.pt"
        for rank in range(ranks or 0) if layout in ("stage 1 or 2", "stage 3") else ():
            yield f"{prefix}zero_pp_rank_{rank}_mp_rank_{group:02d}_optim_states.pt"
            if layout == "stage 3":
                yield f"zero_pp_rank_{rank}_mp_rank_{group:02d}_model_states.pt"


def _find_broken_files(folder: str, names: list[str]) -> Iterator[str]:
    """Yield the files of an unfinished save: they are empty, or do not end with a zip directory."""
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


Verdict: TypeAlias = Literal["loads", "blocked", "unknown"]
"""`loads`: no obstacle is known. `blocked`: DeepSpeed raises, or starts from scratch without a message.
`unknown`: a fact is missing.
"""


class ResumeObstacle(NamedTuple):
    """A reason why a checkpoint cannot be loaded as it is, and what to do about it."""

    verdict: Verdict
    message: str
    remedies: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Shell commands of the first remedy."""


class ResumeReport(NamedTuple):
    """The result of comparing a checkpoint with the job that is to load it."""

    checkpoint: CheckpointFolder
    release: str
    world_size: int | None
    obstacles: tuple[ResumeObstacle, ...]

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of all obstacles."""
        verdicts = {each.verdict for each in self.obstacles}
        return "blocked" if "blocked" in verdicts else "unknown" if "unknown" in verdicts else "loads"


class _CheckpointRequirements(NamedTuple):
    """The requirements of a config for a checkpoint; None if only the run determines them."""

    stage: int | None
    is_bf16: bool | None
    loads_universal: bool
    swaps_optimizer: bool
    data_parallel: int | None
    model_parallel: int


def compare_checkpoint(checkpoint: CheckpointFolder, located: LocatedConfig, job: Job) -> ResumeReport:
    """Compare a checkpoint with the config and the world size of a job.

    Raises:
        ResolveError: the file is not a DeepSpeed config.
    """
    data = read_input_config(located, job).document.value()
    wanted = _checkpoint_requirements(data if isinstance(data, Mapping) else {}, job)
    release = job.releases.releases[-1]
    obstacles = tuple(_find_obstacles(checkpoint, wanted, NUMBERS[release]))
    return ResumeReport(checkpoint, release, job.ranks, obstacles)


def _checkpoint_requirements(config: Mapping[str, Json], job: Job) -> _CheckpointRequirements:
    zero = config.get("zero_optimization", {})
    stage: Json = (
        int(zero) if isinstance(zero, bool) else value_at_dotted_path(config, "zero_optimization.stage")
    )
    stage = 0 if stage is None else stage
    bf16 = value_at_dotted_path(config, "bf16.enabled")
    tensor = value_at_dotted_path(config, "tensor_parallel.autotp_size")
    degrees = job.run_facts.parallelism
    model_parallel = (
        tensor if type(tensor) is int and tensor > 1 else degrees.degree_of_kind("tensor")
    ) * degrees.degree_of_kind("pipeline")
    ranks = job.ranks
    return _CheckpointRequirements(
        stage if type(stage) is int else None,
        bf16 if isinstance(bf16, bool) else False if bf16 is None else None,
        value_at_dotted_path(config, "checkpoint.load_universal") is True,
        str(value_at_dotted_path(config, "zero_optimization.offload_optimizer.device")) == "nvme",
        None if ranks is None else ranks // model_parallel,
        model_parallel,
    )


def _find_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements, release: int
) -> Iterator[ResumeObstacle]:
    yield from _incomplete_checkpoint(checkpoint, wanted)
    if checkpoint.layout == "universal" or wanted.loads_universal:
        yield from _universal_obstacles(checkpoint, wanted, release)
        return
    if checkpoint.layout == "weights":
        yield _weights_only_obstacle(checkpoint)
        return
    yield from _world_size_obstacles(checkpoint, wanted, release)
    yield from _stage_obstacles(checkpoint, wanted)
    yield from _precision_obstacles(checkpoint, wanted)
    yield from _nvme_obstacles(checkpoint, wanted)


_MOST_SHOWN = 3


def _list_some_names(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(f"`{name}`" for name in names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _incomplete_checkpoint(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements
) -> Iterator[ResumeObstacle]:
    if checkpoint.missing:
        yield ResumeObstacle(
            "blocked",
            f"the checkpoint is incomplete: {_list_some_names(checkpoint.missing)} "
            f"{_is_or_are(checkpoint.missing)} missing. Each node"
            " writes the files of its own ranks, so the folder of another node may have them",
            ("copy the files of all nodes into one folder", "use an earlier step"),
        )
    if checkpoint.broken:
        yield ResumeObstacle(
            "blocked",
            f"{_list_some_names(checkpoint.broken)} {_is_or_are(checkpoint.broken)} empty or cut off: the job "
            "stopped, or the disk was"
            " full, while it was written",
            ("use an earlier step",),
        )
    if checkpoint.tag is None and checkpoint.layout != "weights" and not wanted.loads_universal:
        yield _missing_tag_obstacle(
            checkpoint, "latest", "`load_checkpoint` then loads nothing, and only logs a warning"
        )


def _missing_tag_obstacle(checkpoint: CheckpointFolder, name: str, consequence: str) -> ResumeObstacle:
    """Return the obstacle that `latest`, the file with the name of the step to load, is missing."""
    step = os.path.basename(os.path.normpath(checkpoint.path))
    return ResumeObstacle(
        "blocked",
        f"{checkpoint.root} has no file `{name}`: {consequence}",
        (f'pass `tag="{step}"` to `load_checkpoint`', "write the file"),
        (f"echo {shlex.quote(step)} > {shlex.quote(os.path.join(checkpoint.root, name))}",),
    )


def _is_or_are(names: tuple[str, ...]) -> str:
    return "is" if len(names) == 1 else "are"


_UNIVERSAL_KEY = 'set `"checkpoint": {"load_universal": true}` in the config'
_FIRST_UNIVERSAL = {"stage 1 or 2": "0.11.2", "stage 3": "0.14.5"}
"""First release whose converter reads a checkpoint of each stage: DeepSpeed #4516, #5475."""


def _universal_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements, release: int
) -> Iterator[ResumeObstacle]:
    if checkpoint.layout != "universal":
        yield ResumeObstacle(
            "blocked",
            "the config sets `checkpoint.load_universal`, but the checkpoint is not in the universal format",
            (
                "convert it",
                "remove `checkpoint.load_universal`, and use the number of ranks that wrote the checkpoint",
            ),
            tuple(_universal_conversion_command(checkpoint, release)),
        )
    elif not wanted.loads_universal:
        yield ResumeObstacle(
            "blocked",
            "the checkpoint is in the universal format, but the config does not set `checkpoint.load_universal`",
            (_UNIVERSAL_KEY,),
        )
    elif checkpoint.universal_tag is None:
        consequence = 'DeepSpeed raises "Invalid for universal checkpoint"'
        yield _missing_tag_obstacle(checkpoint, "latest_universal", consequence)
    if wanted.loads_universal and wanted.swaps_optimizer:
        yield ResumeObstacle(
            "blocked",
            "`offload_optimizer` uses NVMe, so DeepSpeed reads swapped tensors instead of the universal format",
            ('set `offload_optimizer.device` to "cpu" for this run',),
        )


def _universal_conversion_command(checkpoint: CheckpointFolder, release: int) -> Iterator[str]:
    """Yield the command that converts a checkpoint to the universal format, if the release has one."""
    first = _FIRST_UNIVERSAL.get(checkpoint.layout)
    if first is None or release < release_number(first):
        return
    source = os.path.normpath(checkpoint.path)
    # `universal_checkpoint_info` is written by Megatron-DeepSpeed; other programs need the injection (#5608).
    inject = checkpoint.layout == "stage 1 or 2" and release >= release_number("0.14.5")
    yield (
        f"python -m deepspeed.checkpoint.ds_to_universal --input_folder {shlex.quote(source)}"
        f" --output_folder {shlex.quote(f'{source}_universal')}{' --inject_missing_state' * inject}"
    )


def _weights_conversion_command(checkpoint: CheckpointFolder) -> str:
    root = shlex.quote(os.path.normpath(checkpoint.root))
    script = os.path.join(checkpoint.root, "zero_to_fp32.py")
    program = shlex.quote(script) if os.path.isfile(script) else "-m deepspeed.utils.zero_to_fp32"
    return f"python {program} {root} {shlex.quote(os.path.join(checkpoint.root, 'fp32'))}"


def _weights_only_obstacle(checkpoint: CheckpointFolder) -> ResumeObstacle:
    if checkpoint.tag is not None:
        return ResumeObstacle(
            "blocked",
            f"`latest` names `{checkpoint.tag}`, but {checkpoint.root} has no such folder with states",
            ("use another step", "copy the folder from the machine that wrote it"),
        )
    return ResumeObstacle(
        "blocked",
        f"the folder has {_list_some_names(checkpoint.weights)}, but no DeepSpeed states: the optimizer and the "
        "schedule start anew",
        ("load the weights with `from_pretrained` and start a new run",),
    )


def _world_size_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements, release: int
) -> Iterator[ResumeObstacle]:
    if checkpoint.model_parallel != wanted.model_parallel:
        yield ResumeObstacle(
            "blocked",
            f"{checkpoint.model_parallel} ranks split the model when it was saved, and {wanted.model_parallel} do now",
            ("use the same tensor- and pipeline-parallel sizes",),
        )
        return
    saved, ranks = checkpoint.data_parallel, wanted.data_parallel
    if saved is None or saved == ranks:
        return
    if ranks is None:
        yield ResumeObstacle(
            "unknown",
            f"the checkpoint was written by {saved} data-parallel ranks; the world size of the new run is unknown",
            ("pass `--world-size N`",),
        )
        return
    commands = tuple(_universal_conversion_command(checkpoint, release))
    same = f"start {saved * checkpoint.model_parallel} ranks"
    experts = (
        ", which keeps experts only with the same expert-parallel size" if checkpoint.has_experts else ""
    )
    convert = f"convert it to the universal format{experts}, and {_UNIVERSAL_KEY}"
    needed = _FIRST_UNIVERSAL.get(checkpoint.layout)
    upgrade = f"use DeepSpeed {needed} or later and convert it to the universal format"
    yield ResumeObstacle(
        "blocked",
        f"the checkpoint was written by {saved} data-parallel ranks, but {ranks} would load it: DeepSpeed raises"
        ' "The checkpoint being loaded used a DP world size of'
        f' {saved} but the current world size is {ranks}"',
        (convert if commands else upgrade, same),
        commands,
    )


def _stage_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements
) -> Iterator[ResumeObstacle]:
    if wanted.stage is None:
        yield ResumeObstacle(
            "unknown",
            f"the checkpoint was written at {checkpoint.layout}, but the config's stage is known only at run time",
            ("set the stage in the config",),
        )
        return
    layout = "stage 3" if wanted.stage == 3 else "stage 1 or 2" if wanted.stage else "stage 0"
    if layout == checkpoint.layout:
        return
    if wanted.stage == 0 and checkpoint.layout == "stage 1 or 2" and checkpoint.is_bf16:
        yield ResumeObstacle(
            "unknown",
            "the config uses stage 0, but file names do not show whether bf16 at stage 0 or a higher stage wrote the"
            " checkpoint",
            ("use the stage of the first run",),
        )
        return
    loses = "the optimizer starts anew"
    weights = f"load only the weights, and start a new run from them ({loses})"
    yield ResumeObstacle(
        "blocked",
        f"the checkpoint was written at {checkpoint.layout}, but the config uses stage {wanted.stage}, which looks for"
        " other files",
        (weights, f"use {checkpoint.layout}")
        if checkpoint.layout != "stage 0"
        else (f"use {checkpoint.layout}",),
        (_weights_conversion_command(checkpoint),) if checkpoint.layout != "stage 0" else (),
    )


def _precision_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements
) -> Iterator[ResumeObstacle]:
    if None in (checkpoint.is_bf16, wanted.is_bf16) or checkpoint.is_bf16 == wanted.is_bf16:
        return
    saved, now = ("bf16", "not bf16") if checkpoint.is_bf16 else ("not in bf16", "bf16")
    looks_for = "bf16_zero_…" if wanted.is_bf16 else "zero_…"
    yield ResumeObstacle(
        "blocked",
        f"the optimizer states were saved {'in ' * (saved == 'bf16')}{saved}, but the config trains in"
        f" {now}: DeepSpeed looks for `{looks_for}_optim_states.pt`",
        ("use the precision of the first run", "load only the weights, and start a new run from them"),
    )


def _nvme_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements
) -> Iterator[ResumeObstacle]:
    if wanted.swaps_optimizer and not checkpoint.swapped_ranks:
        yield ResumeObstacle(
            "blocked",
            "`offload_optimizer` uses NVMe, but the checkpoint has no folder `offloaded_tensors`",
            (
                'set `offload_optimizer.device` to "cpu" for this run',
                "use a checkpoint that was written with NVMe",
            ),
        )
    elif checkpoint.swapped_ranks and not wanted.swaps_optimizer:
        yield ResumeObstacle(
            "blocked",
            "the optimizer states of the checkpoint are in `offloaded_tensors`, but `offload_optimizer` does not use"
            " NVMe",
            ('set `offload_optimizer.device` to "nvme", with the same `nvme_path` layout',),
        )
