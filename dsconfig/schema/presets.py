"""Configs to start from: small, commented, and clean in every release that they name.

`dsconfig init` writes them, editors offer them as snippets, `dsconfig.presets` builds on them. A remark is a
key of the top level that begins with `//`: DeepSpeed, Transformers and Accelerate pass over it, and strict
JSON has no other way to comment.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsconfig.consumers import CONSUMERS, ELASTIC, HUGGING_FACE, LOADERS
from dsconfig.consumers.consumer import BY_NAME
from dsconfig.core import releases
from dsconfig.job.detect_consumer import consumer_of_content
from dsconfig.job.run_facts import DSCONFIG_KEY
from dsconfig.model.keyinfo import along

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

_OPTIMIZER: JsonObject = {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}}
_BATCH: JsonObject = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}


@dataclass(frozen=True, slots=True)
class Preset:
    """One config to start from."""

    name: str
    says: str
    """What it is for, in one line."""
    body: JsonObject
    remarks: dict[str, str] = field(default_factory=dict)
    """A remark for a key of the top level."""
    since: str = "0.9.0"
    until: str | None = None
    consumers: tuple[str, ...] = LOADERS
    """Who can read it; the first who can at a release does, unless somebody else is named."""

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that the preset is for, oldest first."""
        last = releases.NUMBERS[self.until] if self.until else releases.NEVER
        known = releases.Interval(releases.NUMBERS[self.since], last)
        return tuple(name for name, number in releases.NUMBERS.items() if number in known)

    def suits(self, release: str, consumer: str) -> bool:
        """Whether the preset is for a release that the consumer trains with."""
        # `dsconfig elastic run` takes out what later releases lack.
        later = consumer == ELASTIC and releases.NUMBERS[release] >= releases.NUMBERS[self.since]
        return later or release in self.releases

    def reader(self, release: str) -> str:
        """Who reads it at a release, if nobody is named: the first who can, else the first."""
        able = (each for each in self.consumers if self.suits(release, each))
        return next(able, self.consumers[0])


class PresetError(ValueError):
    """No such preset, or none for that release; the message is one line."""


def config(
    name: str,
    target: str | releases.Target | None = None,
    consumer: str | None = None,
    *,
    remarks: bool = False,
) -> JsonObject:
    """The config of a preset.

    Args:
        name: the preset, one of `PRESETS`.
        target: the release that is to read it, of a range the newest; None: as for `check`.
        consumer: who is to read it; None: the first of the preset's consumers who can at that release.
        remarks: whether to put the preset's remarks in, as keys that begin with `//`.

    Raises:
        PresetError: there is no such preset, or the release cannot run it.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown.
    """
    preset = _named(name)
    found = target if isinstance(target, releases.Target) else releases.resolve(target)
    release = found.releases[-1]
    reader = consumer or preset.reader(release)
    if reader not in CONSUMERS:
        raise ValueError(f"unknown consumer `{reader}`: expected one of {', '.join(CONSUMERS)}")
    if reader not in preset.consumers:
        raise PresetError(f"preset `{name}` is for {', '.join(preset.consumers)}, not for {reader}")
    if not preset.suits(release, reader):
        span = f"from {preset.since} " + (f"to {preset.until}" if preset.until else "on")
        raise PresetError(f"preset `{name}` is for DeepSpeed {span}, not for {release}")
    body = copy.deepcopy(preset.body)
    if reader in HUGGING_FACE:
        _leave_to(reader, body, ())
    if reader == "lightning":  # which sets it itself, and refuses a config that does
        body.pop("gradient_accumulation_steps", None)
    return _remarked(preset, body, reader) if remarks else body


def text(
    name: str,
    target: str | releases.Target | None = None,
    consumer: str | None = None,
    *,
    file: str = "ds_config.json",
) -> str:
    """The config as a commented text: JSON, or what the name of the file says; raises as `config` does."""
    from dsconfig.document.json_format import pretty_for

    found = config(name, target, consumer, remarks=True)
    # Whoever is not DeepSpeed itself refuses comments in JSON.
    comments = (consumer or PRESETS[name].consumers[0]) == "deepspeed"
    return pretty_for(file, found, comments=comments)


