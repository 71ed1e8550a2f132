"""The degrees of parallelism that a launch file, or the flags of its command, give to a job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from dsconfig.consumers.accelerate_launch_file import BLOCK
from dsconfig.core.data_parallel import Degree, Parallelism
from dsconfig.core.file_bytes import contents
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.json_values import at
from dsconfig.document import Document
from dsconfig.launch.config_search import search
from dsconfig.launch.format_row import Format
from dsconfig.launch.training_arguments import plain


class Launch(Protocol):
    """What a job has of its launch file; see `launch.job.Job`."""

    @property
    def format(self) -> Format:
        """The program, and how its launch file is recognized."""

    @property
    def launch(self) -> Document:
        """The launch file."""

    @property
    def line(self) -> int | None:
        """The line of the command in a script."""

    @property
    def arguments(self) -> Mapping[str, Json] | None:
        """The flags of the command; None where the launch file's keys are the arguments."""

    @property
    def program_file(self) -> str:
        """The Python program that the command starts."""

    @property
    def folder(self) -> str:
        """The folder that the script has entered before."""


class Row(NamedTuple):
    """One argument of a program: its names, and what it does to the batch; see `Degree`."""

    names: tuple[str, ...]
    kind: str
    divides: bool | None = True
    capped: bool = False


MEGATRON = (
    # megatron/arguments.py:validate_args takes the smaller of these two and the ranks that are left.
    Row(("tensor_model_parallel_size",), "tensor", capped=True),
    Row(("pipeline_model_parallel_size",), "pipeline", capped=True),
    Row(("ds_sequence_parallel_size",), "sequence"),
    Row(("context_parallel_size",), "context"),
)
"""Megatron hands DeepSpeed its `mpu`, or a pipelined model with a grid of its own.

Sources: Megatron-DeepSpeed megatron/arguments.py:validate_args; core/parallel_state.py:
initialize_model_parallel; training.py:setup_model_and_optimizer.
"""
ACCELERATE = (
    # Accelerator._prepare_deepspeed hands over the `mpu` of UlyssesSPAttentionHF for `sp_size` alone.
    Row(("parallelism_config_sp_size", "sp_size"), "sequence"),
    Row(("parallelism_config_cp_size", "cp_size"), "context", None),
    Row(("parallelism_config_tp_size", "tp_size"), "tensor", None),
)
"""Source: accelerate 1.15 accelerator.py:Accelerator._prepare_deepspeed; parallelism_config.py."""
_ROWS: Mapping[str, tuple[Row, ...]] = {
    "Megatron-DeepSpeed": MEGATRON,
    # megatron/neox_arguments/arguments.py:NeoXArgs.calculate_derived
    "GPT-NeoX": (Row(("pipe_parallel_size",), "pipeline"), Row(("model_parallel_size",), "tensor")),
    # utils/deepspeed/deepspeed.py:get_ds_train_config multiplies the batch instead, and hands over no mpu.
    "OpenRLHF": (
        Row(("ds.tensor_parallel_size", "ds_tensor_parallel_size"), "tensor", False),
        Row(("ds.ring_attn_size", "ring_attn_size"), "sequence", False),
    ),
    # trainers/mixin.py: the ranks of a group get the same samples, and DeepSpeed does not know of them.
    "ms-swift": (Row(("sequence_parallel_size",), "sequence", False),),
    # core/trainers/base.py; utils/trainer.py:setup_parallelism_envs. `tensor_parallel_size` is written as
    # `tensor_parallel.autotp_size`.
    "Axolotl": (Row(("context_parallel_size", "sequence_parallel_degree"), "context", False),),
    # A fork of LLaMA-Factory shares out sequences under the Trainer, which counts every rank.
    "LLaMA-Factory": (Row(("sequence_parallel_size",), "sequence", False),),
}
_UNKNOWN = re.compile(
    r"(?:ds_)?(?P<kind>tensor|pipeline|pipe|model|sequence|context|seq)(?:_model)?_parallel(?:_size|_degree)"
    r"|(?P<short>tp|pp|sp|cp|mp)_(?:size|degree)|ulysses(?:_\w+)?_size|ring_attn_size"
)
"""What a program that nobody knows calls such a number: what it does with it only its code shows."""
_KINDS = {"tp": "tensor", "pp": "pipeline", "sp": "sequence", "cp": "context", "mp": "model"}
_KINDS |= {"pipe": "pipeline", "seq": "sequence"}


def parallelism(job: Launch) -> Parallelism:
    """The degrees of a job, each with the place that it is written at."""
    own = job.launch.value() if job.arguments is None else job.arguments
    data = {str(key).replace("-", "_"): value for key, value in own.items()} if isinstance(own, dict) else {}
    found = [*_of_program(job, data), *_of_accelerate(job, data)]
    if job.program_file and job.format.reader == "deepspeed":
        found = _with_pipeline(job, data, found)
    return Parallelism(tuple(found))


