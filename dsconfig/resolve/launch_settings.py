"""Settings of a launch file that affect memory: the training method, and arguments without an estimate."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import value_at_dotted_path
from dsconfig.document import read_file
from dsconfig.job.consumers.accelerate_launch_file import deepspeed_block, is_launch_file
from dsconfig.job.consumers.consumer_versions import split_consumer_spec, version_tuple
from dsconfig.job.consumers.training_args import is_trl_config_class
from dsconfig.job.model_config_json import is_model_outside_repository
from dsconfig.launch.config_references import launch_files_naming_config
from dsconfig.launch.find_jobs import job_of_launch_file, jobs_giving_arguments, jobs_naming_config
from dsconfig.launch.launcher_call import ALLOCATOR_VARIABLES
from dsconfig.launch.memory_arguments_in_code import (
    ADAPTERS,
    CHECKPOINTING,
    QUANTIZATION,
    TRL_METHODS,
    memory_arguments_in_code,
)
from dsconfig.launch.requirements import consumer_version
from dsconfig.launch.training_arguments import (
    ADAPTER_PROGRAMS,
    LORA_TARGET_KEYS,
    find_model_on_disk,
    model_name_in_launch_file,
    parse_argument_text,
    tuning_type,
)
from dsconfig.memory import (
    ACTIVATION_TERMS,
    HOST,
    RANK,
    SAVED_MODULE_ROLES,
    TRAINERS,
    FusedKernels,
    LoraAdapter,
    NotModelledError,
    Quantization,
    TrainerTraits,
    UnmodeledSetting,
)
from dsconfig.resolve.composite_training import CompositeTraining, composite_training
from dsconfig.resolve.model_source import parse_lora_settings, split_module_names
from dsconfig.resolve.training_features import (
    TRL_CLASSES,
    add_default_arguments_of_trl,
    add_default_loss_of_trl,
    packs_sequences,
    requested_kernels,
    requested_quantization,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document
    from dsconfig.job.detect_consumer import ConsumerEvidence
    from dsconfig.launch.launched_job import LaunchedJob

METHODS = ("stage", "rlhf_type", "rl")
"""Arguments with which LLaMA-Factory, ms-swift and Axolotl select a training method."""
_SCRIPT = r"(?<![a-z])(online_dpo|dpo|ipo|kto|orpo|cpo|simpo|ppo|grpo|rloo|gkd|reward|rm)(?![a-z])"
"""Pattern of a training method in a script's name, as in TRL, OpenRLHF and the alignment handbook."""
_ALIASES = {"rm": "reward", "ipo": "dpo", "reward_modeling": "reward", "pt": "sft"}


class TrainerSettings(NamedTuple):
    """A training method, with the settings on which its memory depends."""

    trainer: str | None = None
    """Name in `TRAINERS` of the training method; None if no method is named or the method is unknown."""
    has_reference: bool | None = None
    """Whether a reference model is loaded; None if that is the default of the method."""
    vllm: float | None = None
    """Fraction of the GPU that vLLM reserves, 0 if vLLM runs elsewhere; None if vLLM is not used."""
    casts_logits: bool = False
    """Whether preference losses cast all logits to fp32 (LLaMA-Factory, and TRL before 0.7.5)."""
    vllm_sleeps: bool = False
    """Whether vLLM frees its memory while the model is trained."""

    def adapt(self, trainer: TrainerTraits) -> TrainerTraits:
        """Return the traits of a trainer, adapted to these settings."""
        if self.has_reference is None:
            return trainer
        return trainer._replace(has_reference=trainer.has_reference and self.has_reference)


_SLEEP = ("sleep_level", "vllm_enable_sleep_mode")
"""Arguments of ms-swift and TRL with which vLLM sleeps between two generations (`LLM.sleep`)."""


def selected_method(data: Mapping[str, Json]) -> TrainerSettings:
    """Return the training method that training arguments or a launch file select."""
    names = [parse_argument_text(data.get(key)) for key in METHODS]
    script = data.get("SCRIPT")
    if isinstance(script, str) and (match := re.search(_SCRIPT, script.lower())):
        names.append(match[1])
    name = next((word.lower() for word in names if isinstance(word, str)), None)
    name = _ALIASES.get(name or "", name)
    if name not in TRAINERS:
        return TrainerSettings()
    sleeps = any(parse_argument_text(data.get(key)) not in (None, False, 0) for key in _SLEEP)
    return TrainerSettings(
        name, _loads_reference_model(name, data), _vllm_memory_fraction(data), vllm_sleeps=sleeps
    )


