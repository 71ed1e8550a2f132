"""Table of launch file formats: how each is recognized, where its config is, and what fills it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from dsconfig.core.json_types import Json, NamedTuple, at

# What a row of the table of launch files says.

_NONE: Mapping[str, Json] = MappingProxyType({})


class Write(NamedTuple):
    """A key of the launch file because of which its program writes into the config."""

    key: str
    place: str
    """Where in the config, dotted."""
    value: Json = None
    """What is written, if not the key's own value."""
    unless: str = ""
    """What keeps the config as it is where it is there, dotted."""
    above: int | None = None
    """Only a larger number has it written; None: any value has."""
    only: str = ""
    """Only this word has it written."""
    stage: int | None = None
    """Only into a config with this ZeRO stage."""


class Format(NamedTuple):
    """One format. Signs are dotted keys; `key=a|b` has one of these values, `key~word` this word in it."""

    name: str
    reader: str
    signs: tuple[tuple[str, ...], ...]
    """A file is of the format where all keys of one of these are in it."""
    config: tuple[str, ...]
    """Where the config is: its path, a preset's name, or the config itself. The first written counts."""
    source: str
    preset: str = ""
    """The path of a preset within the installed packages, `{}` for its name."""
    arguments: Mapping[str, str] = MappingProxyType({})
    """Training arguments that have another name here: this name first, the Trainer's second."""
    defaults: Mapping[str, Json] = _NONE
    """Training arguments that are others than the Trainer's where they are not written; None: not known."""
    world: tuple[str, ...] = ()
    """Keys whose numbers multiply to the world size."""
    needs: tuple[str, ...] = ()
    """Those of these without which it is not known: others count as 1 where they are absent."""
    within: str = ""
    """The object that holds the training arguments, where it is not the root."""
    commands: tuple[str, ...] = ()
    """Where shell commands stand that name the config, for a format that does not itself."""
    environment: tuple[str, ...] = ()
    """Where it writes variables for these commands."""
    variables: Mapping[str, str] = MappingProxyType({})
    """Variables that its program sets for them, and the keys that say to what: the first that is there."""
    writes: tuple[Write, ...] = ()
    """What is written into the config because of keys here."""
    update: int | None = None
    """The samples of an update, where the accumulation steps are made to come to them."""
    programs: tuple[str, ...] = ()
    """Words of a command that run this program, as patterns of file names."""
    scripts: tuple[str, ...] = ()
    """Names that scripts of other programs have too: its own is known by the signs among the flags."""
    sets: tuple[tuple[str, str, int], ...] = ()
    """What its program writes into a config without a batch: the key, the launch file's own, its default."""
    replaces: bool = False
    """Whether it writes that into every config, in place of the batch that stands there."""
    overwrites: str = ""
    """Where it writes what goes over the config, section by section."""
    numbers: Literal["yaml", "omegaconf", "human"] = "yaml"
    """How a config in the launch file may write numbers: OmegaConf reads `1e-5`, people `500m` and `2^20`."""
    makes: str = ""
    """What makes the config of the launch file's own keys, where no config is named: a module of `made`."""
    made_of: str = ""
    """The key that has it made."""


# The formats of launch files, a row each: how it is recognised, where its config is, what fills it.
#
# Accelerate's own file has rules of its own, and stands in `dsconfig.consumers.accelerate_launch_file`.

