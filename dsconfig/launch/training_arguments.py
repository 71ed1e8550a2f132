"""Read training arguments from launch files, and derive further arguments, the parallelism and the model from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from dsconfig.core.batch_triplet import KEYS, ParallelDegree, Parallelism
from dsconfig.core.file_access import read_contents, relative_path
from dsconfig.core.json_types import Json, JsonObject, NamedTuple, value_at_dotted_path
from dsconfig.document import Document
from dsconfig.job.consumers.accelerate_launch_file import BLOCK
from dsconfig.job.consumers.consumer import BY_NAME, COMPARED_ARGUMENTS
from dsconfig.job.detect_consumer import LaunchArguments, ProgramWrite
from dsconfig.job.model_config_json import CONFIG_NAME, find_config_json, is_model_outside_repository
from dsconfig.launch.launch_file_formats import ConfigWriteRule, LaunchFileFormat
from dsconfig.launch.repository_files import resolve_written_path

if TYPE_CHECKING:
    from typing import TypeGuard

# Training arguments of a launch file, by the Trainer's names.


def read_launch_file_arguments(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> LaunchArguments:
    """Read the training arguments that a launch file passes to the config's consumer."""
    values = _read_argument_values(launch_format, data)
    likely = derive_arguments(launch_format.name, values, data)
    unknown = frozenset(name for name, value in values.items() if value is None)
    known_values = {name: value for name, value in values.items() if value is not None}
    writes = tuple(
        each for write in launch_format.writes if (each := _triggered_write(data, write)) is not None
    )
    update = launch_format.samples_per_step if _ACCUMULATION in unknown else None
    sets = _batch_keys_written_by_program(launch_format, data)
    if launch_format.replaces_batch and sets:
        writes += tuple(ProgramWrite(key, sets.get(key)) for key in KEYS)
        sets = {}
    spelled = {name: own_name for own_name, name in launch_format.arguments.items()}
    return LaunchArguments(
        known_values,
        unknown,
        sets,
        writes,
        update,
        likely,
        has_flags=bool(launch_format.commands),
        spelled=spelled,
        explicit=_explicit_values(launch_format, data),
    )


