"""`memory`: add defaults to the request for an estimate, and estimate a rank and its host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import MappingSource, read_training_arguments
from dsconfig.core.batch_triplet import MICRO, SEQUENCE, STEPS, TRAIN
from dsconfig.core.file_access import OUTSIDE
from dsconfig.core.gpu_memory import parse_gpu_memory as gpu_of
from dsconfig.core.releases import NUMBERS, ReleaseTarget
from dsconfig.document import Document
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.consumer_versions import split_consumer_spec
from dsconfig.job.job_facts import facts_of_dsconfig_block
from dsconfig.launch.config_overwrites import config_overwrites_by_programs, overwrite_of_key
from dsconfig.launch.config_source import read_config_source
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import locate_config
from dsconfig.launch.requirements import consumer_version
from dsconfig.memory import (
    NO_LIMIT,
    OFFLOADED,
    SCRIPT_OPTIMIZER,
    SECTIONS,
    TRAINERS,
    Architecture,
    ConfigValues,
    EngineSetup,
    Estimate,
    MemoryLimit,
    MicroBatch,
    NotModelledError,
    TrainingJob,
    default_client,
    estimate,
    micro_batch_of,
    setup_of,
    weights_of,
)
from dsconfig.memory import zenflow_section as zenflow
from dsconfig.resolve.effective_values import effective_values_of
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.launch_settings import (
    LaunchSettings,
    default_optimizer_of_trainer,
    is_checkpointing_reentrant,
    launch_settings,
    selected_method,
    trainer_notes,
    trainer_optimizer,
    transformers_version,
    unmodeled_arguments,
    unmodeled_models,
    unmodeled_optimizer,
    vllm_memory,
)
from dsconfig.resolve.memory_options import (
    MemoryOptions,
    attention_of,
    configured_sp_size,
    launched_sp_size,
    resolve_with_defaults,
    resolve_with_micro_batch,
    samples_per_micro_batch,
    within_positions,
)
from dsconfig.resolve.model_source import ModelSource, load_model, parse_lora_settings, with_encoder
from dsconfig.resolve.resolve import resolve_job
from dsconfig.resolve.resolved_run import ResolvedRun
from dsconfig.resolve.training_features import (
    add_features,
    assumed_inputs,
    feature_notes,
    packs_sequences,
    requested_kernels,
    requested_quantization,
    unmodeled_experts,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.launch.config_source import ConfigSource
    from dsconfig.memory import DeviceUsage, UnmodeledSetting


def memory(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    *,
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
    sequence_length: int | None = None,
    image_tokens: int | None = None,
    train_vision: bool | None = None,
    micro_batch: int | None = None,
    attention: str | None = None,
    checkpointing: bool | None = None,
    lora: str | Mapping[str, Json] | None = None,
    optimizer: str | None = None,
    zero_init: bool | None = None,
    gpus_per_node: int | None = None,
    sp: int | None = None,
    imbalance: float | None = None,
    gpu: int | str | None = None,
    parameters: int | None = None,
    loss: str | None = None,
    quantize: str | None = None,
    trainer: str | None = None,
    frozen_models: Sequence[ModelSource] = (),
    vllm: float | None = None,
    packing: bool | None = None,
    expandable_segments: bool | None = None,
    set: Mapping[str, Json] | None = None,
) -> Estimate:
    """Estimate the training memory of a rank and its host, at rest and at the peaks of a step.

    Args:
        source: a path, text, bytes, a dict, or a document that has been read; see `check`.
        model: the model's `config.json` (a path or mapping), a preset or Hub name, or an `Architecture`; None: from the
            config's `"$dsconfig"` block or its launch file.
        world_size: number of ranks, one per GPU; None: as for `resolve`.
        target: a DeepSpeed release, or a range, of which the newest release is used; None: as for `check`.
        consumer: the library that loads the file; None: auto-detected.
        sequence_length: tokens per sequence; None: from a launch file, else that of an encoder, or 2048.
        image_tokens: image tokens per sequence; None: those of one image.
        train_vision: whether image and audio encoders are trained; None: from a launch file, else True.
        micro_batch: samples per micro batch; None: from the config.
        attention: `sdpa`, `flash` or `eager`; None: from a launch file, else `sdpa`.
        checkpointing: whether activations are checkpointed; None: from a launch file or training arguments.
        lora: LoRA settings, `r=16,target=q_proj,v_proj` or a mapping; None: full training.
        optimizer: the script's optimizer, if the config has none; see `CLIENTS`.
        zero_init: whether `zero.Init` builds the model at stage 3; None: as Transformers and Accelerate do
            (`zero3_init_flag`) if they load the file.
        gpus_per_node: ranks per host; None: 8, or the world size if smaller.
        imbalance: with AutoEP, tokens that the busiest rank's experts process, relative to the mean; None: 1.
        gpu: memory of the GPU in bytes, or as for `--gpu` (`80GiB`, `h100`, `48GB`). Since 0.19.0 it decides where
            stages 1 and 2 flatten the weights; None: on the GPU.
        parameters: number of parameters, for a model that is unknown or whose layers are not supported.
        loss: `full`, `chunked` or `fused` (see `FusedKernels`); None: from a launch file, else `full`.
        quantize: storage of the frozen layers next to adapters, `nf4`, `int8` or another one of `KINDS`; None: from
            a launch file or the model's config.json.
        trainer: training method, `dpo`, `grpo` or another one of `TRAINERS`; None: from a launch file, else `sft`.
        frozen_models: reward and teacher models that stay loaded; the reference model is a copy of the trained one.
        vllm: fraction of the GPU that vLLM reserves next to training, 0 if it runs elsewhere; needs `gpu`.
        packing: whether all sequences are packed or padded to the full length; None: from a launch file, else yes.
        expandable_segments: whether `PYTORCH_CUDA_ALLOC_CONF` sets this option; None: from a launch file, else no.
        sp: sequence-parallel ranks (Ulysses); None: `sequence_parallel_size` of the config.
        set: values to set in the config before it is resolved, by dotted path.
        training_args: arguments from which the consumer resolves "auto"; see `check`.
        launch: the launch file to use; see `check`.
        job: see `resolve`.

    Raises:
        NotModelledError: the config or model has no estimate; the message names the setting.
        UnknownWorldSizeError, ResolveError, OSError, UnknownReleaseError, ValueError: as `resolve` does.
    """
    run_options = (sequence_length, micro_batch, attention, checkpointing, lora, optimizer, zero_init)
    options = MemoryOptions(
        model, world_size, target, consumer, *run_options, gpus_per_node, set, training_args, sp, imbalance
    )
    options = options._replace(
        launch=launch, gpu_limit=None if gpu is None else gpu_of(gpu).usable_bytes(), parameters=parameters
    )._replace(
        loss=loss,
        quantize=quantize,
        trainer=trainer,
        frozen_models=tuple(frozen_models),
        vllm=vllm,
        image_tokens=image_tokens,
        train_vision=train_vision,
        packing=packing,
        expandable_segments=expandable_segments,
        gpu_bytes=None if gpu is None else gpu_of(gpu).least,
    )
    return estimate_request(read_config_of_job(source, job), options).answer()


OLDEST = "0.14.0"
MEASURED = ("0.14.1", "0.19.8")
"""Releases whose memory use was measured."""
LENGTH, NODE = 2048, 8


class EstimateRequest(NamedTuple):
    """All inputs of a memory estimate."""

    run: ResolvedRun
    values: ConfigValues
    arch: Architecture
    job: TrainingJob
    launch: LaunchSettings
    batch_assumptions: tuple[str, ...]
    """Assumptions about the batch."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    approximates: str = ""
    """Why the layers are those of a generic transformer."""
    assumes_optimizer: bool = False
    """Whether the script's optimizer is assumed."""
    trainer: str = "sft"
    assumed_inputs: tuple[UnmodeledSetting, ...] = ()
    """Inputs that neither the user nor a launch file gives."""

    @property
    def setup(self) -> EngineSetup:
        """The engine settings that the config determines."""
        return setup_of(self.values, self.job)

    @property
    def micro_batch(self) -> MicroBatch:
        """The micro batch, with the config's dtypes and parallelism."""
        return micro_batch_of(self.setup, self.job)

    def with_micro_batch(self, micro_batch: MicroBatch) -> EstimateRequest:
        """Return the request with the micro batch replaced."""
        return self._replace(job=self.job._replace(micro_batch=micro_batch))

    def answer(self, room: MemoryLimit = NO_LIMIT) -> Estimate:
        """Compute the estimate; raise `LimitExceededError` as soon as it exceeds `room`."""
        result = estimate(self.values, self.arch, self.job, room)
        assumed = (*result.assumed, SCRIPT_OPTIMIZER) if self.assumes_optimizer else result.assumed
        if result.device is not None and self.launch.assumed_inputs:
            least = min(result.device.allocated, result.rank.least_needed(self.launch.assumed_inputs))
            result = replace(result, device=replace(result.device, allocated=least))
        if room == NO_LIMIT and result.device is not None:
            result = replace(result, device=self._with_unknown_images(result.device))
        return replace(
            result,
            assumptions=tuple(_assumptions(self)),
            unmodelled=self.unmodelled,
            assumed=(*assumed, *self.assumed_inputs),
        )

    def known_defects(self) -> frozenset[str]:
        """Defects of the release that make a run with this config crash or train a wrong model."""
        from dsconfig.check.check import check_document

        run = self.run
        target = ReleaseTarget((run.release,), run.release, "argument")
        report = check_document(
            read_config_source(run.config), target, world_size=run.world_size, consumer=run.consumer
        )
        return frozenset(diagnostic.message for diagnostic in report if diagnostic.code in _DEFECTS)

    def _with_unknown_images(self, device: DeviceUsage) -> DeviceUsage:
        """Return the usage from a sequence without images to one of image tokens only, if their number is not given."""
        batch = self.job.micro_batch
        if not self.arch.towers or batch.image_tokens is not None:
            return device
        for tokens in (0, batch.sequence_length):
            job = self.job._replace(micro_batch=batch._replace(image_tokens=tokens))
            other = estimate(self.values, self.arch, job).device
            if other is not None:
                least, most = min(device.allocated, other.allocated), max(device.bound, other.bound)
                device = replace(device, allocated=least, bound=most)
        return device


