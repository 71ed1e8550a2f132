"""Checks with which programs around DeepSpeed reject combinations of training arguments and config keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.core.json_types import Json, NamedTuple, value_at_dotted_path
from dsconfig.document import Document
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import build_plugin_config, is_launch_file
from dsconfig.job.consumers.consumer import BY_NAME
from dsconfig.job.consumers.consumer_versions import version_includes_change, version_tuple
from dsconfig.launch.launch_file_formats import SCRIPT
from dsconfig.launch.requirements import pinned_consumer_version

if TYPE_CHECKING:
    from dsconfig.launch.launched_job import LaunchedJob

# One row per check of a program that rejects a combination of arguments and config. Mistakes in the config
# alone are found by the rules.


class FrameworkCheck(NamedTuple):
    """A check with which a program rejects a combination of training arguments and config keys.

    Signs: `key` is on, `!key` is off, `key=a|b` has one of these values, `key~a` contains it.

    A sign with the prefix `config:` refers to the config, any other sign to the launch file.
    """

    key: str
    """The rejected key; the first sign's key is reported if the rejected one is not in the file."""
    signs: tuple[str, ...]
    condition: str
    """Condition in words, such as `with DeepSpeed`."""
    source: str
    help: str = "remove it"
    holds: Callable[[Mapping[str, Json]], bool] | None = None
    """Condition on the launch file that no sign can express."""
    of_config: Callable[[Document], bool] | None = None
    """Condition on the config that no sign can express."""
    value: Json = None
    """Value of the key, if the launch file itself does not set it."""
    program: str = ""
    """Program that rejects the key, if it is not the consumer."""
    changes: tuple[str, ...] = ()
    """Changes in `consumer_versions.CHANGES` that a version must include or, with the prefix `!`, must not include."""


class FailedFrameworkCheck(NamedTuple):
    """A check that rejects a job, with the path and value of the offending key."""

    check: FrameworkCheck
    path: tuple[str, ...]
    value: Json
    program: str


def failed_framework_checks(job: LaunchedJob, version: str | None = None) -> Iterator[FailedFrameworkCheck]:
    """Yield the checks that a job fails in a version of its consumer; None is the newest version."""
    arguments = job.launch.value() if job.arguments is None else job.arguments
    if not isinstance(arguments, Mapping):
        return
    base = (
        tuple(job.format.arguments_key.split("."))
        if job.format.arguments_key and job.arguments is None
        else ()
    )
    arguments_object = value_at_dotted_path(arguments, ".".join(base)) if base else arguments
    training_arguments = job.training_arguments.arguments if job.training_arguments else {}
    derived = {name: training_arguments[name] for name in ("bf16", "fp16") if name in training_arguments}
    launch = {**arguments_object, **derived} if isinstance(arguments_object, Mapping) else derived
    rows = (*PROGRAM_CHECKS.get(job.format.name, ()), *_encoded_config_checks(job))
    if job.format.reader == "transformers" and job.training_arguments is not None:
        rows += (*TRAINER_CHECKS, *_numeric_argument_checks(job), *_generation_checks(job))
    rows = tuple(row for row in rows if _version_has_check(row, job.format.reader, version))
    reported: set[str] = set()
    for row in rows:
        if row.key not in reported and _check_fails(row, launch, job.document):
            keys = (row.key, *(sign.partition("=")[0].lstrip("!") for sign in row.signs))
            key = next(
                (key for key in keys if value_at_dotted_path(arguments, ".".join((*base, key))) is not None),
                None if row.value is None else row.key,
            )
            if key is not None:
                reported.add(row.key)
                place = (*base, *key.split("."))
                script = job.format.name == SCRIPT.name
                program = row.program or (job.format.reader.capitalize() if script else job.format.name)
                written = value_at_dotted_path(arguments, ".".join(place))
                yield FailedFrameworkCheck(row, place, row.value if written is None else written, program)


def _version_has_check(row: FrameworkCheck, reader: str, version: str | None) -> bool:
    """Return whether a version of the consumer performs the check."""
    return all(
        version_includes_change(word.lstrip("!"), reader, version) != word.startswith("!")
        for word in row.changes
    )


