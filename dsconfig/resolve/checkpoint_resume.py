"""Comparison of a checkpoint with the job that is to load it: obstacles, remedies and commands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dsconfig.core.json_types import Json, value_at_dotted_path
from dsconfig.core.releases import NUMBERS, release_number
from dsconfig.resolve.checkpoint_folder import CheckpointFolder
from dsconfig.resolve.input_config import read_input_config

if TYPE_CHECKING:
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig

Verdict: TypeAlias = Literal["loads", "blocked", "unknown"]
"""`loads`: nothing speaks against it. `blocked`: DeepSpeed raises, or starts from scratch without a message.
`unknown`: a fact is missing.
"""


class ResumeObstacle(NamedTuple):
    """One reason why the checkpoint does not load as it is, with the remedies."""

    verdict: Verdict
    message: str
    remedies: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Shell commands of the first remedy."""


class ResumeReport(NamedTuple):
    """A checkpoint, compared with the job that is to load it."""

    checkpoint: CheckpointFolder
    release: str
    world_size: int | None
    obstacles: tuple[ResumeObstacle, ...]

    @property
    def verdict(self) -> Verdict:
        """The strongest verdict of the obstacles."""
        verdicts = {each.verdict for each in self.obstacles}
        return "blocked" if "blocked" in verdicts else "unknown" if "unknown" in verdicts else "loads"


class _CheckpointRequirements(NamedTuple):
    """Requirements of the config; None: only the run shows it."""

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
            checkpoint, "latest", "`load_checkpoint` then loads nothing, with a warning only"
        )


def _missing_tag_obstacle(checkpoint: CheckpointFolder, name: str, consequence: str) -> ResumeObstacle:
    """The file that names the step to load is missing."""
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
"""First release whose converter reads a checkpoint of these stages: #4516, #5475."""


def _universal_obstacles(
    checkpoint: CheckpointFolder, wanted: _CheckpointRequirements, release: int
) -> Iterator[ResumeObstacle]:
    if checkpoint.layout != "universal":
        yield ResumeObstacle(
            "blocked",
            "the config sets `checkpoint.load_universal`, but the checkpoint is not in the universal format",
            (
                "convert it",
                "remove `checkpoint.load_universal`, which needs the ranks of the run that wrote it",
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
            "`offload_optimizer` uses NVMe, and DeepSpeed then reads swapped tensors instead of the universal format",
            ('set `offload_optimizer.device` to "cpu" for this run',),
        )


def _universal_conversion_command(checkpoint: CheckpointFolder, release: int) -> Iterator[str]:
    """Yield the command that converts a checkpoint to the universal format; nothing if the release cannot."""
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
        f"the folder has {_list_some_names(checkpoint.weights)}, but no states of DeepSpeed: optimizer and "
        "schedule start again",
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
    upgrade = f"use DeepSpeed {needed} or newer and convert it to the universal format"
    yield ResumeObstacle(
        "blocked",
        f"the checkpoint was written by {saved} data-parallel ranks, and {ranks} would load it: DeepSpeed raises"
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
            f"the checkpoint is of {checkpoint.layout}; the stage of the config is only known at run time",
            ("write the stage into the config",),
        )
        return
    layout = "stage 3" if wanted.stage == 3 else "stage 1 or 2" if wanted.stage else "stage 0"
    if layout == checkpoint.layout:
        return
    if wanted.stage == 0 and checkpoint.layout == "stage 1 or 2" and checkpoint.is_bf16:
        yield ResumeObstacle(
            "unknown",
            "the config uses stage 0, and file names do not show whether bf16 at stage 0 or a higher stage wrote the"
            " checkpoint",
            ("use the stage of the first run",),
        )
        return
    loses = "the optimizer starts again"
    weights = f"take only the weights, and start a new run from them ({loses})"
    yield ResumeObstacle(
        "blocked",
        f"the checkpoint is of {checkpoint.layout}, and the config uses stage {wanted.stage}, which looks for other"
        " files",
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
        f"the optimizer states were saved {'in ' * (saved == 'bf16')}{saved}, and the config trains in"
        f" {now}: DeepSpeed looks for `{looks_for}_optim_states.pt`",
        ("use the precision of the first run", "take only the weights, and start a new run from them"),
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