_DEFECTS = ("DSC880", "DSC881")
"""Codes of the rules about settings with which a release crashes or trains a wrong model."""


def estimate_request(document: Document, options: MemoryOptions) -> EstimateRequest:
    """Build the request from a config and options; raises the errors of `memory`."""
    options.validate()
    located = locate_config(document)
    job = options.build_job_of_config(located)
    launch = launch_settings(document, job.reader)
    own_model = facts_of_dsconfig_block(document.value(), document.name).model
    if own_model and own_model.is_outside and options.model is None:
        raise NotModelledError(
            f"the model {own_model.shown} {OUTSIDE}, and is not read", "pass it as `model`"
        )
    source = options.model or (own_model.named if own_model else launch.model)
    model = with_encoder(load_model(source, options.parameters), dict(launch.composite.encoder_keys))
    changes = dict(options.set or {})
    changes |= {} if options.micro_batch is None else {MICRO: options.micro_batch}
    args = read_training_arguments(options.training_args)
    sp_size = options.sp or configured_sp_size(document, changes)
    facts = read_input_config(located, job).facts
    sp_size = launched_sp_size(facts.parallelism, sp_size, options.sp)

    def resolving(batch: Mapping[str, Json], arguments: Mapping[str, Json] | None) -> ResolvedRun:
        degrees = (None, None, sp_size if sp_size > 1 else options.sp, None)
        return resolve_job(located, job, degrees, {**changes, **batch}, arguments, model.config)

    free = options.micro_batch is not None and not {STEPS, TRAIN} & changes.keys()
    _reject_overwritten(document, changes)
    run, assumed = resolve_with_micro_batch(
        lambda batch: resolve_with_defaults(partial(resolving, batch), args), free
    )
    values = _effective_values(run, sp_size)
    zero_init = _uses_zero_init(run, options, launch)
    gpus_per_node = min(options.gpus_per_node or NODE, run.world_size)
    arguments = args or {}
    checkpoints_by_arguments = bool(arguments.get("gradient_checkpointing"))
    reentrant = launch.use_reentrant or (
        checkpoints_by_arguments and is_checkpointing_reentrant(arguments, transformers_version(run.consumer))
    )
    client, unmodelled = _client_optimizer(
        run, values, options.optimizer, launch, arguments, consumer_version("torch", document.name)
    )
    _reject_unsupported_release(run.release)
    work = _micro_batch(run, options, launch, model.shape, checkpoints_by_arguments)
    given = (options.packing, launch.packing, packs_sequences(arguments))
    packing = next((each for each in given if each is not None), None)
    work = work._replace(
        attn_implementation=attention_of(model.shape, options.attention or launch.attn_implementation),
        has_varied_lengths=packing is False and not model.shape.image_size,
    )
    method = launch.method if launch.name else selected_method(arguments)
    kernels = launch.kernels if launch.name else requested_kernels(arguments, method.trainer)
    quantization = launch.quantization if launch.name else requested_quantization(arguments)
    work = add_features(
        work, kernels, quantization, options.loss, options.quantize, model.config, model.shape
    )
    trainer_name = options.trainer or method.trainer or "sft"
    trainer = method.adapt(TRAINERS[trainer_name])
    work = work._replace(
        micro_batch_size=work.micro_batch_size * trainer.sequences_per_sample,
        objective=trainer.training_objective(casts_logits=method.casts_logits),
    )
    frozen = tuple(load_model(source).shape for source in options.frozen_models)
    vllm_bytes, unknown = vllm_memory(method, options.vllm, options.gpu_bytes)
    has_optimizer = values.text("optimizer.type") is not None
    unknown = (*unknown, *unmodeled_models(trainer, bool(frozen), work.adapter is not None, has_optimizer))
    gives_length = bool(options.sequence_length or launch.sequence_length)
    work = within_positions(work, model.shape.max_position_embeddings, gives_length)
    unmodelled = (
        *model.unmodelled,
        *unknown,
        *unmodeled_experts(model.shape, work, run.consumer),
        *launch.unmodelled,
        *unmodeled_arguments(arguments),
        *unmodelled,
    )
    assumes_optimizer = client is None and default_client(values) is not None
    training_job = TrainingJob(
        run.release,
        run.world_size,
        work,
        gpus_per_node,
        client,
        zero_init,
        reentrant,
        options.gpu_limit,
        trainer,
        frozen,
        vllm_bytes,
        launch.expandable_segments if options.expandable_segments is None else options.expandable_segments,
        method.vllm_sleeps,
    )
    setup_of(values, training_job)  # a config without an estimate raises now
    return EstimateRequest(
        run,
        values,
        model.shape,
        training_job,
        launch,
        assumed,
        unmodelled,
        model.approximates,
        assumes_optimizer,
        trainer_name,
        (
            *(launch.assumed_inputs if options.loss is None else ()),
            *assumed_inputs(
                model.shape,
                work,
                gives_length=gives_length,
                gives_checkpointing=options.checkpointing is not None
                or launch.gradient_checkpointing is not None
                or (bool(launch.name) and not launch.is_checkpointing_unknown)
                or "gradient_checkpointing" in arguments,
            ),
        ),
    )