def _loads_reference_model(name: str, data: Mapping[str, Json]) -> bool | None:
    """Return whether the reference model is loaded, or None if the arguments do not determine it."""
    if parse_argument_text(data.get("precompute_ref_log_probs")) is True or data.get("pref_loss") in (
        "orpo",
        "simpo",
    ):
        return False
    if name == "grpo":  # TRL's `beta` is 0.0 by default since 0.18
        beta = parse_argument_text(data.get("beta"))
        return beta not in (None, 0) if "beta" in data else None
    return None


def _vllm_memory_fraction(data: Mapping[str, Json]) -> float | None:
    if parse_argument_text(data.get("use_vllm")) is not True:
        return None
    if str(data.get("vllm_mode", "")).lower() == "server":
        return 0.0
    share = parse_argument_text(data.get("vllm_gpu_memory_utilization"))
    return float(share) if isinstance(share, (int, float)) and 0 <= share < 1 else 0.3  # TRL's default


def vllm_memory(
    method: TrainerSettings, requested: float | None, gpu: int | None
) -> tuple[int | None, tuple[UnmodeledSetting, ...]]:
    """Return the bytes that vLLM reserves (None if it is not used), and the settings missing to compute them."""
    share = method.vllm if requested is None else requested
    if share is None:
        return None, ()
    if share and gpu is None:
        text = f"it reserves {share:g} of the GPU; pass `--gpu`"
        return 0, (UnmodeledSetting("vLLM", text, raises=_RANK),)
    return int(share * (gpu or 0)), ()


REFERENCE_OPTIMIZER = UnmodeledSetting(
    "the optimizer of the reference model",
    "TRL starts an engine with the same config for it (`prepare_deepspeed`), which creates the `optimizer` of the "
    "config for each weight that requires gradients; let the Trainer create the optimizer instead",
    raises=frozenset((RANK, HOST)),
)


def missing_frozen_model(kind: str) -> UnmodeledSetting:
    """Return the unmodeled setting for a frozen model that the user has not specified."""
    text = "it is not given; pass its config.json or name as `--frozen-model` if it is on the same GPUs"
    return UnmodeledSetting(f"the {kind} model", text, raises=_RANK)


def unmodeled_models(
    trainer: TrainerTraits, has_frozen: bool, has_adapter: bool, has_optimizer: bool
) -> Iterator[UnmodeledSetting]:
    """Yield what is unknown of the models that a training method loads next to the trained one.

    `has_frozen` tells whether the user specified frozen models, `has_optimizer` whether the config has an optimizer.
    """
    if trainer.has_reference and has_optimizer and not has_adapter:
        yield REFERENCE_OPTIMIZER
    if trainer.needs_frozen and not has_frozen:
        yield missing_frozen_model(trainer.needs_frozen)


def trainer_notes(name: str, has_adapters: bool, stage: int) -> Iterator[str]:
    """Yield the assumptions made about the training method."""
    trainer = TRAINERS[name]
    if name == "sft":
        return
    parts = []
    if trainer.sequences_per_sample > 1 and not trainer.has_value_model:
        parts.append(f"{trainer.sequences_per_sample} sequences per sample")
    if trainer.has_value_model:
        parts.append("a value model of the same size is trained too")
    if trainer.has_reference:
        where = ", partitioned" if stage == 3 else ""
        parts.append(
            "the reference is the model without its adapters"
            if has_adapters
            else f"a reference model is loaded{where}"
        )
    yield f"{name.upper()}: {', '.join(parts) or 'no further model'}"


# Arguments of training programs that change memory and have no estimate. They are listed with the estimate.

_RANK, _HOST = frozenset((RANK,)), frozenset((HOST,))
_BOTH, _NONE = _RANK | _HOST, frozenset[str]()
_ACTIVATIONS = ACTIVATION_TERMS
_STATES = frozenset(("optimizer states", "optimizer step temporaries"))
_UPDATE = _STATES | {"gradients", "master weights", "fp32 gradient partition", "reduce bucket"}


