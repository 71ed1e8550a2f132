"""Small commented configs that pass `check` in every release that they are meant for.

`dsconfig init` writes them, editors offer them as snippets, and `dsconfig.presets` builds on them. Strict JSON has no
comments, so a comment is a top-level key that begins with `//`, which DeepSpeed, Transformers and Accelerate ignore.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsconfig.core import releases
from dsconfig.job.consumers import CONSUMERS, ELASTIC, HUGGING_FACE, LOADERS
from dsconfig.job.consumers.consumer import BY_NAME
from dsconfig.job.detect_consumer import consumer_suggested_by_content
from dsconfig.job.job_facts import DSCONFIG_KEY
from dsconfig.model.key_table import keys_along_path

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject

_OPTIMIZER: JsonObject = {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "weight_decay": 0.1}}
_BATCH: JsonObject = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}


@dataclass(frozen=True, slots=True)
class ConfigPreset:
    """A named starting config for certain releases and consumers."""

    name: str
    summary: str
    """One line about its purpose."""
    body: JsonObject
    remarks: dict[str, str] = field(default_factory=dict)
    """Remarks by top-level key."""
    since: str = "0.9.0"
    until: str | None = None
    consumers: tuple[str, ...] = LOADERS
    """Consumers that can load it; by default the first one that can at a release."""

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that the preset is meant for, oldest first."""
        last = releases.NUMBERS[self.until] if self.until else releases.NEVER
        interval = releases.ReleaseInterval(releases.NUMBERS[self.since], last)
        return tuple(name for name, number in releases.NUMBERS.items() if number in interval)

    def is_suitable(self, release: str, consumer: str) -> bool:
        """Return whether a consumer can use the preset with a release."""
        # `dsconfig elastic run` removes the `elasticity` section, which later releases do not support.
        later = consumer == ELASTIC and releases.NUMBERS[release] >= releases.NUMBERS[self.since]
        return later or release in self.releases

    def default_consumer(self, release: str) -> str:
        """Return the first consumer that can use the preset with a release, or the first of all if none can."""
        suitable = (each for each in self.consumers if self.is_suitable(release, each))
        return next(suitable, self.consumers[0])


class PresetError(ValueError):
    """The preset is unknown, or not suitable for the release or consumer; the message is a single line."""


def preset_config(
    name: str,
    target: str | releases.ReleaseTarget | None = None,
    consumer: str | None = None,
    *,
    remarks: bool = False,
) -> JsonObject:
    """Return the config of a preset as a dict.

    Args:
        name: the preset, one of `PRESETS`.
        target: DeepSpeed release, or a range, whose newest release is used. None: as for `check`.
        consumer: library that loads the config. None: the first consumer that can use the preset with that release.
        remarks: whether to include the preset's comments, as keys that begin with `//`.

    Raises:
        PresetError: the preset is unknown, or not suitable for the release or consumer.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown.
    """
    preset = _preset_by_name(name)
    resolved = target if isinstance(target, releases.ReleaseTarget) else releases.resolve_target(target)
    release = resolved.releases[-1]
    resolved_consumer = consumer or preset.default_consumer(release)
    if resolved_consumer not in CONSUMERS:
        raise ValueError(f"unknown consumer `{resolved_consumer}`: expected one of {', '.join(CONSUMERS)}")
    if resolved_consumer not in preset.consumers:
        raise PresetError(
            f"preset `{name}` is for {', '.join(preset.consumers)}, not for {resolved_consumer}"
        )
    if not preset.is_suitable(release, resolved_consumer):
        span = f"from {preset.since} " + (f"to {preset.until}" if preset.until else "on")
        raise PresetError(f"preset `{name}` is for DeepSpeed {span}, not for {release}")
    body = copy.deepcopy(preset.body)
    if resolved_consumer in HUGGING_FACE:
        _set_auto_values(resolved_consumer, body, ())
    if resolved_consumer == "lightning":  # Lightning sets it and rejects a config that contains it
        body.pop("gradient_accumulation_steps", None)
    return _add_remarks(preset, body, resolved_consumer) if remarks else body


def preset_text(
    name: str,
    target: str | releases.ReleaseTarget | None = None,
    consumer: str | None = None,
    *,
    file: str = "ds_config.json",
) -> str:
    """Return a preset as commented text, in the format that the file name implies.

    Raises the errors of `preset_config`.
    """
    from dsconfig.document.pretty_print import format_config_for_file

    body = preset_config(name, target, consumer, remarks=True)
    # All consumers except DeepSpeed itself reject comments in JSON.
    comments = (consumer or PRESETS[name].consumers[0]) == "deepspeed"
    return format_config_for_file(file, body, comments=comments)


