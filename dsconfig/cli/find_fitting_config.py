"""Find a first config for a model and GPU: the fastest ZeRO level that fits, and the launch command."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.batch_triplet import MICRO, STEPS
from dsconfig.core.gpu_memory import WITHOUT_BF16
from dsconfig.document import read_text
from dsconfig.document.config_file_names import is_yaml_name
from dsconfig.document.pretty_print import format_config_for_file
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.memory import EXCEEDS, FITS, UNKNOWN, NotModelledError, RequestedLimits, weights_of
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.memory import LENGTH, estimate_request
from dsconfig.resolve.memory_options import MemoryOptions
from dsconfig.resolve.model_source import load_model
from dsconfig.schema import presets

if TYPE_CHECKING:
    from dsconfig.core.gpu_memory import GpuMemory
    from dsconfig.core.json_types import JsonObject
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.job.consumers import HUGGING_FACE
    from dsconfig.memory import Estimate
from dsconfig.memory import Verdict


class JobRequest(NamedTuple):
    """The job that the user wants to run, and the machines available."""

    model: str
    """Name of the model, or path of its `config.json`."""
    world_size: int
    gpus_per_node: int
    gpu: GpuMemory
    margin: int | None
    """Bytes of a GPU to keep free, in place of the expected memory besides tensors; None if not requested."""
    consumer: str
    offload: str
    """Permitted offload, a key of `OFFLOADS`."""
    host: int | None
    """Host memory of a node in bytes; None if unknown, in which case it is not checked."""
    sequence_length: int
    lora: str | None
    target: ReleaseTarget
    file: str
    """File name of the config, which determines its format."""
    script: str

    @property
    def memory_limits(self) -> RequestedLimits:
        """The memory limits of a GPU and of a node."""
        return RequestedLimits(self.gpu, self.host, self.margin)

    @property
    def precision(self) -> str:
        """`bf16`, or `fp16` if the GPU does not support bfloat16."""
        cards = {name for name, _ in self.gpu.cards}
        return "fp16" if cards and cards <= WITHOUT_BF16 else "bf16"


class PresetStep(NamedTuple):
    """A preset that the search tries as one of its steps."""

    preset: str
    offload: str
    title: str


LEVELS = (
    PresetStep("zero2", "none", "ZeRO 2"),
    PresetStep("zero3", "none", "ZeRO 3"),
    PresetStep("zero2-offload", "cpu", "ZeRO 2, optimizer on the CPU"),
    PresetStep("zero3-offload-optimizer", "cpu", "ZeRO 3, optimizer on the CPU"),
    PresetStep("zero3-offload-cpu", "cpu", "ZeRO 3, optimizer and parameters on the CPU"),
    PresetStep("zero3-offload-nvme", "nvme", "ZeRO 3, optimizer and parameters on NVMe"),
)
"""Levels from the fastest to the one with the least memory; each communicates or copies more than the previous."""
OFFLOADS = {"auto": ("none", "cpu", "nvme"), "none": ("none",), "cpu": ("cpu",), "nvme": ("nvme",)}
"""Offloads that each choice allows; `auto` offloads only what would not fit otherwise."""
MOST_MICRO = 8
"""Largest micro batch that the search tries, beyond which larger matrix products hardly speed up a step."""
ACCUMULATION = 4
MOST_RANKS = 4096


class TriedSetting(NamedTuple):
    """A setting that the search has tried, with its memory estimate."""

    level: PresetStep
    checkpointing: bool
    micro_batch: int
    estimate: Estimate
    needed: int
    """Memory that the setting needs on a GPU in bytes; see `needed_gpu_bytes`."""
    verdict: Verdict
    host_verdict: Verdict | None
    defects: frozenset[str] = frozenset()
    """Known defects of the release that affect this setting."""


class FittingPlan(NamedTuple):
    """The result of the search for a config that fits."""

    request: JobRequest
    trials: tuple[TriedSetting, ...]
    """All settings tried at micro batch 1, in order; the last one fits, unless none does."""
    chosen: TriedSetting | None
    larger: TriedSetting | None = None
    """The chosen setting with twice the micro batch, which does not fit; None if it was not tried."""
    ranks: int | None = None
    """World size at which the last level would fit, if no level fits at the requested one."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Levels that the release or the model does not support, with the reason."""

    @property
    def verdict(self) -> Verdict:
        """Whether a config fits; unknown if one of the tried settings may fit."""
        if self.chosen is not None:
            return FITS
        may_fit = any(EXCEEDS not in (each.verdict, each.host_verdict) for each in self.trials)
        return UNKNOWN if may_fit else EXCEEDS