def _encoded_config_checks(job: LaunchedJob) -> Iterator[FrameworkCheck]:
    """Yield a check for configs passed as text instead of a path, which old versions reject."""
    if job.encoding is not None and job.format.reader in HUGGING_FACE:
        key, changes = job.key.lstrip("-"), (f"!{job.encoding}",)
        condition = {"json_text": "as JSON text", "base64": "as base64"}[job.encoding]
        yield FrameworkCheck(key, (), condition, "the reader's own loader", "write a path", changes=changes)


def _numeric_argument_checks(job: LaunchedJob) -> Iterator[FrameworkCheck]:
    """Yield checks that reject strings and zero batch sizes among the arguments with which the Trainer computes."""
    own_names = {trainer_name: name for name, trainer_name in job.format.arguments.items()}
    is_yaml_of_arguments = job.format.name == "Transformers" and _is_parsed_without_conversion(job.launch)
    for name, default in BY_NAME["transformers"].defaults.items():
        value = job.training_arguments.arguments.get(name) if job.training_arguments else None
        if isinstance(default, bool) or not isinstance(default, int | float) or value is None:
            continue
        is_count = name in _SAMPLE_COUNTS
        data = job.launch.value() if is_yaml_of_arguments else None
        written = data.get(own_names.get(name, name)) if isinstance(data, Mapping) else None
        if isinstance(written, str) and _EXPONENT_WITHOUT_POINT.fullmatch(written):
            yield FrameworkCheck(
                own_names.get(name, name),
                (),
                "because YAML reads a number without a decimal point as text here",
                "transformers hf_argparser.py:HfArgumentParser.parse_yaml_file",
                f"write {written.lower().replace('e', '.0e')}",
            )
        elif isinstance(value, str) and not _PLACEHOLDER.search(value):
            yield FrameworkCheck(
                own_names.get(name, name), (), "because it expects a number", _ARGUMENTS, "write a number"
            )
        elif is_count and isinstance(value, int | float) and value < 1:
            yield FrameworkCheck(
                own_names.get(name, name),
                (),
                "because it is a number of samples",
                _ARGUMENTS,
                "write 1 or more",
            )


def _generation_checks(job: LaunchedJob) -> Iterator[FrameworkCheck]:
    """Yield a check for a batch of TRL that does not contain whole groups of generations.

    Source: trl trainer/grpo_config.py:GRPOConfig.__post_init__; up to 0.16, trainer/grpo_trainer.py:GRPOTrainer.
    """
    given = job.training_arguments
    # Only TRL's own classes have this default.
    if given is None or "num_generations" not in given.arguments or job.world_size is None:
        return
    explicit = given.explicit
    arguments = {**given.arguments_at_world_size(job.world_size).arguments, **explicit}
    names = ["per_device_train_batch_size"]
    pinned = pinned_consumer_version("trl", job.launch.name)
    version = version_tuple(pinned[0]) if pinned else None
    if version is not None and version < version_tuple("0.15"):
        return
    if version is None or version >= version_tuple("0.17"):
        names.append("steps_per_generation" if "steps_per_generation" in explicit else _ACCUMULATION)
    values = [arguments.get(name, 1 if name == _ACCUMULATION else None) for name in names]
    generations = arguments["num_generations"]
    if "generation_batch_size" in explicit or not all(type(each) is int for each in (*values, generations)):
        return
    total = job.world_size
    for value in values:
        total *= value if isinstance(value, int) else 1
    if not isinstance(generations, int) or generations < 1 or total < 1 or total % generations == 0:
        return
    factors = " x ".join(map(str, (job.world_size, *values)))
    fitting = [str(each) for each in range(2, min(total, _MOST_GENERATIONS) + 1) if total % each == 0]
    yield FrameworkCheck(
        "num_generations",
        (),
        f"because it does not divide the batch of {factors} = {total} samples"
        f" (processes x {' x '.join(f'`{name}`' for name in names)})",
        "trl 1.16 trainer/grpo_config.py:GRPOConfig.__post_init__",
        (f"use {' or '.join(fitting[-3:])}, or change" if fitting else "change")
        + " the number of processes or the batch",
        value=generations,
        program="TRL",
    )