class MemoryEffect(NamedTuple):
    """The effect of an argument without an estimate on memory; see `UnmodeledSetting`."""

    text: str
    raises: frozenset[str] = _NONE
    lowers: frozenset[str] = _NONE
    terms: frozenset[str] = _NONE
    above: int = 0
    """Number above which the argument has the effect."""


_LIGER = MemoryEffect("fused kernels save fewer activations", lowers=_RANK, terms=_ACTIVATIONS)
_MOVED = MemoryEffect("activations are offloaded to the host", _HOST, _RANK, _ACTIVATIONS)
_WHOLE_MATRICES = MemoryEffect("it needs whole matrices, but ZeRO flattens and partitions them", _BOTH, _BOTH)
_SMALL = MemoryEffect("the optimizer has different states", _BOTH, _BOTH, _UPDATE)
_SHARED = MemoryEffect("sequence parallelism", lowers=_RANK, terms=_ACTIVATIONS, above=1)
_WHOLE = MemoryEffect("these layers are fully trained next to the adapters", _BOTH)
_PARTS = MemoryEffect("only a part of the weights is trained", _NONE, _BOTH)
_MODELS = MemoryEffect("another model, or generation, needs memory too", _BOTH)
SAVED_MODULE_KEYS = ("additional_target", "modules_to_save", "lora_modules_to_save")
"""Keys of modules that are trained whole next to the adapters: LLaMA-Factory, TRL and ms-swift, Axolotl."""
EFFECTS: Mapping[str, MemoryEffect] = {
    "pure_bf16": MemoryEffect("trainable weights stay in bf16", _BOTH, _BOTH),
    "fp8": MemoryEffect("linear layers compute in fp8", _RANK, _RANK),
    "torch_compile": MemoryEffect("compiled code saves different activations", _RANK, _RANK, _ACTIVATIONS),
    "mixture_of_depths": MemoryEffect("layers skip tokens", _RANK, _RANK),
    "use_llama_pro": MemoryEffect("only new blocks are trained", _BOTH, _BOTH),
    "upcast_layernorm": MemoryEffect("norms are in fp32", _BOTH),
    "upcast_lmhead_output": MemoryEffect("logits are in fp32", _RANK),
    "rpo_alpha": MemoryEffect("the loss needs the likelihood of the chosen answer, too", _RANK),
    "ENV.CELOSS_PARALLEL_SIZE": MemoryEffect(
        "the loss is computed in chunks of tokens", lowers=_RANK, terms=frozenset(("logits and loss",))
    ),
    "use_dora": MemoryEffect("DoRA saves more tensors than LoRA", _BOTH),
    "peft_use_dora": MemoryEffect("DoRA saves more tensors than LoRA", _BOTH),
    "use_unsloth": MemoryEffect("Unsloth's kernels save fewer activations", lowers=_RANK, terms=_ACTIVATIONS),
    "unfrozen_parameters": _PARTS,
    "lisa_n_layers": _PARTS,
    "use_asft_loss": _MODELS,
    "activation_offloading": _MOVED,
    **dict.fromkeys(("use_logits_to_keep", "chunked_cross_entropy", "liger_cross_entropy"), _LIGER),
    **dict.fromkeys(("use_badam", "use_adam_mini", "use_muon"), _SMALL),
    **dict.fromkeys(("use_galore", "use_apollo"), _WHOLE_MATRICES),
    **dict.fromkeys(("sequence_parallel_size", "context_parallel_size", "cp_size"), _SHARED),
    **dict.fromkeys((*SAVED_MODULE_KEYS, "additional_trainable_parameters"), _WHOLE),
    **dict.fromkeys(("ref_model", "ref_model_name_or_path", "reward_model", "reward_model_path"), _MODELS),
    **dict.fromkeys(("reward_model_name_or_path", "reward_pretrain"), _MODELS),
    **dict.fromkeys(("critic_pretrain", "ref_pretrain"), _MODELS),
}
"""Effect of each argument if it is set, for LLaMA-Factory (hparams/), the Trainer, TRL, Axolotl, ms-swift and
OpenRLHF.
"""
PLAIN = ("pt", "sft")
_OTHER_METHOD = "another training method: it may load more models, or more sequences per sample"