def _preset_by_name(name: str) -> ConfigPreset:
    if name not in PRESETS:
        from dsconfig.core.wording import closest_words

        close = closest_words(name, PRESETS)
        hint = f"did you mean `{close[0]}`?" if close else f"expected one of {', '.join(PRESETS)}"
        raise PresetError(f"unknown preset `{name}`: {hint}")
    return PRESETS[name]


def _set_auto_values(consumer: str, section: JsonObject, path: tuple[str, ...]) -> None:
    """Use "auto" for each value that the consumer resolves from its own arguments."""
    fills = {fill.key for fill in BY_NAME[consumer].fills}
    for key, value in section.items():
        dotted = ".".join((*path, key))
        if isinstance(value, dict):
            _set_auto_values(consumer, value, (*path, key))
        elif dotted in fills and not _keeps_value(dotted):
            section[key] = "auto"


def _keeps_value(path: str) -> bool:
    """Return whether presets keep the value at a path instead of using "auto"."""
    return any("spelled_out" in info.flags for info in keys_along_path(tuple(path.split("."))))


def _add_remarks(preset: ConfigPreset, body: JsonObject, consumer: str) -> JsonObject:
    """Add comments to a preset, and its consumer if the values do not show it."""
    remarked: JsonObject = {"//": preset.summary}
    if consumer_suggested_by_content(body).name != consumer:
        remarked[DSCONFIG_KEY] = {"consumer": consumer}
    for key, value in body.items():
        if key in preset.remarks or key in _REMARKS:
            remarked[f"// {key}"] = preset.remarks.get(key) or _REMARKS[key]
        remarked[key] = value
    return remarked


_REMARKS = {
    "train_micro_batch_size_per_gpu": "Samples per GPU and forward pass; limited by GPU memory.",
    "gradient_accumulation_steps": "Forward passes per optimizer step. Batch size = this × the value above × GPUs.",
    "gradient_clipping": "Maximum global gradient norm.",
    "bf16": "Requires an A100 or later; use fp16 on older GPUs.",
    "optimizer": "Omit it if the script passes its own optimizer.",
}


def _zero_section(stage: int, **more: Json) -> JsonObject:
    return {
        **_BATCH,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "optimizer": _OPTIMIZER,
        "zero_optimization": {"stage": stage, **more},
    }


def preset_in_fp16(body: JsonObject) -> JsonObject:
    """Return a preset with fp16 and dynamic loss scaling instead of bf16, for GPUs without bfloat16."""
    scaled: JsonObject = {
        "enabled": True,
        "loss_scale": 0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
    }
    kept = {key: value for key, value in body.items() if key not in ("bf16", "// bf16")}
    return {**kept, "fp16": scaled}