_ACCUMULATION = "gradient_accumulation_steps"
_MOST_GENERATIONS = 64

_EXPONENT_WITHOUT_POINT = re.compile(r"[1-9]\d*[eE]-\d+")
"""Pattern of numbers that YAML 1.1, and so PyYAML, reads as strings: `2e-5`, but not `2.0e-5`."""


def _is_parsed_without_conversion(launch: Document) -> bool:
    """Return whether the programs near a YAML file use `parse_yaml_file`, which leaves numbers in quotes as strings.

    TRL's parser and OmegaConf convert strings that contain numbers.
    """
    if launch.format != "yaml" or launch.is_data:
        return False
    from dsconfig.launch.config_references import deepspeed_program_texts

    texts = list(deepspeed_program_texts(launch.name))
    converts = any(
        word in text for text in texts for word in (b"TrlParser", b"OmegaConf", b"parse_args_and_config")
    )
    return not converts and any(b"parse_yaml_file" in text for text in texts)


_SAMPLE_COUNTS = ("per_device_train_batch_size", "gradient_accumulation_steps")
_PLACEHOLDER = re.compile(r"[${?<]")
"""Pattern of placeholders that another program replaces later."""
_ARGUMENTS = "transformers 5.24 training_args.py:TrainingArguments.__post_init__"


def _check_fails(row: FrameworkCheck, launch: Mapping[str, Json], config: Document | None) -> bool:
    data = None if config is None else config.value()
    if is_launch_file(data) and isinstance(data, Mapping):  # Accelerate builds the config from its block
        data = build_plugin_config(data)
    return (
        all(_check_sign_holds(sign, launch, data) for sign in row.signs)
        and (row.holds is None or row.holds(launch))
        and (row.of_config is None or (config is not None and row.of_config(config)))
    )


def _check_sign_holds(sign: str, launch: Mapping[str, Json], config: Json) -> bool:
    if sign.startswith("config:"):
        return isinstance(config, Mapping) and _check_sign_holds(sign.removeprefix("config:"), config, None)
    if sign.startswith("!"):
        return not _check_sign_holds(sign[1:], launch, config)
    key, equals, values = sign.partition("=")
    if equals:
        return str(value_at_dotted_path(launch, key)) in values.split("|")
    key, tilde, word = sign.partition("~")
    from dsconfig.launch.training_arguments import parse_argument_text

    value = parse_argument_text(value_at_dotted_path(launch, key))
    if isinstance(value, str) and _PLACEHOLDER.search(value):
        return False
    return word in str(value) if tilde else bool(value) and value != "no"


def _has_several_devices(launch: Mapping[str, Json]) -> bool:
    """Return whether environment variables in a launch file give each process of a job more than one GPU."""
    visible, count = (
        value_at_dotted_path(launch, "ENV.CUDA_VISIBLE_DEVICES"),
        str(value_at_dotted_path(launch, "ENV.NPROC_PER_NODE")),
    )
    if visible is None or "$" in str(visible) or not count.isdecimal() or int(count) < 1:
        return False
    # swift utils/env.py:is_mp, by which ms-swift spreads the model over GPUs with `device_map`.
    return len(str(visible).split(",")) // int(count) > 1


def _lacks_zero_section(config: Document) -> bool:
    """Return whether a config has no `zero_optimization` section."""
    data = config.value()
    return isinstance(data, Mapping) and "zero_optimization" not in data


def _is_config_known(_: Document) -> bool:
    """Return True: the check applies to every known config."""
    return True


def _is_not_strict_json(config: Document) -> bool:
    """Return whether a config file is not strict JSON, so that `json.load` fails or returns other values than Hjson."""
    is_built = config.is_data or config.embedded_at is not None or ": " in config.name
    return not is_built and not config.is_readable("json")


def _uses_tensor_parallelism(launch: Mapping[str, Json]) -> bool:
    """Return whether the launch file uses tensor parallelism."""
    size = launch.get("tensor_parallel_size")
    return isinstance(size, int) and size > 1


def _strict_json_check(key: str, source: str) -> FrameworkCheck:
    """Return the check for a program that loads the config with `json.load` and passes DeepSpeed a dict."""
    return FrameworkCheck(
        key,
        (key,),
        "because it is not strict JSON",
        source,
        "write strict JSON",
        of_config=_is_not_strict_json,
    )