def _client_optimizer(
    run: ResolvedRun,
    values: ConfigValues,
    requested: str | None,
    launch: LaunchSettings,
    arguments: Mapping[str, Json],
    torch: tuple[str, str] | None,
) -> tuple[str | None, tuple[UnmodeledSetting, ...]]:
    """Return the optimizer that the script creates, as requested or set by the Trainer's `optim`.

    The Trainer creates an optimizer if the config has none. With offload it has to be DeepSpeed's own (engine.py,
    `zero_force_ds_cpu_optimizer`).
    """
    if (
        requested is not None
        or values.text("optimizer.type")
        or split_consumer_spec(run.consumer)[0] != "transformers"
    ):
        return requested, ()
    if values.text("zero_optimization.offload_optimizer.device") in OFFLOADED:
        return None, ()
    if "optim" in arguments:
        return trainer_optimizer(arguments), tuple(unmodeled_optimizer(arguments, ""))
    if launch.optimizer is None and not launch.unmodeled_optimizer:
        return default_optimizer_of_trainer(transformers_version(run.consumer), torch and torch[0]), ()
    return launch.optimizer, launch.unmodeled_optimizer


def _uses_zero_init(run: ResolvedRun, options: MemoryOptions, launch: LaunchSettings) -> bool:
    """Return whether `zero.Init` builds the model at stage 3.

    The Trainer does. Accelerate does if `zero3_init_flag` is on, or missing, because `DeepSpeedPlugin` then follows the
    stage (utils/dataclasses.py, `__post_init__`).
    """
    if options.zero_init is not None:
        return options.zero_init
    # `zero.Init` is on by default at stage 3 in Transformers (`HfDeepSpeedConfig`) and in Accelerate.
    return (
        split_consumer_spec(run.consumer)[0] in HUGGING_FACE if launch.zero_init is None else launch.zero_init
    )


