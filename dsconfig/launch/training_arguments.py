"""Training arguments in a launch file, values derived from others, and degrees of parallelism."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from dsconfig.consumers.accelerate_launch_file import BLOCK
from dsconfig.consumers.consumer import BY_NAME
from dsconfig.core.batch_triplet import KEYS, Degree, Parallelism
from dsconfig.core.file_access import contents
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, at
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Given, Written
from dsconfig.launch.format_table import Format, Write
from dsconfig.launch.repository import search

if TYPE_CHECKING:
    from typing import TypeGuard


# Training arguments of a launch file, by the Trainer's names.


def given(found: Format, data: Mapping[str, Json]) -> Given:
    """Read the arguments that a launch file gives to the consumer of its config."""
    written = _arguments(found, data)
    likely = derive(found.name, written, data)
    unknown = frozenset(name for name, value in written.items() if value is None)
    known = {name: value for name, value in written.items() if value is not None}
    writes = tuple(each for write in found.writes if (each := _written(data, write)) is not None)
    update = found.update if _STEPS in unknown else None
    sets = _sets(found, data)
    if found.replaces and sets:
        writes += tuple(Written(key, sets.get(key)) for key in KEYS)
        sets = {}
    spelled = {name: own for own, name in found.arguments.items()}
    return Given(
        known, unknown, sets, writes, update, likely, has_flags=bool(found.commands), spelled=spelled
    )


def _sets(found: Format, data: Mapping[str, Json]) -> JsonObject:
    """Keys of a batch that the program writes into a config without one."""
    if found.makes != "lightning":
        config = next((at(data, key) for key in found.config if at(data, key)), None)
        alone = isinstance(config, Mapping) and (found.replaces or not any(key in config for key in KEYS))
        return {key: _whole(at(data, own), default) for key, own, default in found.sets} if alone else {}
    from dsconfig.launch import config_synthesis

    return config_synthesis.additions(data)


def _whole(value: Json, default: int) -> int:
    return value if type(value) is int and value > 0 else default


_STEPS = "gradient_accumulation_steps"


def _written(data: Mapping[str, Json], write: Write) -> Written | None:
    """The write into the config caused by a key; None if the key is absent or its value does not trigger it.
    """
    value = plain(data.get(write.key))
    if value is None or (write.above is not None and not (_is_number(value) and value > write.above)):
        return None
    if write.only and write.only not in (value if isinstance(value, list) else [value]):
        return None
    return Written(write.place, value if write.value is None else write.value, write.unless, write.stage)


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def _arguments(found: Format, data: Mapping[str, Json]) -> JsonObject:
    """The arguments by the Trainer's names; None as value: unknown before the run."""
    holder = at(data, found.within) if found.within else data
    written: JsonObject = dict(found.defaults)
    known = BY_NAME["transformers"].defaults
    for key, value in holder.items() if isinstance(holder, Mapping) else ():
        name = found.arguments.get(key, key)
        if name in known and (value is not None or found.commands):
            # Determined's hyperparameter search gives a mapping or list, whose value differs from run to run.
            written[name] = None if isinstance(constant(value), dict | list) else plain(constant(value))
    return written


def constant(value: Json) -> Json:
    """Value of a constant hyperparameter of Determined, `{type: const, val: ...}`."""
    return value["val"] if isinstance(value, dict) and {"type", "val"} <= value.keys() else value


def plain(value: Json) -> Json:
    """Value as argparse and OmegaConf parse it: `1e-5` is a number, but a string in YAML 1.1."""
    if not isinstance(value, str):
        return value
    try:
        number = json.loads(value)
    except ValueError:
        pass
    else:
        return number if isinstance(number, int | float) else value
    try:
        return float(value)
    except ValueError:
        return {"true": True, "false": False}.get(value.lower(), value)