_STAGE_3, _NOT_STAGE_3 = "config:zero_optimization.stage=3", "!config:zero_optimization.stage=3"
_USE_STAGE_2 = "remove it, or use ZeRO stage 2"
_FACTORY = "llamafactory 0.9.5 hparams/parser.py:get_train_args"
_QUANTIZATION = "llamafactory 0.9.5 model/model_utils/quantization.py:configure_quantization"
_AXOLOTL = "axolotl 0.19 utils/schemas/validation.py:"
_SWIFT = "ms-swift 4.6 arguments/sft_args.py:SftArguments."
_TRAINER = "transformers 5.24 trainer.py:Trainer."
_MOVE_TO_FILE = "put the config into a file of its own"
_WITH_DEEPSPEED = "together with DeepSpeed"
PROGRAM_CHECKS: Mapping[str, tuple[FrameworkCheck, ...]] = {
    "LLaMA-Factory": (
        *(
            FrameworkCheck(key, (key, _STAGE_3), "with ZeRO-3", _FACTORY, _USE_STAGE_2)
            for key in ("pure_bf16", "predict_with_generate", "pissa_init", "use_unsloth", "use_kt")
        ),
        *(FrameworkCheck(key, (key,), _WITH_DEEPSPEED, _FACTORY) for key in ("use_galore", "use_apollo")),
        *(
            FrameworkCheck(
                "quantization_method",
                ("quantization_bit", f"quantization_method={method}", _STAGE_3),
                "with ZeRO-3",
                _QUANTIZATION,
                "use bitsandbytes with 4 bits, or ZeRO stage 2",
            )
            for method in ("hqq", "eetq")
        ),
        FrameworkCheck(
            "quantization_bit",
            ("quantization_bit=8", "!quantization_method=hqq|eetq", _STAGE_3),
            "with ZeRO-3",
            _QUANTIZATION,
            "use 4 bits, or ZeRO stage 2",
        ),
        *(
            # The engine of the reference model starts before the Trainer fills these: trl models/utils.py.
            FrameworkCheck(
                "stage",
                (
                    f"stage={stage}",
                    "finetuning_type=full",
                    "!pref_loss=orpo|simpo",
                    "config:optimizer",
                    f"config:scheduler.params.{key}=auto",
                ),
                f'with `scheduler.params.{key}` on "auto", which it passes to DeepSpeed for the reference model',
                "trl 0.24 models/utils.py:prepare_deepspeed",
                "remove `scheduler` from the config, or write the number of steps",
            )
            for stage in ("dpo", "kto")
            for key in ("warmup_num_steps", "total_num_steps")
        ),
        FrameworkCheck(
            "badam_mode", ("use_badam", "badam_mode=ratio"), _WITH_DEEPSPEED, _FACTORY, 'write "layer"'
        ),
        FrameworkCheck(
            # Layer-wise BAdam supports only ZeRO-3.
            "use_badam",
            ("use_badam", _NOT_STAGE_3),
            "without ZeRO-3",
            _FACTORY,
            of_config=_is_config_known,
        ),
    ),
    "Axolotl": (
        FrameworkCheck(
            "optimizer", ("optimizer=muon",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_muon_deepspeed_fsdp"
        ),
        FrameworkCheck("optimizer", ("optimizer=polora",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_polora"),
        FrameworkCheck(
            "optimizer", ("optimizer=q_galore_adamw8bit",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_qgalore"
        ),
        FrameworkCheck(
            "optimizer", ("optimizer~flash_",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_flashoptim_deepspeed_fsdp"
        ),
        FrameworkCheck("fsdp", ("fsdp",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_fsdp_deepspeed"),
        FrameworkCheck("relora", ("relora",), _WITH_DEEPSPEED, f"{_AXOLOTL}check_relora"),
        FrameworkCheck(
            "batch_size",
            ("batch_size", "gradient_accumulation_steps"),
            "together with `gradient_accumulation_steps`",
            f"{_AXOLOTL}check_gas_bsz",
        ),
        FrameworkCheck(
            "batch_size",
            ("batch_size", "!micro_batch_size", "!gradient_accumulation_steps"),
            "without `micro_batch_size`",
            f"{_AXOLOTL}check_batch_size_fields",
            "add `micro_batch_size`",
        ),
        FrameworkCheck(
            "tensor_parallel_size",
            (),
            "without a section `zero_optimization`",
            f"{_AXOLOTL}check_tensor_parallel_size_update_ds_json",
            "add the section to the config",
            _uses_tensor_parallelism,
            _lacks_zero_section,
        ),
        FrameworkCheck(
            "tensor_parallel_size",
            (),
            "together with an embedded config",
            f"{_AXOLOTL}check_tensor_parallel_size_update_ds_json",
            _MOVE_TO_FILE,
            # The validator calls `open(deepspeed)`, which raises a TypeError for a mapping.
            lambda launch: _uses_tensor_parallelism(launch) and isinstance(launch.get("deepspeed"), Mapping),
        ),
        FrameworkCheck(
            "deepcompile",
            ("deepcompile",),
            "together with an embedded config",
            f"{_AXOLOTL}check_deepcompile",
            _MOVE_TO_FILE,
            # This validator opens the path, too.
            lambda launch: isinstance(launch.get("deepspeed"), Mapping),
        ),
    ),
    "Determined": (
        _strict_json_check(
            "hyperparameters.deepspeed_config", "_deepspeed_context.py:overwrite_deepspeed_config"
        ),
    ),
    "Megatron-DeepSpeed": (
        _strict_json_check("deepspeed_config", "megatron/training.py:_create_ds_config_dict"),
    ),
    "ms-swift": (
        FrameworkCheck("fsdp", ("fsdp",), _WITH_DEEPSPEED, f"{_SWIFT}_init_fsdp"),
        FrameworkCheck(
            "zero_hpz_partition_size",
            # An `assert` without a message, so the user does not see which key is missing.
            ("zero_hpz_partition_size",),
            "without a section `zero_optimization`",
            f"{_SWIFT}_init_deepspeed",
            of_config=_lacks_zero_section,
        ),
        FrameworkCheck(
            "ENV.NPROC_PER_NODE",
            ("!ENV.SWIFT_SINGLE_DEVICE_MODE=1",),
            "if a process has several GPUs",
            f"{_SWIFT}_init_deepspeed",
            "write as many processes as `CUDA_VISIBLE_DEVICES` has GPUs",
            _has_several_devices,
        ),
    ),
}
"""Checks of each program, by its name in the table of formats."""
TRAINER_CHECKS = (
    FrameworkCheck(
        "bf16",
        ("bf16", "fp16"),
        "together with `fp16`",
        "transformers 5.24 training_args.py:TrainingArguments._validate_args",
    ),
    FrameworkCheck("fsdp", ("fsdp",), _WITH_DEEPSPEED, f"{_TRAINER}__init__"),
    FrameworkCheck(
        "auto_find_batch_size",
        ("auto_find_batch_size",),
        _WITH_DEEPSPEED,
        f"{_TRAINER}create_accelerator_and_postprocess",
        # 4.38 to 4.44 reject it with any ZeRO stage, later versions with stage 3 only.
        changes=("find_batch_stops", "!find_batch_below_3"),
    ),
    FrameworkCheck(
        "auto_find_batch_size",
        ("auto_find_batch_size", _STAGE_3),
        "with ZeRO-3",
        f"{_TRAINER}create_accelerator_and_postprocess",
        _USE_STAGE_2,
        changes=("find_batch_stops",),
    ),
    FrameworkCheck(
        "warmup_steps",
        (),
        "because it is a number of steps before version 5.0",
        f"{_ARGUMENTS.rpartition('.')[0]}._validate_args",
        "write a whole number, or `warmup_ratio`",
        lambda launch: isinstance(launch.get("warmup_steps"), float),
        changes=("!warm_up_share",),
    ),
    FrameworkCheck(
        "save_only_model",
        ("save_only_model", "load_best_model_at_end"),
        "together with DeepSpeed and `load_best_model_at_end`",
        f"{_TRAINER}create_accelerator_and_postprocess",
        changes=("save_whole",),
    ),
)
"""Checks of every program that uses the Trainer."""