_MEMORY_SECTIONS = ("bf16", "fp16", "zero_optimization", "optimizer")
"""Sections of the config that affect memory."""


def _reject_overwritten(document: Document, changes: Mapping[str, Json]) -> None:
    """Raise an error if a program of the repository overwrites a section that affects memory.

    Raises:
        NotModelledError: the value that the program writes is unknown.
    """
    for overwrite in config_overwrites_by_programs(document.name):
        is_known = overwrite.key in changes or not overwrite_of_key(
            document.name, overwrite.key, document.value()
        )
        if overwrite.key.partition(".")[0] in _MEMORY_SECTIONS and not is_known:
            raise NotModelledError(
                f"{overwrite.place} overwrites `{overwrite.key}` before DeepSpeed starts, so "
                "the value in the file is not the effective one",
                f'pass the value: `set={{"{overwrite.key}": VALUE}}`',
            )


def _micro_batch(
    run: ResolvedRun,
    options: MemoryOptions,
    launch: LaunchSettings,
    arch: Architecture,
    checkpoints_by_arguments: bool,
) -> MicroBatch:
    checkpointing = (
        checkpoints_by_arguments if launch.gradient_checkpointing is None else launch.gradient_checkpointing
    )
    parts = launch.composite
    adapter = launch.adapter if options.lora is None else parse_lora_settings(options.lora)
    return MicroBatch(
        samples_per_micro_batch(run),
        options.sequence_length or launch.sequence_length or arch.default_length or LENGTH,
        gradient_checkpointing=checkpointing if options.checkpointing is None else options.checkpointing,
        adapter=adapter,
        expert_imbalance=options.imbalance or 1.0,
        image_tokens=options.image_tokens,
        trains_towers=parts.trains_towers if options.train_vision is None else options.train_vision,
        trains_towers_beside_adapters=options.train_vision is True or parts.trains_towers_beside_adapters,
        checkpoints_towers=parts.checkpoints_towers,
        trains_language_model=parts.trains_language_model or adapter is not None,
    )