def exponents(value: Json) -> Json:
    """Convert strings such as `1e-5` into numbers, as OmegaConf does; YAML 1.1 requires a decimal point.

    Source: omegaconf _utils.py, get_yaml_loader.
    """
    if isinstance(value, dict):
        return {key: exponents(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(exponents, value))
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


_EXPONENT = re.compile(r"[-+]?\d{1,99}[eE][-+]?\d{1,4}", re.ASCII)


def human(value: Json) -> Json:
    """Convert strings such as `5e8`, `500m` or `2^20` into numbers.

    Source: arctic_training config/utils.py, parse_human_val.
    """
    if isinstance(value, dict):
        return {key: human(each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    text = value.replace("_", "").lower().strip()
    if power := re.fullmatch(_POWER, text, re.ASCII):
        base, exponent = map(float, power.groups())
        return base**exponent if 0 < base < _LARGEST and exponent < _LARGEST else value
    number = re.fullmatch(_HUMAN, text, re.ASCII)
    return float(number[1]) * _UNITS[number[2] or ""] if number else value


_POWER = r"(\d{1,9}\.?\d?)\^(\d{1,3}\.?\d?)"
_HUMAN = r"(-?\d{1,99}(?:\.\d{0,99})?(?:e[+-]?\d{1,2})?)([kmbt]|[kmgt]i)?"
_LARGEST = 100.0
"""Limit of base and exponent in `2^20`."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


# Training arguments that a program derives from others, from the model or from the GPU.

_BF16, _FP16 = "bf16", "fp16"
_MICRO = "per_device_train_batch_size"
_WARMUP, _RATE = "warmup_steps", "learning_rate"


def derive(program: str, written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Add derived arguments to `written`; return likely values of those that stay unknown.

    `written`: arguments by the Trainer's names, None if unknown before the run. `data`: keys of the launch
    file.
    """
    known = _PROGRAMS.get(program)
    return known(written, data) if known else {}


def _swift(written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Derive the precision from the model's dtype, and the learning rate from the tuning type.

    Source: ms-swift 4.6 arguments/base_args/model_args.py:_init_mixed_precision; sft_args.py:_init_override;
    trainers/utils.py:prepare_deepspeed_elastic_config.
    """
    callbacks = data.get("callbacks")
    if "deepspeed_elastic" in (callbacks if isinstance(callbacks, list) else [callbacks]):
        written[_MICRO] = written[_STEPS] = None  # the `elasticity` block decides, by the number of ranks
    dtype, likely = data.get("torch_dtype"), {_BF16: True, _FP16: False}
    if isinstance(dtype, str) and dtype in _TYPES:
        likely = {_BF16: dtype == "bfloat16", _FP16: dtype != "bfloat16"}
        written.update({name: on for name, on in likely.items() if written.get(name) is None})
    if written.get(_RATE) is None and _RATE not in data:
        tuner = data.get("tuner_type", data.get("train_type", "lora"))
        written[_RATE] = {"full": 1e-5}.get(tuner, 1e-4) if isinstance(tuner, str) else None
    return {name: on for name, on in likely.items() if written.get(name) is None}


_TYPES = ("bfloat16", "float16", "float32")


def _axolotl(written: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Derive the precision (`bf16: auto` is the default and asks the GPU) and raise one warm-up step to two.

    Source: axolotl 0.19 utils/config/__init__.py:resolve_dtype, normalize_config; core/builders/base.py:
    _configure_precision_settings, _configure_warmup_and_logging.
    """
    if written.get(_WARMUP) == 1:
        written[_WARMUP] = 2
    batch, micro = data.get("batch_size"), data.get("micro_batch_size", 1)
    if data.get(_STEPS, 1) is None and type(batch) is int and type(micro) is int and micro > 0:
        written[_STEPS] = batch // micro
    bf16 = data.get(_BF16, "auto")
    if bf16 == "auto" and not data.get(_FP16):
        written[_BF16] = None
        if data.get(_FP16) is None:
            written[_FP16] = None
        return {_BF16: True, _FP16: False}
    if bf16 == "full":
        written["bf16_full_eval"] = True
    written[_BF16] = bf16 not in ("auto", "full") and bool(bf16 or data.get("bfloat16"))
    written[_FP16] = bool(data.get(_FP16)) and bf16 in ("auto", False, None)
    return {}


def _trl(written: JsonObject, _: Mapping[str, Json]) -> JsonObject:
    """Switch bf16 on unless `fp16` is. Source: trl 1.16 trainer/base_config.py:_BaseConfig.__post_init__."""
    if written.get(_BF16) is None:
        written[_BF16] = not written.get(_FP16)
    return {}


_PROGRAMS: Mapping[str, Callable[[JsonObject, Mapping[str, Json]], JsonObject]] = {
    "ms-swift": _swift,
    "Axolotl": _axolotl,
    "TRL": _trl,
}


# Degrees of parallelism in a launch file or in the flags of its command.


class Launch(Protocol):
    """Job with its program and arguments; see `launched_job.LaunchedJob`."""

    @property
    def format(self) -> Format:
        """Program of the launch file."""

    @property
    def launch(self) -> Document:
        """The launch file."""

    @property
    def line(self) -> int | None:
        """Line of the command in a script."""

    @property
    def arguments(self) -> Mapping[str, Json] | None:
        """Flags of the command; None if the keys of the launch file are the arguments."""

    @property
    def program_file(self) -> str:
        """The Python program that the command starts."""

    @property
    def folder(self) -> str:
        """Directory that the script has entered with `cd`."""


class Row(NamedTuple):
    """Argument that sets a degree of parallelism: its names, and its effect on the batch; see `Degree`."""

    names: tuple[str, ...]
    kind: str
    divides: bool | None = True
    capped: bool = False


MEGATRON = (
    # megatron/arguments.py:validate_args takes min(size, remaining ranks) for these two.
    Row(("tensor_model_parallel_size",), "tensor", capped=True),
    Row(("pipeline_model_parallel_size",), "pipeline", capped=True),
    Row(("ds_sequence_parallel_size",), "sequence"),
    Row(("context_parallel_size",), "context"),
)
"""Megatron passes its `mpu` to DeepSpeed, or a pipelined model with its own grid.

Sources: Megatron-DeepSpeed megatron/arguments.py:validate_args; core/parallel_state.py:
initialize_model_parallel; training.py:setup_model_and_optimizer.
"""
ACCELERATE = (
    # Accelerator._prepare_deepspeed passes the `mpu` of UlyssesSPAttentionHF for `sp_size` alone.
    Row(("parallelism_config_sp_size", "sp_size"), "sequence"),
    Row(("parallelism_config_cp_size", "cp_size"), "context", None),
    Row(("parallelism_config_tp_size", "tp_size"), "tensor", None),
)
"""Source: accelerate 1.15 accelerator.py:Accelerator._prepare_deepspeed; parallelism_config.py."""
_ROWS: Mapping[str, tuple[Row, ...]] = {
    "Megatron-DeepSpeed": MEGATRON,
    # megatron/neox_arguments/arguments.py:NeoXArgs.calculate_derived
    "GPT-NeoX": (Row(("pipe_parallel_size",), "pipeline"), Row(("model_parallel_size",), "tensor")),
    # utils/deepspeed/deepspeed.py:get_ds_train_config multiplies the batch instead and passes no mpu.
    "OpenRLHF": (
        Row(("ds.tensor_parallel_size", "ds_tensor_parallel_size"), "tensor", False),
        Row(("ds.ring_attn_size", "ring_attn_size"), "sequence", False),
    ),
    # trainers/mixin.py: the ranks of a group get the same samples, and DeepSpeed does not know about them.
    "ms-swift": (Row(("sequence_parallel_size",), "sequence", False),),
    # core/trainers/base.py; utils/trainer.py:setup_parallelism_envs. `tensor_parallel_size` is in `FORMATS`:
    # it is written to `tensor_parallel.autotp_size`.
    "Axolotl": (Row(("context_parallel_size", "sequence_parallel_degree"), "context", False),),
    # Forks of LLaMA-Factory split sequences under the Trainer, which counts every rank as data parallel.
    "LLaMA-Factory": (Row(("sequence_parallel_size",), "sequence", False),),
}
_UNKNOWN = re.compile(
    r"(?:ds_)?(?P<kind>tensor|pipeline|pipe|model|sequence|context|seq)(?:_model)?_parallel(?:_size|_degree)"
    r"|(?P<short>tp|pp|sp|cp|mp)_(?:size|degree)|ulysses(?:_\w+)?_size|ring_attn_size"
)
"""Typical names in programs without a row here; their effect on the batch is unknown."""
_KINDS = {"tp": "tensor", "pp": "pipeline", "sp": "sequence", "cp": "context", "mp": "model"}
_KINDS |= {"pipe": "pipeline", "seq": "sequence"}


def parallelism(job: Launch) -> Parallelism:
    """The degrees of a job, each with its source."""
    own = job.launch.value() if job.arguments is None else job.arguments
    data = {str(key).replace("-", "_"): value for key, value in own.items()} if isinstance(own, dict) else {}
    found = [*_of_program(job, data), *_of_accelerate(job, data)]
    if job.program_file and job.format.reader == "deepspeed":
        found = _with_pipeline(job, data, found)
    return Parallelism(tuple(found))


def of_launch_file(data: Json, name: str) -> Parallelism:
    """The degrees in the block `parallelism_config` of an Accelerate launch file."""
    block = at(data, "parallelism_config") if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Parallelism()
    return Parallelism(tuple(_degrees(ACCELERATE, block, f" of `parallelism_config` in {name}")))


def _of_program(job: Launch, data: Mapping[str, Json]) -> Iterator[Degree]:
    where = _where(job)
    rows = _ROWS.get(job.format.name)
    if rows is None and any(name in data for row in MEGATRON[:3] for name in row.names):
        rows = MEGATRON  # a fork or custom program with Megatron's arguments
    if rows is not None:
        yield from _degrees(rows, data, where, flags=job.arguments is not None)
    elif job.arguments is not None and not job.format.makes:
        for name, value in data.items():
            if match := _UNKNOWN.fullmatch(name):
                word = match["kind"] or match["short"] or "sequence"
                row = Row((name,), _KINDS.get(word, word), None)
                yield from _degrees((row,), {name: value}, where, flags=True)


def _of_accelerate(job: Launch, data: Mapping[str, Json]) -> Iterator[Degree]:
    """Yield the degrees from flags of `accelerate launch` and from the Trainer's argument
    `parallelism_config`.
    """
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
    """The degree, at least 1; None if unknown before the run."""
    number = plain(value)
    return max(1, number) if type(number) is int else None


def _where(job: Launch) -> str:
    name = job.launch.name
    name = name if name.startswith("<") else os.path.relpath(name)
    return f" in {name}" if job.line is None else f" in {name}:{job.line}"


# Pipeline stages that a program builds
# --------------------------------------------------------------------------------------------------

_MODULE = re.compile(r"\bPipelineModule\(|\bclass\s+\w+\([^()]*\bPipelineModule\b")
_STAGES = re.compile(r"\bnum_stages\s*=\s*(?:(?P<number>\d{1,6})|(?:\w+\.)*(?P<name>[A-Za-z_]\w*))\s*[,)]")
_ARGUMENT = r"add_argument\((?P<flags>(?:(?![\"']--{0}[\"'])[^()])*[\"']--{0}[\"'][^()]*)\)"
_DEFAULT = re.compile(r"\bdefault\s*=\s*(\d{1,6})\b")
_LONGEST = 1 << 20


def _with_pipeline(job: Launch, data: Mapping[str, Json], found: list[Degree]) -> list[Degree]:
    """Add the stages of the `PipelineModule` that the job's program builds, if it builds one.

    A pipelined model brings its own grid, by which DeepSpeed divides the batch:
    deepspeed/__init__.py:initialize.
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
    """Number of stages and the argument that sets it; None if unknown before the run."""
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
    if declared is None or re.search(r"[\"']-\w+[\"']", declared["flags"]):  # a short flag is not parsed here
        return None, name
    default = _DEFAULT.search(declared["flags"])
    return (max(1, int(default[1])) if default else None), name
