"""Table of launch file formats: how to recognize each, where its config is, and which arguments fill in values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from dsconfig.core.json_types import Json, NamedTuple, value_at_dotted_path
from dsconfig.document.config_file_names import SCRIPTS

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal

# Columns of the table.
_NONE: Mapping[str, Json] = MappingProxyType({})


class ConfigWriteRule(NamedTuple):
    """A launch-file key for which the program writes a value to the config."""

    key: str
    place: str
    """Dotted path of the key that the program writes into the config."""
    value: Json = None
    """Value that is written, or None to write the value of the launch file's key."""
    unless: str = ""
    """Dotted path that prevents the write if the config has it."""
    minimum: int | None = None
    """Write only if the value is a number larger than this one; None allows any value."""
    only: str = ""
    """Write only if the value is or contains this word."""
    stage: int | None = None
    """Write only into a config with this ZeRO stage."""


class LaunchFileFormat(NamedTuple):
    """A launch file format: how to recognize it, and where it names or contains its config.

    A sign is a dotted key. `key=a|b` requires one of these values, `key~word` a value that contains the word, and
    `a.*.key` a mapping with this key inside the mapping or list `a`; `*.key` allows any root key in place of `a`.
    """

    name: str
    reader: str
    signs: tuple[tuple[str, ...], ...]
    """Alternative groups of signs; a file has the format if it matches all signs of one group."""
    config: tuple[str, ...]
    """Keys that hold the config: its path, a preset's name, or the config itself. The first that is set wins.
    """
    source: str
    preset: str = ""
    """Path of a preset in the installed packages, with `{}` for its name."""
    arguments: Mapping[str, str] = MappingProxyType({})
    """Training arguments with another name in this format, mapped to the Trainer's names."""
    defaults: Mapping[str, Json] = _NONE
    """Defaults that differ from the Trainer's; a value of None is unknown before the run."""
    world_size_keys: tuple[str, ...] = ()
    """Keys whose product is the world size."""
    required_keys: tuple[str, ...] = ()
    """Keys that must be set for the world size to be known; other missing keys count as 1."""
    arguments_key: str = ""
    """Dotted key of the object with the training arguments; empty if they are at the root."""
    commands: tuple[str, ...] = ()
    """Keys with shell commands that name the config; `*` stands for all of the file."""
    lists_commands: bool = False
    """Whether a list holds one command per item, rather than the words of one command."""
    environment: tuple[str, ...] = ()
    """Keys with environment variables for the commands in the launch file."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Environment variables that the program sets for commands, each with the key of its value, by precedence.
    """
    writes: tuple[ConfigWriteRule, ...] = ()
    """Writes into the config caused by keys of the launch file."""
    samples_per_step: int | None = None
    """Number of samples per optimizer step; the program chooses the accumulation steps accordingly."""
    programs: tuple[str, ...] = ()
    """Patterns of command words that run the program of this format."""
    scripts: tuple[str, ...] = ()
    """Patterns of script names that other programs use too, so that the flags must match `signs` as well."""
    sets: tuple[tuple[str, str, int], ...] = ()
    """Keys that the program writes into a config without a batch size: config key, launch file key, default."""
    replaces_batch: bool = False
    """Whether the program writes `sets` into every config and replaces the batch size there."""
    overwrites: str = ""
    """Key of a mapping whose values override those of the config."""
    number_format: Literal["yaml", "omegaconf", "human"] = "yaml"
    """Syntax of numbers in an embedded config: `omegaconf` adds `1e-5` to that of YAML, `human` adds `500m` and `2^20`.
    """
    builds: str = ""
    """Name of the function that builds the config if none is named; see `config_synthesis` and `jobs_of_script`."""
    built_from: str = ""
    """Key that messages name if the config is built."""
    fork: tuple[str, str] | None = None
    """The fork of DeepSpeed that this program installs, and the newest release on which it is based."""