def _reject_unsupported_release(release: str) -> None:
    if NUMBERS[release] < NUMBERS[OLDEST]:
        raise NotModelledError(f"DeepSpeed {release} is not supported", f"use {OLDEST} or later")


def _effective_values(run: ResolvedRun, sp_size: int) -> ConfigValues:
    """Return the effective values of the sections on which the estimate depends."""
    effective_values = effective_values_of(
        run.config, run.world_size, run.release, "deepspeed", keys=SECTIONS
    )
    explicit_keys = {entry.key for entry in effective_values.values if entry.origin == "written"}
    values = {entry.key: entry.value for entry in effective_values.values if entry.origin != "ignored"}
    return ConfigValues(
        values | ({SEQUENCE: sp_size} if sp_size > 1 else {}), explicit_keys | zenflow(run.config)
    )


def _parallelism_notes(question: EstimateRequest) -> list[str]:
    """Return the notes on tensor, sequence and expert parallelism."""
    setup, micro_batch, notes = question.setup, question.micro_batch, list[str]()
    if micro_batch.sp_size > 1:
        share = f"{micro_batch.local_sequence_length} tokens each"
        notes.append(f"{micro_batch.sp_size} ranks share each sequence (`UlyssesSPAttentionHF`), {share}")
    if micro_batch.ep_size:
        count = question.arch.num_experts
        experts_per_rank = f"{count // micro_batch.ep_size} of {count} experts on each"
        tokens = (
            f"{micro_batch.expert_imbalance:g} times the tokens"
            if micro_batch.expert_imbalance > 1
            else "as many tokens"
        )
        notes.append(
            f"{micro_batch.ep_size} ranks share experts by AutoEP, {experts_per_rank}, which get {tokens} as it sends"
        )
    if setup.tp_size > 1:
        head = "" if setup.tensor_parallel.may_shard_lm_head else ", the head is not sharded"
        notes.append(f"{setup.tp_size} ranks share each linear layer (AutoTP){head}")
        if not setup.quirks.autotp_runs_in_initialize:
            notes.append("the script calls `deepspeed.tp_model_init`, as Accelerate does")
    return notes