def _batch_keys_written_by_program(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> JsonObject:
    """Return the batch keys that a program adds to a config that has none."""
    if launch_format.builds != "lightning":
        config = next(
            (
                value_at_dotted_path(data, key)
                for key in launch_format.config
                if value_at_dotted_path(data, key)
            ),
            None,
        )
        applies = isinstance(config, Mapping) and (
            launch_format.replaces_batch or not any(key in config for key in KEYS)
        )
        return (
            {
                key: _positive_number_or(value_at_dotted_path(data, own_key), default)
                for key, own_key, default in launch_format.sets
            }
            if applies
            else {}
        )
    from dsconfig.launch import framework_configs

    return framework_configs.lightning_added_keys(data)


def _positive_number_or(value: Json, default: int) -> int:
    return value if type(value) is int and value > 0 else default


_ACCUMULATION = "gradient_accumulation_steps"


def _triggered_write(data: Mapping[str, Json], write: ConfigWriteRule) -> ProgramWrite | None:
    """Return the write to the config that a launch-file key causes, or None if its value causes none."""
    value = parse_argument_text(data.get(write.key))
    if value is None or (write.minimum is not None and not (_is_number(value) and value > write.minimum)):
        return None
    if write.only and write.only not in (value if isinstance(value, list) else [value]):
        return None
    return ProgramWrite(write.place, value if write.value is None else write.value, write.unless, write.stage)


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def _read_argument_values(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> JsonObject:
    """Return the arguments under the Trainer's names; None stands for a value known only at run time."""
    arguments = (
        value_at_dotted_path(data, launch_format.arguments_key) if launch_format.arguments_key else data
    )
    values: JsonObject = dict(launch_format.defaults)
    known_names = BY_NAME["transformers"].defaults
    for key, value in arguments.items() if isinstance(arguments, Mapping) else ():
        name = launch_format.arguments.get(key, key)
        if name in known_names and (value is not None or launch_format.commands):
            # Determined's hyperparameter search gives a mapping or list, whose value differs from run to run.
            values[name] = (
                None
                if isinstance(determined_constant(value), dict | list)
                else parse_argument_text(determined_constant(value))
            )
    return values


def _explicit_values(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> JsonObject:
    """Return the arguments among `COMPARED_ARGUMENTS` that the launch file sets explicitly."""
    arguments = (
        value_at_dotted_path(data, launch_format.arguments_key) if launch_format.arguments_key else data
    )
    named = (
        (launch_format.arguments.get(key, key), determined_constant(value))
        for key, value in (arguments.items() if isinstance(arguments, Mapping) else ())
    )
    return {
        name: None if isinstance(value, dict | list) else parse_argument_text(value)
        for name, value in named
        if name in COMPARED_ARGUMENTS and (value is not None or launch_format.commands)
    }


def determined_constant(value: Json) -> Json:
    """Return the value of a constant hyperparameter of Determined (`{type: const, val: ...}`), or `value` itself."""
    return value["val"] if isinstance(value, dict) and {"type", "val"} <= value.keys() else value


def parse_argument_text(value: Json) -> Json:
    """Parse a value as argparse and OmegaConf do: `1e-5` is a number, although it is a string in YAML 1.1."""
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


def parse_exponents(value: Json) -> Json:
    """Convert strings such as `1e-5` to numbers, as OmegaConf does; YAML 1.1 requires a decimal point.

    Source: omegaconf _utils.py, get_yaml_loader.
    """
    if isinstance(value, dict):
        return {key: parse_exponents(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(parse_exponents, value))
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


_EXPONENT = re.compile(r"[-+]?\d{1,99}[eE][-+]?\d{1,4}", re.ASCII)


def parse_human_numbers(value: Json) -> Json:
    """Convert strings such as `5e8`, `500m` or `2^20` into numbers.

    Source: arctic_training config/utils.py, parse_human_val.
    """
    if isinstance(value, dict):
        return {key: parse_human_numbers(each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    text = value.replace("_", "").lower().strip()
    if power := re.fullmatch(_POWER, text, re.ASCII):
        base, exponent = map(float, power.groups())
        return base**exponent if 0 < base < _MAX_POWER and exponent < _MAX_POWER else value
    number = re.fullmatch(_HUMAN_NUMBER, text, re.ASCII)
    return float(number[1]) * _UNITS[number[2] or ""] if number else value


_POWER = r"(\d{1,9}\.?\d?)\^(\d{1,3}\.?\d?)"
_HUMAN_NUMBER = r"(-?\d{1,99}(?:\.\d{0,99})?(?:e[+-]?\d{1,2})?)([kmbt]|[kmgt]i)?"
_MAX_POWER = 100.0
"""Maximum of the base and the exponent in numbers such as `2^20`."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


# Training arguments that a program derives from others, from the model or from the GPU.

_BF16, _FP16 = "bf16", "fp16"
_MICRO = "per_device_train_batch_size"
_WARMUP, _RATE = "warmup_steps", "learning_rate"


def derive_arguments(program: str, values: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Add derived arguments to `values`, and return likely values for arguments that remain unknown.

    `values` has the arguments under the Trainer's names, None if known only at run time. `data` has the keys of the
    launch file.
    """
    derivation = _DERIVATIONS.get(program)
    return derivation(values, data) if derivation else {}


def _derive_ms_swift_arguments(values: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Derive the precision from the model's dtype, and the learning rate from the tuning method.

    Source: ms-swift 4.6 arguments/base_args/model_args.py:ModelArguments._init_mixed_precision;
    sft_args.py:_init_override;
    trainers/utils.py:prepare_deepspeed_elastic_config.
    """
    callbacks = data.get("callbacks")
    if "deepspeed_elastic" in (callbacks if isinstance(callbacks, list) else [callbacks]):
        values[_MICRO] = values[_ACCUMULATION] = (
            None  # the `elasticity` block decides, by the number of ranks
        )
    dtype, likely = data.get("torch_dtype"), {_BF16: True, _FP16: False}
    if isinstance(dtype, str) and dtype in _DTYPES:
        likely = {_BF16: dtype == "bfloat16", _FP16: dtype != "bfloat16"}
        values.update({name: is_on for name, is_on in likely.items() if values.get(name) is None})
    if values.get(_RATE) is None and _RATE not in data:
        tuner = data.get("tuner_type", data.get("train_type", "lora"))
        values[_RATE] = {"full": 1e-5}.get(tuner, 1e-4) if isinstance(tuner, str) else None
    return {name: is_on for name, is_on in likely.items() if values.get(name) is None}


_DTYPES = ("bfloat16", "float16", "float32")


def _derive_axolotl_arguments(values: JsonObject, data: Mapping[str, Json]) -> JsonObject:
    """Derive the precision (for the default `bf16: auto`, from the GPU), and raise a single warmup step to two.

    Source: axolotl 0.19 utils/config/__init__.py:resolve_dtype, normalize_config; core/builders/base.py:
    _configure_precision_settings, _configure_warmup_and_logging.
    """
    if values.get(_WARMUP) == 1:
        values[_WARMUP] = 2
    batch, micro = data.get("batch_size"), data.get("micro_batch_size", 1)
    if data.get(_ACCUMULATION, 1) is None and type(batch) is int and type(micro) is int and micro > 0:
        values[_ACCUMULATION] = batch // micro
    bf16 = data.get(_BF16, "auto")
    if bf16 == "auto" and not data.get(_FP16):
        values[_BF16] = None
        if data.get(_FP16) is None:
            values[_FP16] = None
        return {_BF16: True, _FP16: False}
    if bf16 == "full":
        values["bf16_full_eval"] = True
    values[_BF16] = bf16 not in ("auto", "full") and bool(bf16 or data.get("bfloat16"))
    values[_FP16] = bool(data.get(_FP16)) and bf16 in ("auto", False, None)
    return {}


def _derive_trl_arguments(values: JsonObject, _: Mapping[str, Json]) -> JsonObject:
    """Enable bf16 unless `fp16` is set. Source: trl 1.16 trainer/base_config.py:_BaseConfig.__post_init__."""
    if values.get(_BF16) is None:
        values[_BF16] = not values.get(_FP16)
    return {}


_DERIVATIONS: Mapping[str, Callable[[JsonObject, Mapping[str, Json]], JsonObject]] = {
    "ms-swift": _derive_ms_swift_arguments,
    "Axolotl": _derive_axolotl_arguments,
    "TRL": _derive_trl_arguments,
}


# Degrees of parallelism in a launch file or in the flags of its command.


class HasArguments(Protocol):
    """A job that has a program and training arguments, such as `LaunchedJob`."""

    @property
    def format(self) -> LaunchFileFormat:
        """Format of the launch file."""

    @property
    def launch(self) -> Document:
        """The launch file of the job."""

    @property
    def line(self) -> int | None:
        """Line of the command in a script, or None if there is no command."""

    @property
    def arguments(self) -> Mapping[str, Json] | None:
        """Flags of the command, or None if the keys of the launch file are the arguments."""

    @property
    def program_file(self) -> str:
        """Path of the Python program that the command starts."""

    @property
    def folder(self) -> str:
        """Directory that the script has entered with `cd`."""

    @property
    def may_have_more_flags(self) -> bool:
        """Whether the command may pass further flags, which are known only when it runs."""


class ParallelDegreeArgument(NamedTuple):
    """An argument that sets a degree of parallelism, with its effect on the batch size (see `ParallelDegree`)."""

    names: tuple[str, ...]
    kind: str
    divides: bool | None = True
    is_capped: bool = False


MEGATRON = (
    # megatron/arguments.py:validate_args takes min(size, remaining ranks) for these two.
    ParallelDegreeArgument(("tensor_model_parallel_size",), "tensor", is_capped=True),
    ParallelDegreeArgument(("pipeline_model_parallel_size",), "pipeline", is_capped=True),
    ParallelDegreeArgument(("ds_sequence_parallel_size",), "sequence"),
    ParallelDegreeArgument(("context_parallel_size",), "context"),
)
"""Arguments of Megatron, which passes DeepSpeed its `mpu` or a pipelined model with its own grid.

Sources: Megatron-DeepSpeed megatron/arguments.py:validate_args; core/parallel_state.py:
initialize_model_parallel; training.py:setup_model_and_optimizer.
"""
ACCELERATE = (
    # Accelerator._prepare_deepspeed passes the `mpu` of UlyssesSPAttentionHF for `sp_size` alone.
    ParallelDegreeArgument(("parallelism_config_sp_size", "sp_size"), "sequence"),
    ParallelDegreeArgument(("parallelism_config_cp_size", "cp_size"), "context", None),
    ParallelDegreeArgument(("parallelism_config_tp_size", "tp_size"), "tensor", None),
)
"""Arguments of Accelerate.

Source: accelerate 1.15 accelerator.py:Accelerator._prepare_deepspeed; parallelism_config.py.
"""
_DEGREE_ARGUMENTS: Mapping[str, tuple[ParallelDegreeArgument, ...]] = {
    "Megatron-DeepSpeed": MEGATRON,
    # megatron/neox_arguments/arguments.py:NeoXArgs.calculate_derived
    "GPT-NeoX": (
        ParallelDegreeArgument(("pipe_parallel_size",), "pipeline"),
        ParallelDegreeArgument(("model_parallel_size",), "tensor"),
    ),
    # utils/deepspeed/deepspeed.py:get_ds_train_config multiplies the batch instead and passes no mpu.
    "OpenRLHF": (
        ParallelDegreeArgument(("ds.tensor_parallel_size", "ds_tensor_parallel_size"), "tensor", False),
        ParallelDegreeArgument(("ds.ring_attn_size", "ring_attn_size"), "sequence", False),
    ),
    # trainers/mixin.py: the ranks of a group get the same samples, and DeepSpeed does not know about them.
    "ms-swift": (ParallelDegreeArgument(("sequence_parallel_size",), "sequence", False),),
    # core/trainers/base.py; utils/trainer.py:setup_parallelism_envs. `tensor_parallel_size` is in `FORMATS`:
    # it is written to `tensor_parallel.autotp_size`.
    "Axolotl": (
        ParallelDegreeArgument(("context_parallel_size", "sequence_parallel_degree"), "context", False),
    ),
    # Forks of LLaMA-Factory split sequences under the Trainer, which counts every rank as data parallel.
    "LLaMA-Factory": (ParallelDegreeArgument(("sequence_parallel_size",), "sequence", False),),
}
_TYPICAL_DEGREE = re.compile(
    r"(?:ds_)?(?P<kind>tensor|pipeline|pipe|model|sequence|context|seq)(?:_model)?_parallel(?:_size|_degree)"
    r"|(?P<short>tp|pp|sp|cp|mp)_(?:size|degree)|ulysses(?:_\w+)?_size|ring_attn_size"
)
"""Pattern of names in programs without a row in the table; their effect on the batch size is unknown."""
_KINDS = {"tp": "tensor", "pp": "pipeline", "sp": "sequence", "cp": "context", "mp": "model"}
_KINDS |= {"pipe": "pipeline", "seq": "sequence"}


def job_parallelism(job: HasArguments) -> Parallelism:
    """Return the degrees of parallelism of a job, each with the argument that sets it."""
    arguments = job.launch.value() if job.arguments is None else job.arguments
    data = (
        {str(key).replace("-", "_"): value for key, value in arguments.items()}
        if isinstance(arguments, dict)
        else {}
    )
    degrees = [*_degrees_of_program(job, data), *_accelerate_degrees(job, data)]
    if job.program_file and job.format.reader == "deepspeed":
        degrees = _add_pipeline_degree(job, data, degrees)
    return Parallelism(tuple(degrees))


def accelerate_file_parallelism(data: Json, name: str) -> Parallelism:
    """Return the degrees of parallelism in the `parallelism_config` block of an Accelerate launch file."""
    block = value_at_dotted_path(data, "parallelism_config") if isinstance(data, Mapping) else None
    if not isinstance(block, Mapping):
        return Parallelism()
    return Parallelism(
        tuple(_read_parallel_degrees(ACCELERATE, block, f" of `parallelism_config` in {name}"))
    )


def _degrees_of_program(job: HasArguments, data: Mapping[str, Json]) -> Iterator[ParallelDegree]:
    location = _job_location_suffix(job)
    rows = _DEGREE_ARGUMENTS.get(job.format.name)
    if rows is None and any(name in data for row in MEGATRON[:3] for name in row.names):
        rows = MEGATRON  # a fork or custom program with Megatron's arguments
    if rows is not None:
        yield from _read_parallel_degrees(rows, data, location, flags=job.arguments is not None)
        if job.format.builds == "neox" and "pipe_parallel_size" not in data:
            yield ParallelDegree(
                "pipeline", None, "`pipe_parallel_size` in another file that GPT-NeoX merges", True
            )
    elif job.arguments is not None and not job.format.builds:
        for name, value in data.items():
            if match := _TYPICAL_DEGREE.fullmatch(name):
                kind_word = match["kind"] or match["short"] or "sequence"
                row = ParallelDegreeArgument((name,), _KINDS.get(kind_word, kind_word), None)
                yield from _read_parallel_degrees((row,), {name: value}, location, flags=True)


def _accelerate_degrees(job: HasArguments, data: Mapping[str, Json]) -> Iterator[ParallelDegree]:
    """Yield the degrees of parallelism set by `accelerate launch` flags or the argument `parallelism_config`."""
    rows = [row._replace(names=row.names[:1]) for row in ACCELERATE]
    yield from _read_parallel_degrees(rows, data, _job_location_suffix(job), flags=job.arguments is not None)
    if isinstance(block := data.get("parallelism_config"), Mapping) and BLOCK not in data:
        yield from _read_parallel_degrees(
            ACCELERATE, block, f" of `parallelism_config`{_job_location_suffix(job)}"
        )


def _read_parallel_degrees(
    rows: Iterator[ParallelDegreeArgument]
    | list[ParallelDegreeArgument]
    | tuple[ParallelDegreeArgument, ...],
    data: Mapping[str, Json],
    location: str,
    *,
    flags: bool = False,
) -> Iterator[ParallelDegree]:
    for row in rows:
        name = next((name for name in row.names if name in data), None)
        if name is not None and data[name] is not False and (flags or data[name] is not None):
            label = f"`--{name.replace('_', '-')}`" if flags else f"`{name}`"
            yield ParallelDegree(
                row.kind, _positive_degree(data[name]), f"{label}{location}", row.divides, row.is_capped
            )


def _positive_degree(value: Json) -> int | None:
    """Return a degree of parallelism of at least 1, or None if it is known only at run time."""
    number = parse_argument_text(value)
    return max(1, number) if type(number) is int else None


def _job_location_suffix(job: HasArguments) -> str:
    name = job.launch.name
    name = name if name.startswith("<") else relative_path(name)
    return f" in {name}" if job.line is None else f" in {name}:{job.line}"


# Pipeline stages that a program builds
# --------------------------------------------------------------------------------------------------

_PIPELINE_MODULE = re.compile(r"\bPipelineModule\(|\bclass\s+\w+\([^()]*\bPipelineModule\b")
_NUM_STAGES = re.compile(
    r"\bnum_stages\s*=\s*(?:(?P<number>\d{1,6})|(?:\w+\.)*(?P<name>[A-Za-z_]\w*))\s*[,)]"
)
_ARGUMENT = r"add_argument\((?P<flags>(?:(?![\"']--{0}[\"'])[^()])*[\"']--{0}[\"'][^()]*)\)"
_DEFAULT = re.compile(r"\bdefault\s*=\s*(\d{1,6})\b")
_MAX_PROGRAM = 1 << 20


def _add_pipeline_degree(
    job: HasArguments, data: Mapping[str, Json], degrees: list[ParallelDegree]
) -> list[ParallelDegree]:
    """Add the pipeline degree if the job's program builds a `PipelineModule`.

    A pipelined model has its own process grid, from which DeepSpeed takes the data-parallel size
    (deepspeed/__init__.py:initialize, runtime/pipe/engine.py:PipelineEngine).
    """
    text = _read_program_source(job)
    if not _PIPELINE_MODULE.search(text) or any(each.kind == "pipeline" and each.divides for each in degrees):
        return degrees
    stages, name = _pipeline_stages(text, data)
    others = [each for each in degrees if each.divides is not None or each.kind != "pipeline"]
    source_of_size = next((each.source for each in degrees if each.kind == "pipeline"), "")
    source = source_of_size or f"`{name or 'num_stages'}` of `PipelineModule` in {job.program_file}"
    return [*others, ParallelDegree("pipeline", stages, source)]


def _read_program_source(job: HasArguments) -> str:
    place = resolve_written_path(job.program_file, job.launch.name, job.folder)
    if place.path is None:
        return ""
    try:
        return read_contents(place.path, _MAX_PROGRAM).decode("utf-8", "replace")
    except OSError:
        return ""


def _pipeline_stages(text: str, data: Mapping[str, Json]) -> tuple[int | None, str]:
    """Return the number of pipeline stages (None if known only at run time) and the argument that sets it."""
    matches = list(_NUM_STAGES.finditer(text))
    if len({match[0] for match in matches}) != 1:
        return None, ""
    if matches[0]["number"]:
        return int(matches[0]["number"]), ""
    name = matches[0]["name"]
    if name in data:
        return _positive_degree(data[name]), name
    flag = name.replace("_", "[-_]")
    declaration = re.search(_ARGUMENT.format(flag), text)
    if declaration is None or re.search(
        r"[\"']-\w+[\"']", declaration["flags"]
    ):  # a short flag is not parsed here
        return None, name
    default = _DEFAULT.search(declaration["flags"])
    return (max(1, int(default[1])) if default else None), name


# In order: Transformers, TRL and LLaMA-Factory; Axolotl; ArcticTraining; older ms-swift; ms-swift.
MODEL_KEYS = ("model_name_or_path", "base_model", "model.name_or_path", "model_id_or_path", "model")
"""Keys that name the model, by precedence."""

LORA_TARGET_KEYS = ("lora_target", "lora_target_modules", "target_modules")
"""Keys that list the modules with LoRA adapters, given as several words on a command line."""
_ADAPTER_SWITCHES = ("use_peft", "use_lora", "lora_enable")
"""Boolean switches for adapters in programs without a tuning type: TRL, FastChat, LLaVA and their forks."""
_TUNING_KEYS = ("finetuning_type", "tuner_type", "train_type", "adapter")
ADAPTER_PROGRAMS = ("LLaMA-Factory", "ms-swift")
"""Programs that train LoRA adapters and checkpoint activations by default.

Sources: LLaMA-Factory hparams/finetuning_args.py and model_args.py; ms-swift arguments/sft_args.py.
"""


def tuning_type(data: Mapping[str, Json], program: str) -> str:
    """Return the tuning method, such as `full` or `lora`, under the program's own name for it."""
    explicit = next((value for key in _TUNING_KEYS if isinstance(value := data.get(key), str)), None)
    has_adapters = program in ADAPTER_PROGRAMS or any(
        parse_argument_text(data.get(key)) is True for key in _ADAPTER_SWITCHES
    )
    rank = parse_argument_text(data.get("use_llm_lora"))  # InternVL; 0: no adapters
    has_adapters = has_adapters or (type(rank) is int and rank > 0)
    return explicit or ("lora" if has_adapters else "full")


def trains_adapters(data: Json, program: str) -> bool:
    """Return whether a job trains adapters, which leaves most of the model's weights frozen."""
    return isinstance(data, Mapping) and tuning_type(data, program) != "full"


def model_name_in_launch_file(data: Json) -> str | None:
    """Return the model that a launch file or the flags of a command name, or None."""
    if not isinstance(data, Mapping):
        return None
    return next(
        (name for key in MODEL_KEYS if isinstance(name := value_at_dotted_path(data, key), str) and name),
        None,
    )


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_name(name: str) -> bool:
    """Return whether a name has the form of a Hugging Face Hub model: `owner/model`."""
    return _HUB_NAME.fullmatch(name) is not None


def find_model_on_disk(name: str, launch: str) -> str | None:
    """Find a model next to the launch file or in the Hugging Face cache; return None if it is not on disk."""
    if is_model_outside_repository(name, launch):
        return None
    if find_config_json(name):
        return name
    return resolve_written_path(f"{name}/{CONFIG_NAME}", launch).path