def find_fitting_config(request: JobRequest) -> FittingPlan:
    """Find the fastest ZeRO level that fits, preferably without activation checkpointing, and its largest micro batch.

    Raises:
        NotModelledError: the model is unknown or not supported.
        OSError, ValueError: as for `memory`.
    """
    load_model(request.model)  # an unknown model is not the fault of a level
    trials: list[TriedSetting] = []
    skipped: dict[str, str] = {}
    defects: frozenset[str] | None = None  # those of the fastest level come with any level
    for level in LEVELS:
        if level.offload not in OFFLOADS[request.offload]:
            continue
        for checkpointing in (False, True):
            try:
                trial = _try_setting(request, level, checkpointing, 1)
            except (presets.PresetError, ResolveError, NotModelledError) as error:
                skipped[level.title] = str(error)
                continue
            defects = trial.defects if defects is None else defects
            if trial.defects - defects:
                skipped[level.title] = "; ".join(sorted(trial.defects - defects))
                continue
            trials.append(trial)
            if _does_fit(trial):
                return _maximize_micro_batch(
                    FittingPlan(request, tuple(trials), trial, skipped=tuple(skipped.items()))
                )
    if not trials:
        raise NotModelledError("; ".join(dict.fromkeys(skipped.values())))
    last, ranks = trials[-1], request.world_size
    while (ranks := ranks * 2) <= MOST_RANKS:
        if _does_fit(_try_setting(request._replace(world_size=ranks), last.level, True, 1)):
            return FittingPlan(request, tuple(trials), None, None, ranks, tuple(skipped.items()))
    return FittingPlan(request, tuple(trials), None, skipped=tuple(skipped.items()))


def _maximize_micro_batch(plan: FittingPlan) -> FittingPlan:
    """Return the plan with the largest power of two as micro batch that still fits."""
    chosen = plan.chosen
    while chosen is not None and chosen.micro_batch < MOST_MICRO:
        larger = _try_setting(plan.request, chosen.level, chosen.checkpointing, chosen.micro_batch * 2)
        if not _does_fit(larger):
            return plan._replace(chosen=chosen, larger=larger)
        chosen = larger
    return plan._replace(chosen=chosen)


def _does_fit(trial: TriedSetting) -> bool:
    return trial.verdict == FITS and trial.host_verdict in (None, FITS)


def _try_setting(
    request: JobRequest, level: PresetStep, checkpointing: bool, micro_batch: int
) -> TriedSetting:
    """Estimate a setting using the exact config text and arguments that would be written."""
    arguments = planned_training_arguments(request, checkpointing, micro_batch)
    options = MemoryOptions(
        request.model,
        request.world_size,
        request.target,
        request.consumer,
        request.sequence_length,
        None if arguments else micro_batch,
        checkpointing=checkpointing,
        lora=request.lora,
        gpus_per_node=request.gpus_per_node,
        set={} if arguments else _auto_values(request),
        training_args=arguments or None,
        zero_init=True if _needs_zero_init(request, level) else None,
        gpu_limit=request.gpu.usable_bytes(request.margin),
    )
    # Without its name, so that launch files which are already in the folder do not count.
    text = config_text(request, level, micro_batch)
    document = read_text(text, "<config>", "yaml" if is_yaml_name(request.file) else "json")
    estimated = estimate_request(document, options)
    estimate = estimated.answer()
    rank, host = request.memory_limits.verdicts(estimate)
    assert rank is not None
    needed = needed_gpu_bytes(request, estimate)
    return TriedSetting(
        level, checkpointing, micro_batch, estimate, needed, rank, host, estimated.known_defects()
    )


def needed_gpu_bytes(request: JobRequest, estimate: Estimate) -> int:
    """Return the GPU memory to compare with the limit: the maximum expected on the device, or that of the tensors."""
    if request.margin is None and estimate.device is not None:
        return estimate.device.high(request.gpu.most)
    return estimate.rank.upper_bound


def _needs_zero_init(request: JobRequest, level: PresetStep) -> bool:
    """Return whether the training script must call `zero.Init` itself, which Transformers and Accelerate do for it."""
    return level.preset.startswith("zero3") and request.consumer not in HUGGING_FACE