OPTIMIZERS: Mapping[str, str] = {
    **dict.fromkeys(("adamw_torch", "adamw_hf", "paged_adamw", "paged_adamw_32bit"), "adamw"),
    **dict.fromkeys(("adamw_torch_fused", "adamw_apex_fused"), "adamw-fused"),
    "adafactor": "adafactor",
    **dict.fromkeys(("lion_8bit", "paged_lion_8bit"), "lion-8bit"),
    **dict.fromkeys(("rmsprop", "rmsprop_bnb", "rmsprop_bnb_32bit"), "rmsprop"),
    **dict.fromkeys(("ademamix", "paged_ademamix_32bit"), "ademamix"),
    **dict.fromkeys(("ademamix_8bit", "paged_ademamix_8bit"), "ademamix-8bit"),
    **dict.fromkeys(("adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit"), "adamw-8bit"),
    **dict.fromkeys(("lion_32bit", "paged_lion_32bit"), "lion"),
    "sgd": "sgd",
    "adagrad": "adagrad",
}
"""Values of the Trainer's `optim` that have an estimate (training_args.py, `OptimizerNames`)."""


def trainer_optimizer(arguments: Mapping[str, Json]) -> str | None:
    """Return the optimizer that the Trainer creates for `optim`, or None if it is absent or not supported."""
    word = parse_argument_text(arguments.get("optim"))
    return OPTIMIZERS.get(word) if isinstance(word, str) else None


def default_optimizer_of_trainer(transformers: str | None, torch: str | None) -> str | None:
    """Return the default of the Trainer's `optim` if it is fused in these versions, or None if that is not certain.

    Source: transformers training_args.py, `default_optim`, since 4.54 with torch 2.8.
    """
    if transformers is None or torch is None:
        return None
    is_fused = version_tuple(transformers) >= (4, 54, 0) and version_tuple(torch) >= (2, 8, 0)
    return "adamw-fused" if is_fused else None


def unmodeled_optimizer(arguments: Mapping[str, Json], origin: str) -> Iterator[UnmodeledSetting]:
    """Yield the parts of the Trainer's `optim` argument that have no estimate."""
    word = parse_argument_text(arguments.get("optim"))
    if not isinstance(word, str) or (word in OPTIMIZERS and not word.startswith("paged_")):
        return
    key = f"optim: {word}{origin}"
    if word in OPTIMIZERS:
        yield UnmodeledSetting(key, "pages of optimizer states may be on the host", _HOST, _RANK, _STATES)
    else:
        yield UnmodeledSetting(key, _SMALL.text, *_SMALL[1:4])


def unmodeled_arguments(
    arguments: Mapping[str, Json], origin: str = "", adapter: LoraAdapter | None = None
) -> Iterator[UnmodeledSetting]:
    """Yield the arguments that have no estimate; `origin` ends messages, such as ` in train.yaml`.

    `adapter` has the LoRA settings from the same arguments.
    """
    for key in METHODS:
        word = parse_argument_text(arguments.get(key))
        if isinstance(word, str) and word.lower() not in PLAIN and selected_method(arguments).trainer is None:
            yield UnmodeledSetting(f"{key}: {word}{origin}", _OTHER_METHOD, _BOTH)
    for key, effect in EFFECTS.items():
        value = parse_argument_text(value_at_dotted_path(arguments, key))
        number = value if type(value) in (int, float) else None
        if value in (None, False, 0, "", "none", []) or (number is not None and number <= effect.above):
            continue
        if adapter is not None and key in SAVED_MODULE_KEYS and _names_roles_with_estimate(value):
            continue
        name = key.removeprefix("ENV.")
        yield UnmodeledSetting(f"{name}: {_format_value(value)}{origin}", effect.text, *effect[1:4])


def _names_roles_with_estimate(value: Json) -> bool:
    """Return whether all modules in a list or text are embeddings, the LM head or encoders, which have an estimate."""
    names = split_module_names(value)
    return names is not None and names <= SAVED_MODULE_ROLES.keys()


