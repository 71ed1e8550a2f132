"""`memory`: the request, with its missing arguments and micro batch, and the estimate for a rank and a host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import MappingSource, asked, build_job, mapping
from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.file_access import OUTSIDE
from dsconfig.core.gpu_memory import gpu as gpu_of
from dsconfig.core.releases import NUMBERS
from dsconfig.document import Document
from dsconfig.job.job import Job
from dsconfig.job.run_facts import of_file
from dsconfig.launch.config_source import read
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.launch.program_behavior import overwrite_of, overwrites
from dsconfig.memory.autotp import BY_CONFIG
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.estimate import NO_LIMIT, MemoryLimit, estimate
from dsconfig.memory.estimate import Estimate as Estimate  # noqa: PLC0414  # callers get it here
from dsconfig.memory.memory_ledger import LimitExceededError
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.models.registry import weights_of
from dsconfig.memory.optimizers import zenflow_section as zenflow
from dsconfig.memory.read_setup import OFFLOADED, SECTIONS, Values, default_client, setup_of
from dsconfig.memory.ulysses import KEY as SEQUENCE
from dsconfig.memory.verdict import SCRIPT_OPTIMIZER, NotModelledError
from dsconfig.memory.verdict import Verdict as Verdict  # noqa: PLC0414  # callers get it here
from dsconfig.resolve.effective_values import effective
from dsconfig.resolve.errors import ResolveError, UnfilledError, UnknownWorldSizeError
from dsconfig.resolve.input_config import read_input_config
from dsconfig.resolve.launch_overrides import (
    LaunchSettings,
    is_reentrant,
    launch_settings,
    optimizer_of,
    unmodeled_arguments,
    unmodeled_optimizer,
)
from dsconfig.resolve.model_source import ModelSource, adapter_of, model_of
from dsconfig.resolve.resolve import resolve_job
from dsconfig.resolve.run import Run

if TYPE_CHECKING:
    from dsconfig.core.batch_triplet import Parallelism
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.core.releases import Target
    from dsconfig.launch.config_source import ConfigSource
    from dsconfig.memory.verdict import UnmodeledSetting


# `memory`: from a config and a model to what a rank and a host hold.


def memory(  # noqa: PLR0913  every argument stands for an option of the command
    source: ConfigSource | Document,
    *,
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    sequence_length: int | None = None,
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
    set: Mapping[str, Json] | None = None,
) -> Estimate:
    """What a rank and its host hold in training, at rest and at the peaks of a step; see also `resolve`.

    Args:
        source: a path, text, bytes, a dict or a document that was read; see `check`.
        model: its `config.json` (a path or a mapping), a name, or a `Shape`; None: as the file itself names.
        world_size: number of ranks, one a GPU; None: as for `resolve`.
        target: the release that runs it, of a range the newest; None: as for `check`.
        consumer: who reads the file; None: it is found out.
        sequence_length: tokens of a sequence; None: as a launch file says, else 2048.
        micro_batch: samples of a micro batch; None: as the config says.
        attention: `sdpa`, `flash` or `eager`; None: as a launch file says, else `sdpa`.
        checkpointing: whether layers are computed again; None: as a launch file or training arguments say.
        lora: adapters that are trained instead of the model: `r=16,target=q_proj,v_proj`, or a mapping.
        optimizer: what the script hands to DeepSpeed, where the config names no optimizer; see `CLIENTS`.
        zero_init: whether the model is built in shards at stage 3; None: as Transformers and
            Accelerate do it (`zero3_init_flag`), where they read the file.
        gpus_per_node: ranks that share a host; None: 8, or all of fewer.
        imbalance: with AutoEP, tokens that the busiest rank's experts get in times of the mean; None: 1.
        gpu: its memory in bytes, or as `--gpu` takes it (`80GiB`, `h100`, `48GB`), by which stages 1 and 2
            choose where they flatten weights from 0.19.0 on; None: they do it on the GPU.
        sp: ranks that share each sequence (Ulysses); None: as `sequence_parallel_size` of the config says.
        set: values to write first, by dotted path.
        training_args: what the consumer fills "auto" from; see `check`.
        launch: the launch file whose arguments count; see `check`.

    Raises:
        NotModelledError: something in the config or the model is not supported yet; the text names it.
        UnknownWorldSizeError, ResolveError, OSError, UnknownReleaseError, ValueError: as `resolve` does.
    """
    given = (sequence_length, micro_batch, attention, checkpointing, lora, optimizer, zero_init)
    options = Options(
        model, world_size, target, consumer, *given, gpus_per_node, set, training_args, sp, imbalance
    )
    options = options._replace(launch=launch, gpu_limit=None if gpu is None else gpu_of(gpu).room())
    return estimate_request(source if isinstance(source, Document) else read(source), options).answer()


# What `memory` is asked, and what the answer is computed from: a set-up, a shape and the work of a step.

OLDEST = "0.14.0"
MEASURED = ("0.14.1", "0.19.8")
"""Releases whose engines were measured."""
LENGTH, NODE = 2048, 8
ATTENTION = ("sdpa", "flash", "eager")
MOST_IMBALANCE = 4096


class Options(NamedTuple):
    """The arguments of `memory`, beside the config."""

    model: ModelSource | None = None
    world_size: int | None = None
    target: str | Target | None = None
    consumer: str | None = None
    sequence_length: int | None = None
    micro_batch: int | None = None
    attention: str | None = None
    checkpointing: bool | None = None
    lora: str | Mapping[str, Json] | None = None
    optimizer: str | None = None
    zero_init: bool | None = None
    gpus_per_node: int | None = None
    set: Mapping[str, Json] | None = None
    training_args: MappingSource = None
    sp: int | None = None
    imbalance: float | None = None
    launch: str | os.PathLike[str] | None = None
    job: Job | None = None
    """The job, where it is known already; None: it follows from target, world size and consumer."""
    gpu_limit: int | None = None
    """Bytes that a GPU has for tensors: its memory less what is kept free."""

    def job_of(self, located: LocatedConfig) -> Job:
        """The job of a config."""
        said = asked(self.target, self.world_size, self.consumer, launch=self.launch)
        return self.job or build_job(located, said)

    def validate(self) -> None:
        """Refuse what is impossible."""
        if self.attention not in (None, *ATTENTION):
            raise ValueError(f"attention {self.attention!r}: expected one of {', '.join(ATTENTION)}")
        if self.imbalance is not None and not 1 <= self.imbalance <= MOST_IMBALANCE:
            raise ValueError(f"imbalance {self.imbalance!r}: expected a number from 1 to {MOST_IMBALANCE}")
        for name in ("sequence_length", "micro_batch", "gpus_per_node", "sp"):
            value = getattr(self, name)
            if type(value) is int and value > LONGEST:
                raise ValueError(f"{name} {str(value)[:20]}: expected at most {LONGEST}")
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} {str(value)[:20]!r}: expected a whole number above 0")


class EstimateRequest(NamedTuple):
    """Everything that an estimate is computed from."""

    run: Run
    values: Values
    setup: Setup
    arch: Architecture
    micro_batch: MicroBatch
    gpus_per_node: int
    """Ranks that share a host."""
    launch: LaunchSettings
    batch_assumptions: tuple[str, ...]
    """What is assumed of the batch."""
    unmodelled: tuple[UnmodeledSetting, ...] = ()
    assumes_optimizer: bool = False
    """Whether nothing says which optimizer the script makes."""

    def answer(self) -> Estimate:
        """What a rank and its host hold."""
        return self._answer(NO_LIMIT)

    def fitting(self, room: MemoryLimit) -> Estimate | None:
        """The same, if it fits; None as soon as it is clear that it does not."""
        try:
            found = self._answer(room)
        except LimitExceededError:
            return None
        return found if room.fits(found) else None

    def _answer(self, room: MemoryLimit) -> Estimate:
        assumed = tuple(_assumptions(self))
        found = estimate(
            self.setup, self.arch, self.micro_batch, self.run.release, self.gpus_per_node, assumed, room
        )
        doubts = (*found.assumed, SCRIPT_OPTIMIZER) if self.assumes_optimizer else found.assumed
        return replace(found, unmodelled=self.unmodelled, assumed=doubts)


def estimate_request(document: Document, options: Options) -> EstimateRequest:
    """The question in full; see `memory` for what it raises."""
    options.validate()
    located = locate(document)
    job = options.job_of(located)
    said = launch_settings(document, job.reader)
    own = of_file(document.value(), document.name).model
    if own and own.barred and options.model is None:
        raise NotModelledError(f"the model {own.shown} {OUTSIDE}, and is not read", "give it as `model`")
    source = options.model or (own.named if own else said.model)
    if source is None:
        raise NotModelledError("no model", "give `model`: its config.json, or a name such as llama-3-8b")
    model = model_of(source)
    changes = dict(options.set or {})
    changes |= {} if options.micro_batch is None else {MICRO: options.micro_batch}
    args = mapping(options.training_args)
    shared = options.sp or _configured_sp_size(document, changes)
    known = read_input_config(located, job).facts
    shared = _launched_sp_size(known.parallelism, shared, options.sp)

    def resolving(batch: Mapping[str, Json], arguments: Mapping[str, Json] | None) -> Run:
        degrees = (None, None, shared if shared > 1 else options.sp, None)
        return resolve_job(located, job, degrees, {**changes, **batch}, arguments, model.config)

    free = options.micro_batch is not None and not {STEPS, TRAIN} & changes.keys()
    _reject_overwritten(document, changes)
    run, assumed = with_micro_batch(
        lambda batch: resolve_with_defaults(partial(resolving, batch), args), free
    )
    values = _effective_values(run, shared)
    in_shards = _uses_zero_init(run, options, said)
    node = min(options.gpus_per_node or NODE, run.world_size)
    arguments = args or {}
    by_arguments = bool(arguments.get("gradient_checkpointing"))
    reentrant = said.use_reentrant or (by_arguments and is_reentrant(arguments))
    client, left_out = _client_optimizer(run, values, options.optimizer, said, arguments)
    setup = _setup(run, values, client, in_shards)
    setup = setup._replace(gpus_per_node=node, use_reentrant=reentrant, gpu_limit=options.gpu_limit)
    work = _work(run, setup, options, said, by_arguments)
    work = work._replace(
        attn_implementation=_attention(model.shape, options.attention or said.attn_implementation)
    )
    places = model.shape.max_position_embeddings
    if places and work.sequence_length > places:
        if options.sequence_length or said.sequence_length:
            raise ValueError(
                f"a sequence of {work.sequence_length} tokens is longer than the {places} that the model has"
            )
        work = work._replace(sequence_length=places)
    left_out = (*said.unmodelled, *unmodeled_arguments(arguments), *left_out)
    is_assumed = client is None and setup.optimizer.is_client
    return EstimateRequest(run, values, setup, model.shape, work, node, said, assumed, left_out, is_assumed)


def _client_optimizer(
    run: Run, values: Values, asked: str | None, said: LaunchSettings, arguments: Mapping[str, Json]
) -> tuple[str | None, tuple[UnmodeledSetting, ...]]:
    """The optimizer that the script makes, as it is asked for or as the Trainer's `optim` says.

    The Trainer makes one where the config has none; offloaded it has to be DeepSpeed's own
    (engine.py, `zero_force_ds_cpu_optimizer`).
    """
    if asked is not None or values.text("optimizer.type") or parted(run.consumer)[0] != "transformers":
        return asked, ()
    if values.text("zero_optimization.offload_optimizer.device") in OFFLOADED:
        return None, ()
    if "optim" in arguments:
        return optimizer_of(arguments), tuple(unmodeled_optimizer(arguments, ""))
    return said.optimizer, said.unmodeled_optimizer


def _uses_zero_init(run: Run, options: Options, said: LaunchSettings) -> bool:
    """Whether the model is built in shards at stage 3.

    The Trainer does that, and Accelerate where `zero3_init_flag` is on or left out: `DeepSpeedPlugin` takes
    the stage for it then (utils/dataclasses.py, `__post_init__`).
    """
    if options.zero_init is not None:
        return options.zero_init
    return parted(run.consumer)[0] in HUGGING_FACE if said.zero_init is None else said.zero_init


_SIZED = ("bf16", "fp16", "zero_optimization", "optimizer")
"""The sections on which memory hangs."""


def _reject_overwritten(document: Document, changes: Mapping[str, Json]) -> None:
    """Stop where a program of the repository writes what memory hangs on.

    Raises:
        NotModelledError: it does, and the value is not set.
    """
    for found in overwrites(document.name):
        known = found.key in changes or not overwrite_of(document.name, found.key, document.value())
        if found.key.partition(".")[0] in _SIZED and not known:
            raise NotModelledError(
                f"{found.place} writes `{found.key}` before DeepSpeed starts, and the file does not tell it",
                f'give `set={{"{found.key}": VALUE}}`',
            )


def _configured_sp_size(document: Document, changes: Mapping[str, Json]) -> int:
    """Ranks that share each sequence, as the config says; they divide the batch."""
    data = document.value()
    written = changes.get(SEQUENCE, data.get(SEQUENCE) if isinstance(data, dict) else None)
    return written if type(written) is int and written > 1 else 1


def _launched_sp_size(launch_world_size: Parallelism, shared: int, asked: int | None) -> int:
    """The ranks that share a sequence, those of the launch file among them.

    Raises:
        NotModelledError: ranks share the model, or sequences in another way than Ulysses.
    """
    for degree in launch_world_size.degrees:
        if degree.kind == "tensor" and degree.divides is False:
            continue  # AutoTP, as the config has it
        if degree.size == 1 or (degree.kind in ("sequence", "context") and asked is not None):
            continue
        if degree.kind != "sequence" or not degree.is_known or not degree.divides:
            raise NotModelledError(f"{degree.kind} parallelism is not supported yet: {degree}")
        shared = degree.size or shared
    return shared


def _work(run: Run, setup: Setup, options: Options, said: LaunchSettings, by_arguments: bool) -> MicroBatch:
    checks = by_arguments if said.gradient_checkpointing is None else said.gradient_checkpointing
    adapter = said.adapter if options.lora is None else adapter_of(options.lora)
    return MicroBatch(
        samples(run),
        options.sequence_length or said.sequence_length or LENGTH,
        setup.itemsize,
        setup.autocast,
        ATTENTION[0],
        checks if options.checkpointing is None else options.checkpointing,
        saves_linear_inputs=setup.memory_efficient_linear,
        adapter=adapter and adapter._replace(stays_fp32=setup.keeps_fp32_adapters),
        tensor_parallel=setup.tensor_parallel,
        sp_size=setup.sp_size,
        ep_size=setup.ep_size,
        expert_imbalance=min(options.imbalance or 1.0, max(1, setup.ep_size)),  # all tokens of all ranks
    )


def _attention(shape: Architecture, asked: str | None) -> str:
    """As it is asked for, or as Transformers chooses it."""
    runs = shape.variant.attn_implementations
    if asked is not None and asked not in runs:
        raise NotModelledError(
            f"Transformers does not run `{shape.name}` with `{asked}` attention", f"give {' or '.join(runs)}"
        )
    return asked or runs[0]


def _setup(run: Run, values: Values, optimizer: str | None, in_shards: bool) -> Setup:
    if NUMBERS[run.release] < NUMBERS[OLDEST]:
        raise NotModelledError(
            f"DeepSpeed {run.release} is not supported yet", f"give {OLDEST} or a later one"
        )
    client = optimizer or default_client(values)
    return setup_of(values, run.world_size, client, in_shards, NUMBERS[run.release])


def _effective_values(run: Run, shared: int) -> Values:
    """Every value that counts, those that are not written among them."""
    shown = effective(run.config, run.world_size, run.release, "deepspeed", keys=SECTIONS)
    given = {found.key for found in shown.values if found.origin == "written"}
    values = {found.key: found.value for found in shown.values if found.origin != "ignored"}
    return Values(values | ({SEQUENCE: shared} if shared > 1 else {}), given | zenflow(run.config))


def _parallelism_notes(question: EstimateRequest) -> list[str]:
    """What ranks share, and who asks for it."""
    setup, work, found = question.setup, question.micro_batch, list[str]()
    if work.sp_size > 1:
        part = f"{work.local_sequence_length} tokens of it each"
        found.append(f"{work.sp_size} ranks share a sequence, by `UlyssesSPAttentionHF`, {part}")
    if work.ep_size:
        each = f"{question.arch.num_experts // work.ep_size} of {question.arch.num_experts} experts on each"
        tokens = (
            f"{work.expert_imbalance:g} times the tokens" if work.expert_imbalance > 1 else "as many tokens"
        )
        found.append(f"{work.ep_size} ranks share experts by AutoEP, {each}, which get {tokens} as it sends")
    if setup.tp_size > 1:
        whole = "" if setup.tensor_parallel.may_shard_lm_head else ", the head is whole"
        found.append(f"{setup.tp_size} ranks share each linear layer by AutoTP{whole}")
        if NUMBERS[question.run.release] < BY_CONFIG:
            found.append("the script calls `deepspeed.tp_model_init`, as Accelerate does")
    return found


def _assumptions(question: EstimateRequest) -> list[str]:
    """What the numbers rest on."""
    setup, work, node, said = question.setup, question.micro_batch, question.gpus_per_node, question.launch
    built = "in fp32" if setup.build_itemsize == 4 else "in half precision"
    shards = setup.stage == 3 and setup.zero_init
    found = [
        f"a micro batch is {work.micro_batch_size} × {work.sequence_length} tokens, attention is `{work.attn_implementation}`",
        f"activations are {'' if work.gradient_checkpointing else 'not '}checkpointed layer by layer",
        f"the model is built {built}, {'in shards (zero.Init)' if shards else 'whole in each process'}",
        f"{node} {'ranks share' if node > 1 else 'rank has'} a host",
        "not counted: the CUDA context, NCCL's buffers, fragmentation, kernels' workspaces",
    ]
    if work.gradient_checkpointing and setup.stage == 3 and setup.quirks.miscounts_recomputed_modules:
        found.append(f"checkpointing is {'' if setup.use_reentrant else 'not '}reentrant (`use_reentrant`)")
    if question.arch.family == "bert":
        what = f"{question.arch.num_labels} classes" if question.arch.num_labels else "masked words"
        found.append(f"the model has a head for {what}, as `architectures` of its config.json says")
    found += _parallelism_notes(question)
    if setup.super_offload:
        found.append("SuperOffload's process has a CUDA context of its own where it pins memory: not counted")
    if setup.quantized_weights or setup.quantized_gradients:
        found.append("what quantised weights and gradients hold was read in DeepSpeed's source")
    found += question.batch_assumptions
    first, last = MEASURED
    if not NUMBERS[first] <= NUMBERS[question.run.release] <= NUMBERS[last]:
        found.append(f"DeepSpeed {question.run.release} was not measured: {first} to {last} were")
    if said.name:
        found.append(f"what is not given is as {said.name} says")
    if work.adapter is not None:
        there = weights_of(question.arch, work.itemsize, work.autocast).linear_names
        names = ", ".join(sorted(work.adapter.targets & there.keys())) or "all linear layers"
        found.append(f"adapters of rank {work.adapter.rank} are trained, and nothing else (LoRA: {names})")
    if setup.optimizer.temporary_bytes and not setup.offloads_optimizer:
        name = "adamw" if setup.optimizer.muon_method else setup.optimizer.name
        found.append(f"torch runs `{name}` on lists of tensors (foreach)")
    if setup.optimizer.muon_method:
        found.append("Muon's operations are counted one by one: where torch compiles them they hold less")
    if setup.optimizer.is_client:
        found.append(f"the script hands `{setup.optimizer.name}` to DeepSpeed")
    return found


# A run whose training arguments nobody gives: those that take memory are asked for, others have defaults.

PRECISIONS = ("fp16", "bf16")


class Resolved(NamedTuple):
    """A run, and what is assumed of its batch, a line each."""

    run: Run
    assumed: tuple[str, ...] = ()


def resolve_with_defaults(
    resolve: Callable[[Mapping[str, Json] | None], Run], given: Mapping[str, Json] | None
) -> Resolved:
    """The run with the training arguments that are given, or with those that memory does not hang on.

    Raises:
        UnfilledError: the micro batch or the precision is not known; the text asks for these alone.
    """
    try:
        return Resolved(resolve(given))
    except UnfilledError as error:
        config = error.config
        missing = _missing_batch(config) + _missing_precision(error)
        if missing:
            are = "is" if len(missing) == 1 else "are"
            raise UnfilledError(
                missing,
                config,
                f"`{'` and `'.join(missing)}` {are} `auto`, and what is filled in is not known",
                *(_ASKED[key] for key in missing),
                "or give the arguments as `training_args`",
            ) from None
        args = {name: config[key] for key, name in _ARGUMENTS.items() if type(config.get(key)) is int}
        args |= {name: True for name in PRECISIONS if _enabled(config, name) is True}
        args.setdefault(_ARGUMENTS[STEPS], 1)
        default = f"`{STEPS}` is 1, as the training arguments have it by default"
        return Resolved(resolve({**args, **(given or {})}), (default,) * (config.get(STEPS) == "auto"))


_ARGUMENTS = {MICRO: "per_device_train_batch_size", STEPS: "gradient_accumulation_steps"}
_ASKED = {
    MICRO: "give `micro_batch`",
    "fp16.enabled": 'give `set={"fp16.enabled": True}`',
    "bf16.enabled": 'give `set={"bf16.enabled": True}`',
}


def _missing_batch(config: JsonObject) -> list[str]:
    """The micro batch, where it or a batch that is made of it is left to the arguments."""
    left = "auto" in (config.get(MICRO), config.get(TRAIN)) and type(config.get(MICRO)) is not int
    return [MICRO] * left


def _missing_precision(error: UnfilledError) -> list[str]:
    """The key to ask for, where the config leaves its precision to the arguments."""
    if any(_enabled(error.config, name) is True for name in PRECISIONS):
        return []
    left = [f"{name}.enabled" for name in PRECISIONS if _enabled(error.config, name) == "auto"]
    return [key for key in left[-1:] if key in error.keys]


def _enabled(config: JsonObject, name: str) -> Json:
    block = config.get(name)
    return block.get("enabled") if isinstance(block, dict) else None


# A micro batch that is asked for, where the config's own batch does not go with it.

LONGEST = 1 << 40
"""No sequence and no micro batch is longer."""


def samples(run: Run) -> int:
    """The micro batch of a run.

    Raises:
        ValueError: it is no number of samples, though DeepSpeed takes it for one.
    """
    value = run.train_micro_batch_size_per_gpu
    if not isinstance(value, (int, float)) or value != value // 1:
        raise ValueError(f"`{MICRO}` is `{value}`: a micro batch has no part of a sample")
    if value > LONGEST:
        raise ValueError(f"`{MICRO}` {str(int(value))[:20]}: expected at most {LONGEST}")
    return int(value)


def with_micro_batch(resolve: Callable[[Mapping[str, Json]], Resolved], free: bool) -> Resolved:
    """The run with the first of these changes that goes: none, other steps, another batch.

    `free`: whether the batch may be changed at all.

    Raises:
        ResolveError: nothing goes; it is that of the config as it is.
    """
    try:
        return resolve({})
    except (UnfilledError, UnknownWorldSizeError):
        raise
    except ResolveError as error:
        for found in _with_other_batch(resolve) if free else ():
            return found
        raise error from None


def _with_other_batch(resolve: Callable[[Mapping[str, Json]], Resolved]) -> Iterator[Resolved]:
    for left in (STEPS, TRAIN):
        try:
            run, assumed = resolve({left: None})
        except ResolveError:
            continue
        batch, steps = run.train_batch_size, run.gradient_accumulation_steps
        if left == STEPS:
            said = f"`{STEPS}` is {steps} with this micro batch, and `{TRAIN}` stays {batch}"
        else:
            said = f"`{TRAIN}` is {batch} with this micro batch"
        yield Resolved(run, (*assumed, said))