# One row per format. Accelerate's own launch file has a module of its own:
# `dsconfig.job.consumers.accelerate_launch_file`.
_GATHER = "zero_optimization.gather_16bit_weights_on_model_save"
_GITLAB_KEYS = ("stages", "image", "variables", "default", "before_script", "include", "workflow", "cache")
DEBUGGER = "Visual Studio Code"
_STAGES = "stage=pt|sft|rm|ppo|dpo|kto"
FORMATS: tuple[LaunchFileFormat, ...] = (
    LaunchFileFormat(
        "LLaMA-Factory",
        "transformers",
        signs=((_STAGES, "model_name_or_path"), (_STAGES, "finetuning_type"), (_STAGES, "dataset")),
        config=("deepspeed",),
        source="LLaMA-Factory hparams/parser.py:read_args",
        number_format="omegaconf",
        programs=("llamafactory-cli", "llamafactory", "*train_bash.py"),
        scripts=("*train.py",),  # src/train.py, which came after src/train_bash.py
    ),
    LaunchFileFormat(
        "LLaMA-Factory v1",
        "accelerate",
        signs=(("dist_config.name=deepspeed",),),
        config=("dist_config.config_file",),
        source="LLaMA-Factory v1/plugins/model_plugins/deepspeed_utils.py",
    ),
    LaunchFileFormat(
        "Axolotl",
        "transformers",
        signs=(
            ("base_model", "datasets"),
            ("base_model", "micro_batch_size"),
            ("base_model", "sequence_len"),
        ),
        config=("deepspeed",),
        source="axolotl utils/config/__init__.py, core/builders/causal.py",
        arguments={
            "micro_batch_size": "per_device_train_batch_size",
            "lr_scheduler": "lr_scheduler_type",
            "optimizer": "optim",
        },
        programs=("axolotl", "axolotl.cli.*"),
        defaults={
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "warmup_steps": None,
        },
        writes=(
            ConfigWriteRule(
                "tensor_parallel_size", "tensor_parallel.autotp_size", None, "tensor_parallel", 1
            ),
            ConfigWriteRule("tensor_parallel_size", _GATHER, True, _GATHER, 1),
            ConfigWriteRule("deepcompile", "compile.deepcompile", True, "compile", 0),
        ),
    ),
    LaunchFileFormat(
        "TRL",
        "transformers",
        signs=(("accelerate_config", "dataset_name"), ("accelerate_config", "model_name_or_path")),
        config=("deepspeed", "accelerate_config"),
        source="trl cli/accelerate_config.py:resolve_accelerate_config_argument",
        preset="trl/accelerate_configs/{}.yaml",
        programs=("trl",),
        defaults={"bf16": None, "learning_rate": None},
        world_size_keys=("num_processes",),
    ),
    LaunchFileFormat(
        "ms-swift",
        "transformers",
        signs=(("model", "dataset", "deepspeed"), ("model", "tuner_type"), ("model", "train_type")),
        config=("deepspeed",),
        source="ms-swift arguments/sft_args.py:SftArguments._init_deepspeed",
        preset="swift/config/{}.json",
        arguments={
            "batch_size": "per_device_train_batch_size"
        },  # ms-swift 1 and 2: swift/llm/utils/argument.py
        writes=(
            ConfigWriteRule("zero_hpz_partition_size", "zero_optimization.zero_hpz_partition_size"),
            ConfigWriteRule("deepspeed_autotp_size", "tensor_parallel.autotp_size"),
            ConfigWriteRule("deepspeed_autotp_size", _GATHER, True),
            # trainers/utils.py:prepare_deepspeed_elastic_config
            ConfigWriteRule("callbacks", "checkpoint.load_universal", True, only="deepspeed_elastic"),
            # rlhf_trainers/arguments.py:GRPOConfig.__post_init__
            ConfigWriteRule(
                "rlhf_type", "zero_optimization.stage3_prefetch_bucket_size", 0, only="grpo", stage=3
            ),
        ),
        # trainers/arguments.py: ceil(16 / micro batch / world size) accumulation steps if none are given.
        samples_per_step=16,
        programs=("swift", "*swift/cli/*.py", "swift.cli.*"),
        world_size_keys=("ENV.NPROC_PER_NODE", "ENV.NNODES"),
        defaults={
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": None,
            "learning_rate": None,
            "weight_decay": 0.1,
            "adam_beta2": 0.95,
            "bf16": None,
            "fp16": None,
        },
    ),
    LaunchFileFormat(
        "Determined",
        "transformers",
        signs=(("hyperparameters.training_args.deepspeed", "entrypoint"),),
        config=("hyperparameters.training_args.deepspeed",),
        source="determined examples/hf_trainer_api",
        world_size_keys=("resources.slots_per_trial",),
        arguments_key="hyperparameters.training_args",
    ),
    LaunchFileFormat(
        "Determined",
        "transformers",
        signs=(("hyperparameters.deepspeed_config", "entrypoint~--deepspeed "),),
        config=("hyperparameters.deepspeed_config",),
        source="determined examples/hf_trainer_api/hf_language_modeling/deepspeed.yaml",
        world_size_keys=("resources.slots_per_trial",),
        arguments_key="hyperparameters.training_args",
    ),
    LaunchFileFormat(
        "Determined",
        "deepspeed",
        signs=(
            ("hyperparameters.deepspeed_config", "entrypoint"),
            ("hyperparameters.deepspeed_config", "searcher"),
        ),
        config=("hyperparameters.deepspeed_config",),
        source="determined pytorch/deepspeed/_deepspeed_context.py:overwrite_deepspeed_config",
        world_size_keys=("resources.slots_per_trial",),
        overwrites="hyperparameters.overwrite_deepspeed_args",
    ),
    LaunchFileFormat(
        "ArcticTraining",
        "deepspeed",
        signs=(("type", "model.name_or_path", "deepspeed"),),
        config=("deepspeed",),
        source="arctic_training config/trainer.py:TrainerConfig.build_deepspeed_config",
        sets=(
            ("train_micro_batch_size_per_gpu", "micro_batch_size", 1),
            ("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
        ),
        replaces_batch=True,
        number_format="human",
    ),
    LaunchFileFormat(
        "Lightning",
        "lightning",
        signs=(("trainer.strategy.class_path~DeepSpeedStrategy",), ("trainer.strategy~deepspeed",)),
        # Without the key, the variable PL_DEEPSPEED_CONFIG_PATH may name a config (DEEPSPEED_ENV_VAR).
        config=("trainer.strategy.init_args.config",),
        source="lightning pytorch/strategies/deepspeed.py:DeepSpeedStrategy._load_config",
        world_size_keys=("trainer.devices", "trainer.num_nodes"),
        builds="lightning",
        built_from="trainer.strategy",
    ),
    LaunchFileFormat(
        "Ludwig",
        "accelerate",
        signs=(("strategy.type=accelerate|deepspeed", "strategy.deepspeed_config"),),
        config=("strategy.deepspeed_config",),
        builds="plugin",  # a mapping there is the arguments of Accelerate's plugin
        source="ludwig distributed/accelerate.py",
    ),
    LaunchFileFormat(
        "Composer",
        "deepspeed",
        signs=(("deepspeed_config", "max_duration"), ("deepspeed_config", "train_loader")),
        config=("deepspeed_config",),
        source="composer v0.27.0 distributed/deepspeed.py:parse_deepspeed_config",
        sets=(("train_micro_batch_size_per_gpu", "device_train_microbatch_size", 1),),
    ),
    LaunchFileFormat(
        "GPT-NeoX",
        "deepspeed",
        signs=(
            ("pipe_parallel_size", "num_layers"),
            ("pipe-parallel-size", "num-layers"),
            # A file of a model that is merged with the file of a cluster.
            ("num_layers", "num_attention_heads", "train_micro_batch_size_per_gpu"),
            ("num-layers", "num-attention-heads", "train_micro_batch_size_per_gpu"),
        ),
        config=(),
        source="gpt-neox megatron/neox_arguments/arguments.py:NeoXArgs.deepspeed_config",
        builds="neox",
        built_from="train_micro_batch_size_per_gpu",
        # gpt-neox requirements/requirements.txt; DeeperSpeed version.txt: 0.3.15, 0.12.4, and 0.16.5 since 2025
        fork=("DeeperSpeed", "0.16.5"),
    ),
    LaunchFileFormat(
        "SkyPilot",
        "deepspeed",
        signs=(("resources.accelerators", "run"),),
        config=(),
        source="skypilot examples/deepspeed-multinode/sky.yaml",
        commands=("run",),
        environment=("envs",),
        variables={
            "SKYPILOT_NUM_NODES": "num_nodes",
            "SKYPILOT_NUM_GPUS_PER_NODE": "resources.accelerators",
        },
    ),
    LaunchFileFormat(
        "Azure ML",
        "deepspeed",
        signs=(("command", "distribution.type"), ("$schema~commandJob", "command")),
        config=(),
        source="azureml-examples cli/jobs/deepspeed/deepspeed-training/job.yml",
        commands=("command",),
        environment=("environment_variables",),
        world_size_keys=("distribution.process_count_per_instance", "resources.instance_count"),
    ),
    LaunchFileFormat(
        "Kubernetes",
        "deepspeed",
        signs=(("kind=TrainJob|PyTorchJob|MPIJob|Job|RayJob|JobSet|Pod", "apiVersion"),),
        config=(),
        source="kubeflow trainer manifests/base/runtimes/deepspeed_distributed.yaml",
        commands=("spec",),
        # kubeflow training-operator pkg/controller.v1/pytorch/envvar.go
        variables={
            "PET_NNODES": "spec.pytorchReplicaSpecs|spec.trainer.numNodes",
            "WORLD_SIZE": "spec.pytorchReplicaSpecs",
            "PET_NPROC_PER_NODE": "spec.nprocPerNode|spec.trainer.numProcPerNode",
        },
        world_size_keys=("spec.trainer.numProcPerNode", "spec.trainer.numNodes"),
        required_keys=("spec.trainer.numNodes",),  # else the runtime's `mlPolicy` says how many
    ),
    LaunchFileFormat(
        "Docker Compose",
        "deepspeed",
        signs=(("services",),),
        config=(),
        source="compose specification, services: command, entrypoint, environment",
        commands=("services",),
    ),
    LaunchFileFormat(
        "GitHub Actions",
        "deepspeed",
        signs=(("jobs", "name"), ("jobs", "permissions"), ("jobs", "env"), ("jobs", "true"), ("jobs", "on")),
        config=(),
        source="workflow syntax for GitHub Actions, jobs.<job_id>.steps[*].run",
        commands=("jobs",),
    ),
    LaunchFileFormat(
        "GitLab CI",
        "deepspeed",
        signs=tuple((key, "*.script") for key in _GITLAB_KEYS),
        config=(),
        source="GitLab CI/CD YAML syntax, script, before_script, after_script",
        commands=("*",),
        lists_commands=True,
        environment=("variables",),
    ),
    LaunchFileFormat(
        "Azure Pipelines",
        "deepspeed",
        signs=(("jobs.*.job",), ("stages.*.jobs",), ("steps.*.script",), ("steps.*.bash",)),
        config=(),
        source="Azure Pipelines YAML schema, steps.script, steps.bash",
        commands=("steps", "jobs", "stages"),
        lists_commands=True,
    ),
    LaunchFileFormat(
        "CircleCI",
        "deepspeed",
        signs=(("version", "jobs.*.steps"),),
        config=(),
        source="CircleCI configuration reference, jobs.<job_name>.steps.run",
        commands=("jobs", "commands"),
        lists_commands=True,
    ),
    LaunchFileFormat(
        "Travis CI",
        "deepspeed",
        signs=(
            ("script", "language"),
            ("script", "dist"),
            ("before_script", "language"),
            ("jobs.include", "language"),
        ),
        config=(),
        source="Travis CI build config reference, script",
        commands=("before_script", "script", "jobs", "matrix"),
        lists_commands=True,
    ),
    LaunchFileFormat(
        DEBUGGER,
        "deepspeed",
        signs=(("version", "configurations.*.request"),),
        config=(),
        source="vscode-python-debugger package.json, contributes.debuggers",
        commands=("configurations",),
    ),
    LaunchFileFormat(
        "Bitbucket Pipelines",
        "deepspeed",
        signs=(("pipelines.default",), ("pipelines.custom",), ("pipelines.branches",)),
        config=(),
        source="Bitbucket Pipelines configuration reference, step.script",
        commands=("pipelines", "definitions"),
        lists_commands=True,
    ),
    LaunchFileFormat(
        "Buildkite",
        "deepspeed",
        signs=(("steps.*.command",), ("steps.*.commands",)),
        config=(),
        source="Buildkite pipeline command step; Drone pipeline steps.commands",
        commands=("steps",),
        lists_commands=True,
        environment=("env", "environment"),
    ),
    LaunchFileFormat(
        "DVC",
        "deepspeed",
        signs=(("stages", "stages.*.cmd"),),
        config=(),
        source="dvc.yaml reference, stages.<name>.cmd",
        commands=("stages",),
        lists_commands=True,
    ),
    LaunchFileFormat(
        "Task",
        "deepspeed",
        signs=(("version", "tasks.*.cmds"), ("version", "tasks.*.cmd")),
        config=(),
        source="Taskfile schema, tasks.<name>.cmds",
        commands=("tasks",),
        lists_commands=True,
        environment=("env",),
    ),
    LaunchFileFormat(
        "Ray",
        "deepspeed",
        signs=(
            ("entrypoint", "runtime_env"),
            ("entrypoint", "compute_config"),
            ("entrypoint", "working_dir"),
        ),
        config=(),
        source="ray dashboard/modules/job/cli.py:submit; anyscale job/models.py:JobConfig",
        commands=("entrypoint",),
        environment=("runtime_env.env_vars",),
    ),
    LaunchFileFormat(
        "OpenRLHF",
        "deepspeed",
        signs=(),
        config=(),
        source="OpenRLHF utils/deepspeed/deepspeed_utils.py:get_train_ds_config",
        programs=("openrlhf.cli.train_*",),
        builds="openrlhf",
    ),
    LaunchFileFormat(
        "xtuner",
        "deepspeed",
        signs=(),
        config=("deepspeed",),
        source="xtuner v0.1.23 tools/train.py:main, configs/deepspeed",
        preset="xtuner/configs/deepspeed/{}.json",
        programs=("xtuner", "*xtuner/tools/train.py"),
    ),
    LaunchFileFormat(
        "Megatron-DeepSpeed",
        "deepspeed",
        signs=(),
        config=("deepspeed_config",),
        source="Megatron-DeepSpeed megatron/training.py:_create_ds_config_dict",
        programs=("*pretrain_gpt*.py", "*pretrain_bert*.py", "*pretrain_t5*.py", "*finetune_llama.py"),
    ),
    LaunchFileFormat(
        "Transformers",
        "transformers",
        signs=(
            ("deepspeed", "output_dir"),
            ("deepspeed", "per_device_train_batch_size"),
            # A path. With a config below the key, these two are arguments of any training loop.
            ("deepspeed~.", "learning_rate", "gradient_accumulation_steps"),
        ),
        config=("deepspeed",),
        source="transformers hf_argparser.py:HfArgumentParser.parse_dict",
    ),
)
"""Formats in matching order, special ones first; the last row matches any file with the Trainer's arguments."""
JUSTFILES = ("justfile", ".justfile")
_SCRIPT_NAMES = (
    r"(?:GNU)?[Mm]akefile|[\w.-]+\.mk|\.?[Jj]ustfile"
    r"|(?:[\w.-]+\.)?(?:Docker|Container)file|(?:Docker|Container)file[\w.-]*"
)
"""Pattern of other files with shell commands, such as makefiles, justfiles and Dockerfiles."""


@lru_cache(maxsize=256)  # each check asks about the same file ten times
def is_shell_script_name(name: str) -> bool:
    """Return whether a file with this name is read as shell commands."""
    return name.endswith(SCRIPTS) or re.fullmatch(_SCRIPT_NAMES, os.path.basename(name)) is not None


SCRIPT = LaunchFileFormat("the shell", "transformers", (), (), "bash", commands=("",))
"""Format of shell scripts, which are recognized by their file name alone."""
PROGRAM_FILE = SCRIPT._replace(name="Python", commands=(), source="")
"""Format of a Python program that passes the path to its config to a consumer; the key of its jobs is the function
that receives the path.
"""


def _root_key_of_sign(sign: str) -> str:
    """Return the top-level key that a sign tests."""
    return sign.replace("=", ".").replace("~", ".").partition(".")[0]


def _formats_by_key() -> dict[str, tuple[int, ...]]:
    """Return the positions of the formats with a sign that begins with a key, by that key."""
    positions: dict[str, list[int]] = {}
    for position, launch_format in enumerate(FORMATS):
        for key in {_root_key_of_sign(signs[0]) for signs in launch_format.signs}:
            positions.setdefault(key, []).append(position)
    return {key: tuple(each) for key, each in positions.items()}


_FORMATS_BY_KEY = _formats_by_key()


def detect_launch_format(data: object) -> LaunchFileFormat | None:
    """Return the format of a launch file, or None if `data` is not a launch file."""
    # A record of a Weights & Biases run has the same keys, but with `{value: ..., desc: ...}` for each.
    if not isinstance(data, Mapping) or "_wandb" in data:
        return None
    # Every check asks several times, and most configs have a root key of few formats or of none.
    positions = {
        position for key in _FORMATS_BY_KEY.keys() & data.keys() for position in _FORMATS_BY_KEY[key]
    }
    launch_format = next(
        (FORMATS[each] for each in sorted(positions) if matches_format(FORMATS[each], data)), None
    )
    return launch_format or _format_of_argument_section(data)


def _format_of_argument_section(data: Mapping[str, Json]) -> LaunchFileFormat | None:
    """Return the format of a file whose only section with the Trainer's arguments names a config, else None.

    Programs with a file of their own pass such a section on: `TrainingArguments(**config.training_args)`.
    """
    values = {key: each for key, each in data.items() if isinstance(each, dict)}
    sections = [key for key, each in values.items() if isinstance(each.get("deepspeed"), str)]
    trainer = FORMATS[-1]
    if len(sections) != 1 or not matches_format(trainer, values[sections[0]]):
        return None
    return trainer._replace(config=(f"{sections[0]}.deepspeed",), arguments_key=sections[0])


def commands_in_file(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> list[Json]:
    """Return the values of a launch file that contain shell commands."""
    return [dict(data) if key == "*" else value_at_dotted_path(data, key) for key in launch_format.commands]


def matches_format(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> bool:
    """Return whether the keys of a file, or the flags of a command, match the signs of a format."""
    return any(all(_matches_sign(data, sign) for sign in signs) for signs in launch_format.signs)


def _matches_sign(data: Mapping[str, Json], sign: str) -> bool:
    if "*" in sign:
        base, _, key = sign.partition("*.")
        around = value_at_dotted_path(data, base.rstrip(".")) if base else data
        entries = (
            around.values() if isinstance(around, Mapping) else around if isinstance(around, list) else ()
        )
        return any(isinstance(each, Mapping) and key in each for each in entries)
    key, equals, values = sign.partition("=")
    if equals:
        return value_at_dotted_path(data, key) in values.split("|")
    key, tilde, word = sign.partition("~")
    value = value_at_dotted_path(data, key)
    return isinstance(value, str) and word in value if tilde else value is not None


def world_size_of(launch_format: LaunchFileFormat, data: Mapping[str, Json]) -> int | None:
    """Return the world size that a launch file sets, a product of several keys, or None if one of them is missing."""
    from math import prod

    required = (*launch_format.world_size_keys[:1], *launch_format.required_keys)
    if not required or any(value_at_dotted_path(data, key) is None for key in required):
        return None
    # Lightning's `devices` may be "auto" or -1, which stand for all GPUs of the node, and are unknown here.
    sizes = [
        _positive_count(value_at_dotted_path(data, key))
        for key in launch_format.world_size_keys
        if value_at_dotted_path(data, key) is not None
    ]
    return prod(size for size in sizes if size) if all(sizes) else None


def _positive_count(value: Json) -> int | None:
    """Convert a count, given as a number or text, to an integer; return None if it is known only at run time."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _MAX_DIGITS:
        value = int(value)
    return value if type(value) is int and value > 0 else None


_MAX_DIGITS = 10