def _format_value(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# Launch files: model, sequence length, checkpointing, adapters.

LENGTH = ("cutoff_len", "sequence_len", "max_length", "max_seq_length", "model_max_length", "block_size")
_LORA_RANK = ("lora_rank", "lora_r", "use_llm_lora")
_LORA_DROPOUT: Mapping[str, Json] = {"ms-swift": 0.05, "TRL": 0.05}
"""Default of `lora_dropout` by program (ms-swift arguments/tuner_args.py, trl trainer/model_config.py); others: 0."""
ATTENTION = {"fa2": "flash", "fa3": "flash", "flash_attention_2": "flash", "flash_attn": "flash"}
ATTENTION |= {"sdpa": "sdpa", "eager": "eager", "disabled": "eager"}
INIT, DATA = "zero3_init_flag", (".yaml", ".yml", ".json")
WORDS = dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True)
WORDS |= dict.fromkeys(("n", "no", "f", "false", "off", "0"), False)
"""Values that Accelerate's `str_to_bool` accepts."""


class LaunchSettings(NamedTuple):
    """Settings of a launch file that affect memory; a setting that is not set is None."""

    name: str = ""
    model: str | None = None
    sequence_length: int | None = None
    gradient_checkpointing: bool | None = None
    attn_implementation: str | None = None
    adapter: LoraAdapter | None = None
    use_reentrant: bool = False
    """Whether activation checkpointing is reentrant."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    """Settings that change memory, but have no estimate."""
    optimizer: str | None = None
    """Optimizer of the Trainer if the config has none; see `CLIENTS`."""
    unmodeled_optimizer: tuple[UnmodeledSetting, ...] = ()
    """Parts of the Trainer's optimizer that have no estimate."""
    zero_init: bool | None = None
    """Whether `zero.Init` builds the model at stage 3 (Accelerate's `zero3_init_flag`)."""
    kernels: FusedKernels = FusedKernels()
    quantization: Quantization | None = None
    method: TrainerSettings = TrainerSettings()
    composite: CompositeTraining = CompositeTraining()
    packing: bool | None = None
    """Whether all sequences have the full length."""
    assumed_inputs: tuple[UnmodeledSetting, ...] = ()
    """Inputs that neither the user nor the launch file gives."""
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments` for torch's allocator."""
    program: str = ""
    """Program whose code gives some of the settings, as shown in messages."""
    is_checkpointing_unknown: bool = False
    """Whether the job decides only at run time if it checkpoints activations."""


def launch_settings(document: Document, reader: ConsumerEvidence) -> LaunchSettings:
    """Return the settings of a launch file, or of all launch files that use a config, if they agree.

    Raises:
        OSError: the config that the launch file names cannot be read.
        NotModelledError: the model is quantized, or the training method is not supported.
    """
    job = job_of_launch_file(document)
    jobs = jobs_giving_arguments(reader, document.name) if job is None else [job]
    programs = reader.facts.program_files
    if not jobs and len(programs) == 1 and (job_of_program := job_of_launch_file(read_file(programs[0]))):
        jobs = [job_of_program]
    settings = list(map(_settings_of, jobs))
    agreed = settings[0] if len({item._replace(name="") for item in settings}) == 1 else LaunchSettings()
    return agreed._replace(
        zero_init=_zero3_init(document, [job] if job else jobs_naming_config(document.name))
    )


def _zero3_init(document: Document, jobs: Sequence[LaunchedJob]) -> bool | None:
    """Return the value of `zero3_init_flag` in Accelerate's launch file, a flag or an environment variable.

    Source: accelerate utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`; the Trainer also follows the flag if
    Accelerate's launcher starts it. Return None if the flag is not set, or if files disagree.
    """
    launches = [document.value(), *(job.document.value() for job in jobs if job.document)]
    launches += _accelerate_launch_files(document.name)  # they name the config, and are no jobs
    commands = [job.arguments for job in jobs if job.arguments]
    values = [deepspeed_block(data).get(INIT) for data in launches if is_launch_file(data)]
    values += [data.get(INIT) for data in commands]
    values += [value_at_dotted_path(data, "ENV.ACCELERATE_DEEPSPEED_ZERO3_INIT") for data in commands]
    flags = {WORDS[word] for value in values if (word := str(value).lower()) in WORDS}
    return flags.pop() if len(flags) == 1 else None


def _accelerate_launch_files(name: str) -> Iterator[JsonObject]:
    """Yield the Accelerate launch files that name this config."""
    for launch in launch_files_naming_config(name) if name and not name.startswith("<") else ():
        with suppress(OSError):
            data = read_file(launch).value() if launch.endswith(DATA) else None
            if is_launch_file(data):
                yield data


def _settings_of(job: LaunchedJob) -> LaunchSettings:
    flags = job.launch.value() if job.arguments is None else job.arguments
    if not isinstance(flags, Mapping):
        return LaunchSettings()
    program, launch = job.format.name, job.launch.name
    name = launch if launch.startswith("<") else relative_path(launch)
    code = memory_arguments_in_code(job)
    data = code.add_to(flags)
    if code.trainer and not data.keys() & set(METHODS):
        data[METHODS[1]] = TRL_METHODS[code.trainer]
    trl_class = code.trl_class if is_trl_config_class(code.trl_class) else ""
    uses_trl = program == "TRL" or bool(trl_class)
    trl = consumer_version("trl", launch) if uses_trl else None
    trl_version = trl and trl[0]
    assumed_defaults = tuple[UnmodeledSetting, ...]()
    if uses_trl:
        trl_class = trl_class or TRL_CLASSES.get(str(flags.get("SCRIPT")), "")
        data, assumed_defaults = add_default_arguments_of_trl(data, trl_class, trl_version, code.unknown)
    length = next(
        (
            size
            for key in LENGTH
            if type(size := parse_argument_text(value_at_dotted_path(data, key))) is int and size > 0
        ),
        None,
    )
    if length is None and program == "LLaMA-Factory":
        length = 2048
    words = (data.get(key) for key in ("flash_attn", "attn_implementation", "attn_impl"))
    attention = next((ATTENTION[word] for word in words if isinstance(word, str) and word in ATTENTION), None)
    selected = selected_method(data)
    kernels = requested_kernels(data, selected.trainer, "TRL" if uses_trl else program)
    assumed_loss = tuple[UnmodeledSetting, ...]()
    if uses_trl:
        kernels, assumed_loss = add_default_loss_of_trl(kernels, data, selected.trainer, trl_version)
    adapter = _lora_settings(data, program)
    return LaunchSettings(
        name,
        _model_from_launch_file(data, launch),
        length,
        _uses_activation_checkpointing(data, program),
        attention,
        adapter,
        _checkpoints_reentrant(data, program, launch),
        (*unmodeled_arguments(data, f" in {name}", adapter), *_settings_decided_at_run_time(code.unknown)),
        trainer_optimizer(data),
        tuple(unmodeled_optimizer(data, f" in {name}")),
        kernels=kernels,
        assumed_inputs=(*assumed_loss, *assumed_defaults),
        method=selected._replace(casts_logits=_casts_logits(program, trl_version)),
        quantization=requested_quantization(data),
        composite=composite_training(data, program),
        packing=packs_sequences(data),
        expandable_segments=_has_expandable_segments(data),
        program=code.shown_program,
        is_checkpointing_unknown=CHECKPOINTING in code.unknown
        or ((job.may_have_more_flags or code.are_flags_unknown) and CHECKPOINTING not in data),
    )


def _casts_logits(program: str, trl_version: str | None) -> bool:
    """Return whether DPO casts all logits to fp32 (`concatenated_forward`)."""
    return program == "LLaMA-Factory" or (trl_version is not None and version_tuple(trl_version) < (0, 7, 5))


def _settings_decided_at_run_time(unknown: Mapping[str, str]) -> Iterator[UnmodeledSetting]:
    """Yield the settings that the code of the program decides only at run time, by their locations."""
    if (place := unknown.get(ADAPTERS)) is not None:
        text = "its adapters are known only at run time; pass `--lora`"
        yield UnmodeledSetting(place, text, lowers=_BOTH)
    quantized = next((unknown[key] for key in (QUANTIZATION, "load_in_8bit") if key in unknown), None)
    if quantized is not None:
        text = "whether the weights are quantized is known only at run time; pass `--quantize`"
        yield UnmodeledSetting(quantized, text, lowers=_RANK)


def _has_expandable_segments(data: Mapping[str, Json]) -> bool:
    """Return whether the command's environment enables `expandable_segments` (c10/core/AllocatorConfig.cpp)."""
    settings = [value_at_dotted_path(data, f"ENV.{name}") for name in ALLOCATOR_VARIABLES]
    words = {word.strip().lower() for text in settings if isinstance(text, str) for word in text.split(",")}
    return "expandable_segments:true" in {word.replace(" ", "") for word in words}