def _named(name: str) -> Preset:
    if name not in PRESETS:
        from dsconfig.core.wording import closest

        close = closest(name, PRESETS)
        hint = f"did you mean `{close[0]}`?" if close else f"expected one of {', '.join(PRESETS)}"
        raise PresetError(f"unknown preset `{name}`: {hint}")
    return PRESETS[name]


def _leave_to(consumer: str, section: JsonObject, path: tuple[str, ...]) -> None:
    """Write "auto" wherever the consumer has the value from its own arguments."""
    fills = {fill.key for fill in BY_NAME[consumer].fills}
    for key, value in section.items():
        dotted = ".".join((*path, key))
        if isinstance(value, dict):
            _leave_to(consumer, value, (*path, key))
        elif dotted in fills and not _spelled_out(dotted):
            section[key] = "auto"


def _spelled_out(path: str) -> bool:
    """Whether the value is what a preset is about, so that it stays written."""
    return any("spelled_out" in info.flags for info in along(tuple(path.split("."))))


def _remarked(preset: Preset, body: JsonObject, reader: str) -> JsonObject:
    """The body with remarks, and with the name of its reader where its values do not show that."""
    found: JsonObject = {"//": preset.says}
    if consumer_of_content(body).name != reader:
        found[DSCONFIG_KEY] = {"consumer": reader}
    for key, value in body.items():
        if key in preset.remarks or key in _REMARKS:
            found[f"// {key}"] = preset.remarks.get(key) or _REMARKS[key]
        found[key] = value
    return found


_REMARKS = {
    "train_micro_batch_size_per_gpu": "Samples of one GPU in one pass; what fits into its memory.",
    "gradient_accumulation_steps": "Passes before the optimizer steps. Batch = this × the above × GPUs.",
    "gradient_clipping": "Largest norm of all gradients together.",
    "bf16": "Needs an A100 or newer; older GPUs take fp16 instead.",
    "optimizer": "Leave it out if the script brings an optimizer of its own.",
}


def _zero(stage: int, **more: Json) -> JsonObject:
    return {
        **_BATCH,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "optimizer": _OPTIMIZER,
        "zero_optimization": {"stage": stage, **more},
    }


def _in_fp16(body: JsonObject) -> JsonObject:
    scaled: JsonObject = {
        "enabled": True,
        "loss_scale": 0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
    }
    return {**{key: value for key, value in body.items() if key != "bf16"}, "fp16": scaled}