_GATHER = "zero_optimization.gather_16bit_weights_on_model_save"
_STAGES = "stage=pt|sft|rm|ppo|dpo|kto"
FORMATS: tuple[Format, ...] = (
    Format(
        "LLaMA-Factory",
        "transformers",
        signs=((_STAGES, "model_name_or_path"), (_STAGES, "finetuning_type"), (_STAGES, "dataset")),
        config=("deepspeed",),
        source="LLaMA-Factory hparams/parser.py:read_args",
        numbers="omegaconf",
        programs=("llamafactory-cli", "llamafactory", "*train_bash.py"),
        scripts=("*train.py",),  # src/train.py, which came after src/train_bash.py
    ),
    Format(
        "LLaMA-Factory v1",
        "accelerate",
        signs=(("dist_config.name=deepspeed",),),
        config=("dist_config.config_file",),
        source="LLaMA-Factory v1/plugins/model_plugins/deepspeed_utils.py",
    ),
    Format(
        "Axolotl",
        "transformers",
        signs=(
            ("base_model", "datasets"),
            ("base_model", "micro_batch_size"),
            ("base_model", "sequence_len"),
        ),
        config=("deepspeed",),
        source="axolotl utils/config/__init__.py, core/builders/causal.py",
        arguments={"micro_batch_size": "per_device_train_batch_size"},
        defaults={
            "per_device_train_batch_size": 1,
            "gradient_accumulation_steps": 1,
            "warmup_steps": None,
        },
        writes=(
            Write("tensor_parallel_size", "tensor_parallel.autotp_size", None, "tensor_parallel", 1),
            Write("tensor_parallel_size", _GATHER, True, _GATHER, 1),
            Write("deepcompile", "compile.deepcompile", True, "compile", 0),
        ),
    ),
    Format(
        "TRL",
        "transformers",
        signs=(("accelerate_config", "dataset_name"), ("accelerate_config", "model_name_or_path")),
        config=("deepspeed", "accelerate_config"),
        source="trl cli/accelerate_config.py:resolve_accelerate_config_argument",
        preset="trl/accelerate_configs/{}.yaml",
        programs=("trl",),
        defaults={"bf16": None, "learning_rate": None},
        world=("num_processes",),
    ),
    Format(
        "ms-swift",
        "transformers",
        signs=(("model", "dataset", "deepspeed"), ("model", "tuner_type"), ("model", "train_type")),
        config=("deepspeed",),
        source="ms-swift arguments/sft_args.py:_init_deepspeed",
        preset="swift/config/{}.json",
        writes=(
            Write("zero_hpz_partition_size", "zero_optimization.zero_hpz_partition_size"),
            Write("deepspeed_autotp_size", "tensor_parallel.autotp_size"),
            Write("deepspeed_autotp_size", _GATHER, True),
            # trainers/utils.py:prepare_deepspeed_elastic_config
            Write("callbacks", "checkpoint.load_universal", True, only="deepspeed_elastic"),
            # rlhf_trainers/arguments.py:GRPOConfig.__post_init__
            Write("rlhf_type", "zero_optimization.stage3_prefetch_bucket_size", 0, only="grpo", stage=3),
        ),
        update=16,
        programs=("swift", "*swift/cli/*.py", "swift.cli.*"),
        world=("ENV.NPROC_PER_NODE", "ENV.NNODES"),
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
    Format(
        "Determined",
        "transformers",
        signs=(("hyperparameters.training_args.deepspeed", "entrypoint"),),
        config=("hyperparameters.training_args.deepspeed",),
        source="determined examples/hf_trainer_api",
        world=("resources.slots_per_trial",),
        within="hyperparameters.training_args",
    ),
    Format(
        "Determined",
        "transformers",
        signs=(("hyperparameters.deepspeed_config", "entrypoint~--deepspeed "),),
        config=("hyperparameters.deepspeed_config",),
        source="determined examples/hf_trainer_api/hf_language_modeling/deepspeed.yaml",
        world=("resources.slots_per_trial",),
        within="hyperparameters.training_args",
    ),
    Format(
        "Determined",
        "deepspeed",
        signs=(
            ("hyperparameters.deepspeed_config", "entrypoint"),
            ("hyperparameters.deepspeed_config", "searcher"),
        ),
        config=("hyperparameters.deepspeed_config",),
        source="determined pytorch/deepspeed/_deepspeed_context.py:overwrite_deepspeed_config",
        world=("resources.slots_per_trial",),
        overwrites="hyperparameters.overwrite_deepspeed_args",
    ),
    Format(
        "ArcticTraining",
        "deepspeed",
        signs=(("type", "model.name_or_path", "deepspeed"),),
        config=("deepspeed",),
        source="arctic_training config/trainer.py:TrainerConfig.build_deepspeed_config",
        sets=(
            ("train_micro_batch_size_per_gpu", "micro_batch_size", 1),
            ("gradient_accumulation_steps", "gradient_accumulation_steps", 1),
        ),
        replaces=True,
        numbers="human",
    ),
    Format(
        "Lightning",
        "lightning",
        signs=(("trainer.strategy.class_path~DeepSpeedStrategy",), ("trainer.strategy~deepspeed",)),
        config=("trainer.strategy.init_args.config",),
        source="lightning pytorch/strategies/deepspeed.py:DeepSpeedStrategy._load_config",
        world=("trainer.devices", "trainer.num_nodes"),
        makes="lightning",
        made_of="trainer.strategy",
    ),
    Format(
        "Ludwig",
        "accelerate",
        signs=(("strategy.type=accelerate|deepspeed", "strategy.deepspeed_config"),),
        config=("strategy.deepspeed_config",),
        makes="plugin",  # a mapping there is the arguments of Accelerate's plugin
        source="ludwig distributed/accelerate.py",
    ),
    Format(
        "Composer",
        "deepspeed",
        signs=(("deepspeed_config", "max_duration"), ("deepspeed_config", "train_loader")),
        config=("deepspeed_config",),
        source="composer v0.27.0 distributed/deepspeed.py:parse_deepspeed_config",
        sets=(("train_micro_batch_size_per_gpu", "device_train_microbatch_size", 1),),
    ),
    Format(
        "GPT-NeoX",
        "deepspeed",
        signs=(("pipe_parallel_size", "num_layers"), ("pipe-parallel-size", "num-layers")),
        config=(),
        source="gpt-neox megatron/neox_arguments/arguments.py:NeoXArgs.deepspeed_config",
        makes="neox",
        made_of="train_micro_batch_size_per_gpu",
    ),
    Format(
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
    Format(
        "Azure ML",
        "deepspeed",
        signs=(("command", "distribution.type"), ("$schema~commandJob", "command")),
        config=(),
        source="azureml-examples cli/jobs/deepspeed/deepspeed-training/job.yml",
        commands=("command",),
        environment=("environment_variables",),
        world=("distribution.process_count_per_instance", "resources.instance_count"),
    ),
    Format(
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
        world=("spec.trainer.numProcPerNode", "spec.trainer.numNodes"),
        needs=("spec.trainer.numNodes",),  # else the runtime's `mlPolicy` says how many
    ),
    Format(
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
    Format(
        "OpenRLHF",
        "deepspeed",
        signs=(),
        config=(),
        source="OpenRLHF utils/deepspeed/deepspeed_utils.py:get_train_ds_config",
        programs=("openrlhf.cli.train_*",),
        makes="openrlhf",
    ),
    Format(
        "xtuner",
        "deepspeed",
        signs=(),
        config=("deepspeed",),
        source="xtuner v0.1.23 tools/train.py:main, configs/deepspeed",
        preset="xtuner/configs/deepspeed/{}.json",
        programs=("xtuner", "*xtuner/tools/train.py"),
    ),
    Format(
        "Megatron-DeepSpeed",
        "deepspeed",
        signs=(),
        config=("deepspeed_config",),
        source="Megatron-DeepSpeed megatron/training.py:_create_ds_config_dict",
        programs=("*pretrain_gpt*.py", "*pretrain_bert*.py", "*pretrain_t5*.py", "*finetune_llama.py"),
    ),
    Format(
        "Transformers",
        "transformers",
        signs=(
            ("deepspeed", "output_dir"),
            ("deepspeed", "per_device_train_batch_size"),
            ("deepspeed", "learning_rate", "gradient_accumulation_steps"),
        ),
        config=("deepspeed",),
        source="transformers hf_argparser.py:HfArgumentParser.parse_dict",
    ),
)
"""The more special first: the last takes whatever hands training arguments to the Trainer."""
SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
"""Ends of the names of shell scripts."""
SCRIPT = Format("the shell", "transformers", (), (), "bash", commands=("",))
"""A shell script, which its name shows and no key."""


def _key(sign: str) -> str:
    """The key at the root that a sign asks for."""
    return sign.replace("=", ".").replace("~", ".").partition(".")[0]


_KEYS = frozenset([_key(signs[0]) for each in FORMATS for signs in each.signs])
"""Without one of these at its root, as most configs are, no file is of any format."""


def format_of(data: object) -> Format | None:
    """The format of a launch file; None for anything else."""
    if not isinstance(data, Mapping) or _KEYS.isdisjoint(data):
        return None
    return next((each for each in FORMATS if is_of(each, data)), None)


def is_of(found: Format, data: Mapping[str, Json]) -> bool:
    """Whether keys, or the flags of a command, show that they are of this format."""
    return any(all(_has(data, sign) for sign in signs) for signs in found.signs)


def _has(data: Mapping[str, Json], sign: str) -> bool:
    key, equals, values = sign.partition("=")
    if equals:
        return at(data, key) in values.split("|")
    key, tilde, word = sign.partition("~")
    value = at(data, key)
    return isinstance(value, str) and word in value if tilde else value is not None