def _model_from_launch_file(data: Mapping[str, Json], launch: str) -> str | None:
    """Return the model that a launch file names; a path is resolved relative to the file if it exists."""
    name = model_name_in_launch_file(data)
    if name is None or "$" in name:
        return None
    return find_model_on_disk(name, launch) or (None if is_model_outside_repository(name, launch) else name)


def _uses_activation_checkpointing(data: Mapping[str, Json], program: str) -> bool | None:
    if program == "LLaMA-Factory":
        return parse_argument_text(data.get("disable_gradient_checkpointing")) is not True
    value = parse_argument_text(data.get("gradient_checkpointing", data.get("grad_checkpoint")))  # InternVL
    if value is None:
        return True if program in ADAPTER_PROGRAMS else None
    return value is not False


def _checkpoints_reentrant(data: Mapping[str, Json], program: str, launch: str) -> bool:
    if program == "LLaMA-Factory":  # `ModelArguments.use_reentrant_gc`
        return parse_argument_text(data.get("use_reentrant_gc")) is not False
    version = consumer_version("transformers", launch)
    return bool(_uses_activation_checkpointing(data, program)) and is_checkpointing_reentrant(
        data, version and version[0]
    )


def transformers_version(consumer: str) -> str | None:
    """Return the version in a consumer spec such as `transformers==5.0`, or None if it has none."""
    name, version = split_consumer_spec(consumer)
    return version if name == "transformers" else None