def planned_training_arguments(request: JobRequest, checkpointing: bool, micro_batch: int) -> JsonObject:
    """Return the arguments from which the Trainer resolves "auto", or none for other consumers."""
    if request.consumer != "transformers":
        return {}
    arguments: JsonObject = {
        "per_device_train_batch_size": micro_batch,
        STEPS: ACCUMULATION,
        request.precision: True,
    }
    return {**arguments, "gradient_checkpointing": True} if checkpointing else arguments


def _auto_values(request: JobRequest) -> JsonObject:
    """Return the values with which the training script replaces "auto"."""
    return {STEPS: ACCUMULATION} if request.consumer == "accelerate" else {}


def config_text(request: JobRequest, level: PresetStep, micro_batch: int) -> str:
    """Return the config text: the consumer's preset with precision and micro batch filled in."""
    body = presets.preset_config(level.preset, request.target, request.consumer, remarks=True)
    if request.precision == "fp16":
        body = presets.preset_in_fp16(body)
    if request.consumer == "accelerate":
        # The script passes its own optimizer, and Accelerate rejects a second one in the config. The precision
        # stays in the file, because `accelerate launch` may run with a default of its own.
        body = {key: value for key, value in body.items() if key not in ("optimizer", "// optimizer")}
        if request.precision == "bf16":
            body["bf16"] = {"enabled": True}
    if body.get(MICRO) != "auto":
        body[MICRO] = micro_batch
    if level.offload == "nvme":
        zero = body["zero_optimization"]
        assert isinstance(zero, dict)
        # DeepSpeed stops at a shard that is larger than a buffer (swap_tensor/partitioned_param_swapper.py).
        parameters = zero["offload_param"]
        assert isinstance(parameters, dict)
        zero["offload_param"] = {**parameters, "buffer_size": _parameter_buffer_numel(request)}
    return format_config_for_file(request.file, body, comments=request.consumer == "deepspeed")