_CPU: JsonObject = {"device": "cpu", "pin_memory": True}
_GATHERED: JsonObject = _zero(3, stage3_gather_16bit_weights_on_model_save=True)
_NVME: JsonObject = {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True}
_ALL: tuple[Preset, ...] = (
    Preset(
        "zero1",
        "ZeRO stage 1: optimizer state is spread over the GPUs. As fast as plain data parallelism.",
        _zero(1),
    ),
    Preset(
        "zero2",
        "ZeRO stage 2: optimizer state and gradients are spread. For models that fit on each GPU.",
        _zero(2, overlap_comm=True),
        {"zero_optimization": "overlap_comm hides traffic behind the backward pass, for two more buckets."},
    ),
    Preset(
        "zero2-offload",
        "ZeRO stage 2 with the optimizer in host memory, for when its state does not fit.",
        _zero(2, offload_optimizer=_CPU),
        {"zero_optimization": "The update runs on the CPU: slower steps, much less GPU memory."},
    ),
    Preset(
        "zero3",
        "ZeRO stage 3: parameters are spread too. For models that do not fit on one GPU.",
        _zero(3, overlap_comm=True, stage3_gather_16bit_weights_on_model_save=True),
        {"zero_optimization": "Weights are gathered for saving, so that the checkpoint is one model file."},
    ),
    Preset(
        "zero3-offload-cpu",
        "ZeRO stage 3 with parameters and optimizer in host memory.",
        _zero(
            3,
            offload_param=_CPU,
            offload_optimizer=_CPU,
            stage3_gather_16bit_weights_on_model_save=True,
        ),
        {"zero_optimization": "Everything waits in host memory, and comes to the GPU when a layer needs it."},
    ),
    Preset(
        "zero3-offload-nvme",
        "ZeRO stage 3 with parameters and optimizer on an NVMe drive, for the largest models.",
        {
            **_zero(
                3,
                offload_param=_NVME,
                offload_optimizer=_NVME,
                stage3_gather_16bit_weights_on_model_save=True,
            ),
            "aio": {"block_size": 1048576, "queue_depth": 16, "overlap_events": True},
        },
        {
            "zero_optimization": "nvme_path is a directory on a fast local drive, not on the network.",
            "aio": "How the drive is read and written; `ds_nvme_tune` finds the best values for yours.",
        },
        since="0.13.0",  # the first that saves a checkpoint of it (DSC426)
    ),
    Preset(
        "zeropp",
        "ZeRO++: stage 3 with less traffic between nodes, for slow networks.",
        _in_fp16(
            _zero(
                3,
                zero_quantized_weights=True,
                zero_hpz_partition_size=8,
                stage3_gather_16bit_weights_on_model_save=True,
            )
        ),
        {
            "fp16": "What is quantised is read as fp16; from 0.19.6 on bf16 weights are converted before.",
            "zero_optimization": "zero_hpz_partition_size is the number of GPUs of one node.",
        },
        since="0.10.0",
    ),
    Preset(
        "fp16",
        "ZeRO stage 2 in fp16 with dynamic loss scaling, for GPUs without bfloat16.",
        _in_fp16(_zero(2)),
        {"fp16": "loss_scale 0 means that it adapts, from 2 to the power of initial_scale_power on."},
    ),
    Preset(
        "muon",
        "The Muon optimizer for matrices, Adam for the rest.",
        {
            **_zero(2),
            "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 3e-4, "weight_decay": 0.1}},
        },
        {"optimizer": "Matrices take far larger steps than what is left to Adam."},
        since="0.18.3",
    ),
    Preset(
        "tensor-parallel",
        "Layers split over the GPUs of a node (AutoTP), beside ZeRO stage 1.",
        {**_zero(1), "tensor_parallel": {"autotp_size": 4}},
        {"tensor_parallel": "Ranks that share each layer; the number of GPUs must be a multiple of it."},
        since="0.16.4",
    ),
    Preset(
        "elastic",
        "A batch that stays the same while GPUs come and go; `dsconfig elastic plan` shows the sizes.",
        {
            "elasticity": {
                "enabled": True,
                "max_train_batch_size": 2048,
                "micro_batch_sizes": [2, 4, 8],
                "min_gpus": 1,
                "max_gpus": 256,
                "version": 0.1,
            },
            **{key: value for key, value in _zero(2).items() if key not in _BATCH},
        },
        {"elasticity": "Replaces the batch keys. `dsconfig elastic run` starts it with any release."},
        until="0.19.7",
        consumers=(*LOADERS, ELASTIC),
    ),
    Preset(
        "transformers",
        "For the Trainer of Transformers: what it knows from its arguments is left to it.",
        {
            "train_batch_size": "auto",
            **_zero(2, reduce_bucket_size=500_000_000),
            "scheduler": {
                "type": "WarmupDecayLR",
                "params": {
                    "warmup_min_lr": 0,
                    "warmup_max_lr": 1e-4,
                    "warmup_num_steps": 100,
                    "total_num_steps": 1000,
                },
            },
        },
        {"scheduler": "Leave both blocks out to use the Trainer's own optimizer and scheduler."},
        consumers=("transformers",),
    ),
    Preset(
        "accelerate",
        "For scripts with Accelerate: `accelerate launch --use_deepspeed --deepspeed_config_file`.",
        {
            "train_batch_size": "auto",
            **{key: value for key, value in _GATHERED.items() if key not in ("optimizer", "bf16")},
            "bf16": {"enabled": True},
        },
        {"zero_optimization": "The script's own optimizer and scheduler are used."},
        consumers=("accelerate",),
    ),
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
"""Every preset by name."""