def is_checkpointing_reentrant(arguments: Mapping[str, Json], version: str | None) -> bool:
    """Return whether the Trainer uses reentrant checkpointing, according to `gradient_checkpointing_kwargs`.

    `PreTrainedModel.gradient_checkpointing_enable` is reentrant by default before Transformers 5. `version` is that of
    Transformers, None if unknown, which counts as an older one.
    """
    kwargs = arguments.get("gradient_checkpointing_kwargs")
    if isinstance(kwargs, str):
        with suppress(ValueError, RecursionError):
            kwargs = json.loads(kwargs)
    choice = parse_argument_text(kwargs.get("use_reentrant")) if isinstance(kwargs, Mapping) else None
    if choice is None:
        return version is None or version_tuple(version) < (5, 0, 0)
    return choice is not False


def _lora_settings(data: Mapping[str, Json], program: str) -> LoraAdapter | None:
    method = tuning_type(data, program)
    if method == "full":
        return None
    # Axolotl's `adapter: qlora` is LoRA on a quantized base; `lora_llm` is of ms-swift.
    if method not in ("lora", "qlora", "lora_llm"):
        raise NotModelledError(f"the training method `{method}` is not supported yet")
    rank = next(
        (value for key in _LORA_RANK if (value := parse_argument_text(data.get(key))) is not None), None
    )
    target = next((value for key in LORA_TARGET_KEYS if (value := data.get(key))), None)
    # LLaVA and InternVL add adapters to all linear layers of the language model.
    names_all = data.get("lora_target_linear") is True or "lora_enable" in data or "use_llm_lora" in data
    if target is None and (program in ADAPTER_PROGRAMS or names_all):
        target = "all"
    values: dict[str, Json] = {"r": rank if rank is not None else 16 if program == "TRL" else 8}
    values |= {"target": target} if target is not None else {}
    dropout = parse_argument_text(data.get("lora_dropout", _LORA_DROPOUT.get(program)))
    values |= {"dropout": dropout} if isinstance(dropout, (int, float)) else {}
    saved = next((value for key in SAVED_MODULE_KEYS if (value := parse_argument_text(data.get(key)))), None)
    if saved is None and "tune_vision" in data:  # MiniCPM-V (finetune.py, `modules_to_save`)
        saved = ["embed_tokens", "resampler"]
        saved += ["vpm"] if parse_argument_text(data["tune_vision"]) is not False else []
    return parse_lora_settings(values | ({"save": saved} if _names_roles_with_estimate(saved) else {}))