def of_launch_file(data: Json, name: str) -> Parallelism:
    """The degrees that the launch file of Accelerate gives in its block `parallelism_config`."""
    block = at(data, "parallelism_config") if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Parallelism()
    return Parallelism(tuple(_degrees(ACCELERATE, block, f" of `parallelism_config` in {name}")))


def _of_program(job: Launch, data: Mapping[str, Json]) -> Iterator[Degree]:
    where = _where(job)
    rows = _ROWS.get(job.format.name)
    if rows is None and any(name in data for row in MEGATRON[:3] for name in row.names):
        rows = MEGATRON  # a program of one's own with the arguments of Megatron
    if rows is not None:
        yield from _degrees(rows, data, where, flags=job.arguments is not None)
    elif job.arguments is not None and not job.format.makes:
        for name, value in data.items():
            if match := _UNKNOWN.fullmatch(name):
                word = match["kind"] or match["short"] or "sequence"
                row = Row((name,), _KINDS.get(word, word), None)
                yield from _degrees((row,), {name: value}, where, flags=True)


def _of_accelerate(job: Launch, data: Mapping[str, Json]) -> Iterator[Degree]:
    """Flags of `accelerate launch`, and the argument `parallelism_config` of the Trainer."""
    rows = [row._replace(names=row.names[:1]) for row in ACCELERATE]
    yield from _degrees(rows, data, _where(job), flags=job.arguments is not None)
    if isinstance(block := data.get("parallelism_config"), Mapping) and BLOCK not in data:
        yield from _degrees(ACCELERATE, block, f" of `parallelism_config`{_where(job)}")


def _degrees(
    rows: Iterator[Row] | list[Row] | tuple[Row, ...],
    data: Mapping[str, Json],
    where: str,
    *,
    flags: bool = False,
) -> Iterator[Degree]:
    for row in rows:
        name = next((name for name in row.names if name in data), None)
        if name is not None and data[name] is not False and (flags or data[name] is not None):
            word = f"`--{name.replace('_', '-')}`" if flags else f"`{name}`"
            yield Degree(row.kind, _size(data[name]), f"{word}{where}", row.divides, row.capped)


def _size(value: Json) -> int | None:
    """The number, 1 where it is less; None where only the run shows it."""
    number = plain(value)
    return max(1, number) if type(number) is int else None


def _where(job: Launch) -> str:
    name = job.launch.name
    name = name if name.startswith("<") else os.path.relpath(name)
    return f" in {name}" if job.line is None else f" in {name}:{job.line}"


# The pipeline that a program builds
# --------------------------------------------------------------------------------------------------

_MODULE = re.compile(r"\bPipelineModule\(|\bclass\s+\w+\([^()]*\bPipelineModule\b")
_STAGES = re.compile(r"\bnum_stages\s*=\s*(?:(?P<number>\d{1,6})|(?:\w+\.)*(?P<name>[A-Za-z_]\w*))\s*[,)]")
_ARGUMENT = r"add_argument\((?P<flags>(?:(?![\"']--{0}[\"'])[^()])*[\"']--{0}[\"'][^()]*)\)"
_DEFAULT = re.compile(r"\bdefault\s*=\s*(\d{1,6})\b")
_LONGEST = 1 << 20


def _with_pipeline(job: Launch, data: Mapping[str, Json], found: list[Degree]) -> list[Degree]:
    """The degrees with the stages of the `PipelineModule` that the job's program builds, if it builds one.

    A pipelined model brings its own grid, by which DeepSpeed divides the batch: __init__.py:initialize.
    """
    text = _program(job)
    if not _MODULE.search(text) or any(each.kind == "pipeline" and each.divides for each in found):
        return found
    stages, name = _stages(text, data)
    others = [each for each in found if each.divides is not None or each.kind != "pipeline"]
    written = next((each.source for each in found if each.kind == "pipeline"), "")
    source = written or f"`{name or 'num_stages'}` of `PipelineModule` in {job.program_file}"
    return [*others, Degree("pipeline", stages, source)]


def _program(job: Launch) -> str:
    place = search(job.program_file, job.launch.name, job.folder)
    if place.path is None:
        return ""
    try:
        return contents(place.path, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _stages(text: str, data: Mapping[str, Json]) -> tuple[int | None, str]:
    """The number of stages, and the argument that gives it; None where only the run shows it."""
    matches = list(_STAGES.finditer(text))
    if len({match[0] for match in matches}) != 1:
        return None, ""
    if matches[0]["number"]:
        return int(matches[0]["number"]), ""
    name = matches[0]["name"]
    if name in data:
        return _size(data[name]), name
    flag = name.replace("_", "[-_]")
    declared = re.search(_ARGUMENT.format(flag), text)
    if declared is None or re.search(r"[\"']-\w+[\"']", declared["flags"]):  # a short flag, which is not read
        return None, name
    default = _DEFAULT.search(declared["flags"])
    return (max(1, int(default[1])) if default else None), name