def _model_notes(question: EstimateRequest) -> list[str]:
    """Return the notes on the model, the training method and its kernels."""
    micro_batch, notes = question.micro_batch, list[str]()
    if question.approximates:
        how = "its activations are those of a generic transformer of its sizes, within 40 %"
        notes.append(f"{question.approximates}: {how}")
    if micro_batch.has_varied_lengths:
        notes.append("sequences have different lengths, up to this one, so that torch caches more blocks")
    if question.job.expandable_segments:
        notes.append("torch's allocator has `expandable_segments`")
    notes += [f"{each.key} is not known: {each.text}" for each in question.launch.assumed_inputs]
    notes += trainer_notes(question.trainer, micro_batch.adapter is not None, question.setup.stage)
    return [*notes, *feature_notes(question.arch, micro_batch)]


def _assumptions(question: EstimateRequest) -> list[str]:
    """Return the assumptions behind the estimate."""
    setup, micro_batch, gpus_per_node, launch = (
        question.setup,
        question.micro_batch,
        question.job.gpus_per_node,
        question.launch,
    )
    dtype = "in fp32" if setup.build_itemsize == 4 else "in half precision"
    in_shards = setup.stage == 3 and setup.zero_init
    lines = list[str]()
    if question.arch.family != "sized":
        size = f"{micro_batch.micro_batch_size} × {micro_batch.sequence_length} tokens"
        is_checkpointed = micro_batch.gradient_checkpointing
        lines += [
            f"the micro batch is {size}, attention is `{micro_batch.attn_implementation}`",
            f"activations are {'checkpointed per layer' if is_checkpointed else 'not checkpointed'}",
        ]
    lines += [
        f"the model is built {dtype}, {'in shards (zero.Init)' if in_shards else 'in full in every process'}",
        f"{gpus_per_node} {'ranks' if gpus_per_node > 1 else 'rank'} per host",
    ]
    if micro_batch.gradient_checkpointing and setup.depends_on_reentrant:
        lines.append(f"checkpointing is {'' if setup.use_reentrant else 'not '}reentrant (`use_reentrant`)")
    if question.arch.family == "bert":
        what = f"{question.arch.num_labels} classes" if question.arch.num_labels else "masked words"
        lines.append(f"the model has a head for {what}, as `architectures` of its config.json says")
    lines += _parallelism_notes(question)
    if setup.super_offload:
        lines.append("not counted: the CUDA context of SuperOffload's process, which it needs to pin memory")
    if setup.quantized_weights or setup.quantized_gradients:
        lines.append("quantized communication follows DeepSpeed's source and was not measured")
    lines += _model_notes(question)
    lines += question.batch_assumptions
    first, last = MEASURED
    if not NUMBERS[first] <= NUMBERS[question.run.release] <= NUMBERS[last]:
        lines.append(f"DeepSpeed {question.run.release} was not measured; {first} to {last} were")
    if launch.name:
        places = dict.fromkeys(filter(None, (launch.name, launch.program)))
        lines.append(f"settings that are not given come from {' and '.join(places)}")
    if micro_batch.adapter is not None:
        linear_names = weights_of(question.arch, micro_batch.itemsize, micro_batch.autocast).linear_names
        targets = micro_batch.adapter.targets
        names = ", ".join(sorted(targets & linear_names.keys() or targets)) or "all linear layers"
        whole = sorted(micro_batch.adapter.saved_modules)
        trains_parts = micro_batch.trains_towers_beside_adapters or any(
            tower.is_frozen for tower in question.arch.towers
        )
        others = (
            f" next to copies of {', '.join(whole)}" if whole else "" if trains_parts else " and nothing else"
        )
        lines.append(f"adapters of rank {micro_batch.adapter.rank} are trained{others} (LoRA: {names})")
    if setup.optimizer.temporary_bytes and not setup.offloads_optimizer:
        name = "adamw" if setup.optimizer.muon_method else setup.optimizer.name
        lines.append(f"torch runs `{name}` with foreach")
    if setup.optimizer.muon_method:
        lines.append("Muon's operations are counted as eager ones; compiled ones need less")
    if setup.optimizer.is_client:
        lines.append(f"the script passes `{setup.optimizer.name}` to DeepSpeed")
    return lines