_CPU: JsonObject = {"device": "cpu", "pin_memory": True}
_GATHERED: JsonObject = _zero_section(3, stage3_gather_16bit_weights_on_model_save=True)
_NVME: JsonObject = {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True}
_ALL: tuple[ConfigPreset, ...] = (
    ConfigPreset(
        "zero1",
        "ZeRO stage 1: shards optimizer state over the GPUs. As fast as plain data parallelism.",
        _zero_section(1),
    ),
    ConfigPreset(
        "zero2",
        "ZeRO stage 2: shards optimizer state and gradients. For models that fit on each GPU.",
        _zero_section(2, overlap_comm=True),
        {
            "zero_optimization": "overlap_comm hides communication behind backward, but needs two more buckets."
        },
    ),
    ConfigPreset(
        "zero2-offload",
        "ZeRO stage 2 with optimizer offload to host memory, if optimizer state does not fit on the GPU.",
        _zero_section(2, offload_optimizer=_CPU),
        {"zero_optimization": "The update runs on the CPU: slower steps, much less GPU memory."},
    ),
    ConfigPreset(
        "zero3",
        "ZeRO stage 3: shards parameters too. For models that do not fit on one GPU.",
        _zero_section(3, overlap_comm=True, stage3_gather_16bit_weights_on_model_save=True),
        {
            "zero_optimization": "Weights are gathered when the model is saved, so that the result is one model file."
        },
    ),
    ConfigPreset(
        "zero3-offload-optimizer",
        "ZeRO stage 3 with optimizer offload to host memory; parameters stay on the GPUs.",
        _zero_section(3, offload_optimizer=_CPU, stage3_gather_16bit_weights_on_model_save=True),
        {
            "zero_optimization": "The update runs on the CPU: slower steps, less GPU memory than stage 3 alone."
        },
    ),
    ConfigPreset(
        "zero3-offload-cpu",
        "ZeRO stage 3 with offload of parameters and optimizer state to host memory.",
        _zero_section(
            3,
            offload_param=_CPU,
            offload_optimizer=_CPU,
            stage3_gather_16bit_weights_on_model_save=True,
        ),
        {"zero_optimization": "Parameters are copied from host memory to the GPU when a layer needs them."},
    ),
    ConfigPreset(
        "zero3-offload-nvme",
        "ZeRO stage 3 with offload of parameters and optimizer state to NVMe, for the largest models.",
        {
            **_zero_section(
                3,
                offload_param=_NVME,
                offload_optimizer=_NVME,
                stage3_gather_16bit_weights_on_model_save=True,
            ),
            "aio": {"block_size": 1048576, "queue_depth": 16, "overlap_events": True},
        },
        {
            "zero_optimization": "nvme_path is a directory on a fast local drive, not on the network.",
            "aio": "I/O settings of the drive; `ds_nvme_tune` finds the best values for yours.",
        },
        since="0.13.0",  # the first release that can save its checkpoints (DSC426)
    ),
    ConfigPreset(
        "zeropp",
        "ZeRO++: stage 3 with less communication between nodes, for slow networks.",
        preset_in_fp16(
            _zero_section(
                3,
                zero_quantized_weights=True,
                zero_hpz_partition_size=8,
                stage3_gather_16bit_weights_on_model_save=True,
            )
        ),
        {
            "fp16": "Quantized weights are read as fp16; from 0.19.6 on bf16 weights are converted first.",
            "zero_optimization": "zero_hpz_partition_size is the number of GPUs of one node.",
        },
        since="0.10.0",
    ),
    ConfigPreset(
        "fp16",
        "ZeRO stage 2 in fp16 with dynamic loss scaling, for GPUs without bfloat16.",
        preset_in_fp16(_zero_section(2)),
        {
            "fp16": "loss_scale 0 is dynamic loss scaling, which starts at 2 to the power of initial_scale_power."
        },
    ),
    ConfigPreset(
        "muon",
        "The Muon optimizer for matrices, Adam for the rest.",
        {
            **_zero_section(2),
            "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 3e-4, "weight_decay": 0.1}},
        },
        {"optimizer": "Muon needs a much larger learning rate than Adam."},
        since="0.18.3",
    ),
    ConfigPreset(
        "tensor-parallel",
        "Tensor parallelism (AutoTP) over the GPUs of a node, with ZeRO stage 1.",
        {**_zero_section(1), "tensor_parallel": {"autotp_size": 4}},
        {"tensor_parallel": "Ranks that share each layer; the number of GPUs must be a multiple of it."},
        since="0.16.4",
    ),
    ConfigPreset(
        "elastic",
        "Constant batch size with a varying number of GPUs; `dsconfig elastic plan` shows the sizes.",
        {
            "elasticity": {
                "enabled": True,
                "max_train_batch_size": 2048,
                "micro_batch_sizes": [2, 4, 8],
                "min_gpus": 1,
                "max_gpus": 256,
                "version": 0.1,
            },
            **{key: value for key, value in _zero_section(2).items() if key not in _BATCH},
        },
        {"elasticity": "Replaces the batch keys. `dsconfig elastic run` works with any release."},
        until="0.19.7",
        consumers=(*LOADERS, ELASTIC),
    ),
    ConfigPreset(
        "transformers",
        'For the Transformers Trainer, which resolves "auto" from its arguments.',
        {
            "train_batch_size": "auto",
            **_zero_section(2, reduce_bucket_size=500_000_000),
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
        {"scheduler": "Omit `optimizer` and `scheduler` to use those of the Trainer."},
        consumers=("transformers",),
    ),
    ConfigPreset(
        "accelerate",
        "For scripts with Accelerate: `accelerate launch --use_deepspeed --deepspeed_config_file`.",
        {
            "train_batch_size": "auto",
            **{key: value for key, value in _GATHERED.items() if key not in ("optimizer", "bf16")},
            "bf16": {"enabled": True},
        },
        {"zero_optimization": "The script creates the optimizer and the scheduler."},
        consumers=("accelerate",),
    ),
)
PRESETS: dict[str, ConfigPreset] = {preset.name: preset for preset in _ALL}
"""Every preset by name."""