def _parameter_buffer_numel(request: JobRequest) -> int:
    """Return the numel of a buffer for the largest parameter shard, at least DeepSpeed's default."""
    largest = max(
        weight.numel for weight in weights_of(load_model(request.model).shape, 2, autocast=False).weights
    )
    return max(100_000_000, -(-largest // request.world_size // 1024) * 1024)


# The launch command.

SCRIPT_NAME = "launch.sh"


def launch_script(plan: FittingPlan) -> str:
    """Return a shell script that starts the job, with comments on what the training script must do."""
    request, chosen = plan.request, plan.chosen
    assert chosen is not None
    needed = format_gib(chosen.needed)
    lines = ["#!/bin/sh", f"# {job_headline(request)}: up to {needed} GiB per GPU"]
    lines += [f"# {each}" for each in duties_of_training_script(plan)]
    words = [" ".join(map(_quote_for_shell, line)) for line in _launch_command_words(plan)]
    return "\n".join([*lines, " \\\n  ".join(words), ""])


def _quote_for_shell(word: str) -> str:
    return word if word.startswith('"$') else shlex.quote(word)


def _launch_command_words(plan: FittingPlan) -> Iterator[Sequence[str]]:
    """Yield the words of the launch command, grouped by line."""
    request, chosen = plan.request, plan.chosen
    assert chosen is not None
    per_node = min(request.gpus_per_node, request.world_size)
    nodes = -(-request.world_size // per_node)
    script, file = request.script, request.file
    if request.consumer == "transformers":
        rendezvous = (
            ("--rdzv-backend", "c10d", "--rdzv-endpoint", '"$MASTER_ADDR:29500"') if nodes > 1 else ()
        )
        count = ("--nnodes", str(nodes)) if nodes > 1 else ()
        yield ("torchrun", *count, "--nproc-per-node", str(per_node), *rendezvous, script)
        yield ("--deepspeed", file)
        if "/" in request.model:
            yield ("--model_name_or_path", request.model)
        for name, value in planned_training_arguments(
            request, chosen.checkpointing, chosen.micro_batch
        ).items():
            yield (f"--{name}", str(value).lower())
    elif request.consumer == "accelerate":
        yield ("accelerate", "launch", "--use_deepspeed", "--deepspeed_config_file", file)
        yield ("--num_processes", str(request.world_size), "--num_machines", str(nodes))
        if nodes > 1:
            yield (
                "--machine_rank",
                '"$NODE_RANK"',
                "--main_process_ip",
                '"$MASTER_ADDR"',
                "--main_process_port",
                "29500",
            )
        yield (script,)
    elif request.consumer == "lightning":
        yield ("python", script)
    else:
        many = ("--hostfile", "hostfile", "--num_nodes", str(nodes)) if nodes > 1 else ()
        yield ("deepspeed", *many, "--num_gpus", str(per_node), script)
        yield ("--deepspeed", "--deepspeed_config", file)


def duties_of_training_script(plan: FittingPlan) -> list[str]:
    """Return what the training script itself must do, because no config or launcher can."""
    request, chosen = plan.request, plan.chosen
    assert chosen is not None
    per_node = min(request.gpus_per_node, request.world_size)
    nodes, duty_lines = -(-request.world_size // per_node), []
    if request.consumer == "lightning":
        precision = "bf16-mixed" if request.precision == "bf16" else "16-mixed"
        duty_lines.append(
            f'pass to the Trainer: strategy=DeepSpeedStrategy(config="{request.file}"), devices={per_node},'
            f' num_nodes={nodes}, precision="{precision}", accumulate_grad_batches={ACCUMULATION}'
        )
    if request.consumer == "accelerate":
        accelerator = f"Accelerator(gradient_accumulation_steps={ACCUMULATION})"
        duty_lines.append(f"create the DataLoader with batch_size={chosen.micro_batch}, and {accelerator}")
    if _needs_zero_init(request, chosen.level):
        duty_lines.append(
            "build the model in configure_model(), which runs under deepspeed.zero.Init"
            if request.consumer == "lightning"
            else f'build the model under deepspeed.zero.Init(config_dict_or_path="{request.file}")'
        )
    if chosen.checkpointing and request.consumer != "transformers":
        duty_lines.append("turn on activation checkpointing: model.gradient_checkpointing_enable()")
    if chosen.level.offload == "nvme":
        duty_lines.append("set nvme_path in the config to a folder on a local NVMe drive")
    return duty_lines


# Output.


def format_gib(number: int) -> str:
    """Format a number of bytes in GiB with one decimal."""
    return f"{number / (1 << 30):.1f}"


def job_headline(request: JobRequest) -> str:
    """Describe the requested job on one line."""
    gpu = request.gpu.name or f"{format_gib(request.gpu.least)} GiB"
    gpus = "GPU" if request.world_size == 1 else "GPUs"
    lora = f", LoRA {request.lora}" if request.lora else ""
    return (
        f"{request.model} on {request.world_size} {gpus} ({gpu}) with {request.consumer}{lora},"
        f" {request.sequence_length} tokens per sequence"
    )


def search_report(plan: FittingPlan) -> Iterator[str]:
    """Yield the lines that report the search: settings tried, setting chosen, and why."""
    request = plan.request
    yield f"{job_headline(request)}:"
    width = max(len(_setting_title(each)) for each in plan.trials)
    for trial in plan.trials:
        yield f"  {_setting_title(trial):{width}}  {format_gib(trial.needed):>8} GiB  {_describe_outcome(trial)}"
    for title, reason in plan.skipped:
        yield f"  {title}: left out: {reason}"
    size = f"{format_gib(request.gpu.least)} GiB"
    if request.margin is None:
        yield f"Highest memory of a GPU that nvidia-smi should show, at micro batch 1; the GPU has {size}."
    else:
        headroom = f"{format_gib(request.margin)} GiB"
        yield f"Highest memory of the tensors at micro batch 1; the GPU has {size}, of which {headroom} stay free."
    if plan.chosen is None:
        yield from _advice_lines(plan)
        return
    yield from _explain_choice(plan, plan.chosen)


def _setting_title(trial: TriedSetting) -> str:
    return trial.level.title + (", activation checkpointing" if trial.checkpointing else "")


def _describe_outcome(trial: TriedSetting) -> str:
    if trial.verdict == FITS and trial.host_verdict not in (None, FITS):
        verb = "may need up to" if trial.host_verdict == UNKNOWN else "needs up to"
        return f"fits, but the node {verb} {format_gib(trial.estimate.host.upper_bound)} GiB"
    return str(trial.verdict)


def _explain_choice(plan: FittingPlan, chosen: TriedSetting) -> Iterator[str]:
    request = plan.request
    if len(plan.trials) == 1:
        yield f"- {_setting_title(chosen)}: the fastest level that is allowed, and it fits."
    else:
        yield f"- {_setting_title(chosen)}: the levels above it are faster, but do not fit."
    needed = format_gib(chosen.needed)
    limit = (
        f"; {plan.larger.micro_batch} would need {format_gib(plan.larger.needed)} GiB" if plan.larger else ""
    )
    yield f"- Micro batch {chosen.micro_batch} needs {needed} GiB per GPU{limit}."
    batch = chosen.micro_batch * ACCUMULATION * request.world_size
    yield (
        f"- Batch size {batch} = {chosen.micro_batch} (micro batch) × {ACCUMULATION} (accumulation steps) ×"
        f" {request.world_size} (GPUs); more accumulation steps need no more memory."
    )
    if request.precision == "fp16":
        yield f"- fp16, because {request.gpu.name} has no bfloat16."
    if chosen.level.offload != "none":
        host = format_gib(chosen.estimate.host.upper_bound)
        known = "" if request.host is not None else "; pass --host to check it"
        yield f"- Offload needs up to {host} GiB of memory on each node{known}."
    for duty in duties_of_training_script(plan):
        yield f"- The script has to: {duty}." if not duty.startswith("set ") else f"- You have to {duty}."


def _advice_lines(plan: FittingPlan) -> Iterator[str]:
    request, last = plan.request, plan.trials[-1]
    ways = []
    if last.verdict == FITS:
        least = min(each.estimate.host.upper_bound for each in plan.trials if each.verdict == FITS)
        yield "No level fits: the node has too little memory for those that fit the GPUs."
        ways.append(f"{format_gib(least)} GiB of memory on each node")
    else:
        yield f"No level fits: {_setting_title(last)} needs {format_gib(last.needed)} GiB per GPU."
    if plan.ranks:
        ways.append(f"{plan.ranks} GPUs")
    if request.offload != "auto":
        ways.append("--offload auto")
    if not request.lora:
        ways.append("--lora r=16,target=all")
    if (request.sequence_length) > 1024:
        ways.append("a shorter --sequence-length")
    yield f"What would help: {', '.join(ways) or 'a GPU with more memory'}."


def memory_command(plan: FittingPlan) -> str:
    """Return the `dsconfig memory` command that repeats the estimate of the chosen config."""
    request, chosen = plan.request, plan.chosen
    assert chosen is not None
    words = [
        "dsconfig",
        "memory",
        request.file,
        "--model",
        request.model,
        "--world-size",
        str(request.world_size),
    ]
    if request.gpus_per_node != min(8, request.world_size):
        words += ["--gpus-per-node", str(request.gpus_per_node)]
    words += ["--micro-batch", str(chosen.micro_batch), "--gpu", request.gpu.name or str(request.gpu.least)]
    words += ["--checkpointing" if chosen.checkpointing else "--no-checkpointing"]
    words += ["--zero-init"] if _needs_zero_init(request, chosen.level) else []
    words += ["--sequence-length", str(request.sequence_length)]
    words += ["--lora", request.lora] if request.lora else []
    words += ["--margin", str(request.margin)] if request.margin is not None else []
    for key, value in _auto_values(request).items():
        words += ["--set", f"{key}={value}"]
    if request.consumer == "transformers":
        words += ["--set", "bf16.enabled=true"] if request.precision == "bf16" else []
    return shlex.join(words)


# Defaults: the sequence length, and the GPUs of this machine.


def default_sequence_length(model: str) -> int:
    """Return the default tokens per sequence, capped at the model's maximum if it is known."""
    try:
        most = load_model(model).shape.max_position_embeddings
    except (OSError, ValueError):
        return LENGTH
    return min(LENGTH, most or LENGTH)


def detect_local_gpus(folder: str = "/proc/driver/nvidia/gpus") -> tuple[int, str]:
    """Return the number and model of the NVIDIA GPUs in this machine, or 0 if there are none or they differ.

    The driver lists the GPUs in files, so that no program has to run.
    """
    names = []
    try:
        for entry in sorted(os.listdir(folder)):
            with open(os.path.join(folder, entry, "information"), encoding="utf-8", errors="replace") as file:
                names += [line.partition(":")[2].strip() for line in file if line.startswith("Model:")]
    except OSError:
        return 0, ""
    return (len(names), names[0]) if len(set(names)) == 1 else (0, "")
