"""Snippets for editors (`defaultSnippets`). A placeholder with a caret is inserted without quotes."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.releases import ReleaseTarget, release_name
from dsconfig.model.key_table import SectionView, child_section, section_view_of_release
from dsconfig.schema import presets
from dsconfig.schema.keywords import Schema

_DEVICE: Schema = {"device": "cpu", "pin_memory": True}
_DRIVE: Schema = {"device": "nvme", "nvme_path": "${1:/local_nvme}", "pin_memory": True}
_RATE = "^${1:0.0001}"
_STEPS: Schema = {"warmup_num_steps": "^${1:100}", "total_num_steps": "^${2:1000}"}

_SNIPPETS: dict[tuple[str, str], tuple[tuple[str, Schema], ...]] = {
    ("Config", "zero_optimization"): (
        ("stage 1", {"stage": 1}),
        ("stage 2", {"stage": 2, "overlap_comm": True}),
        ("stage 2, optimizer on the CPU", {"stage": 2, "offload_optimizer": _DEVICE}),
        ("stage 3", {"stage": 3, "overlap_comm": True, "stage3_gather_16bit_weights_on_model_save": True}),
        ("stage 3, all on the CPU", {"stage": 3, "offload_param": _DEVICE, "offload_optimizer": _DEVICE}),
        ("stage 3, all on NVMe", {"stage": 3, "offload_param": _DRIVE, "offload_optimizer": _DRIVE}),
    ),
    ("ZeroOptimization", "offload_param"): (("to host memory", _DEVICE), ("to NVMe", _DRIVE)),
    ("ZeroOptimization", "offload_optimizer"): (("to host memory", _DEVICE), ("to NVMe", _DRIVE)),
    ("Config", "optimizer"): (
        ("AdamW", {"type": "AdamW", "params": {"lr": _RATE, "weight_decay": "^${2:0.01}"}}),
        ("Lion", {"type": "Lion", "params": {"lr": _RATE, "betas": [0.9, 0.99]}}),
        ("Muon", {"type": "Muon", "params": {"muon_lr": "^${1:0.02}", "adam_lr": "^${2:0.0003}"}}),
    ),
    ("Config", "scheduler"): (
        ("warm up, then stay", {"type": "WarmupLR", "params": {"warmup_num_steps": "^${1:100}"}}),
        ("warm up, then linear", {"type": "WarmupDecayLR", "params": _STEPS}),
        ("warm up, then cosine", {"type": "WarmupCosineLR", "params": _STEPS}),
    ),
    ("Config", "bf16"): (("on", {"enabled": True}),),
    ("Config", "fp16"): (("on, loss scale adapts", {"enabled": True, "loss_scale": 0}),),
    ("Config", "activation_checkpointing"): (
        ("partitioned", {"partition_activations": True, "contiguous_memory_optimization": True}),
    ),
    ("Config", "flops_profiler"): (("at one step", {"enabled": True, "profile_step": "^${1:5}"}),),
    ("Config", "comms_logger"): (("on", {"enabled": True, "verbose": False}),),
    ("Config", "tensorboard"): (("on", {"enabled": True, "output_path": "${1:runs}"}),),
    ("Config", "wandb"): (("on", {"enabled": True, "project": "${1:project}"}),),
    ("Config", "csv_monitor"): (("on", {"enabled": True, "output_path": "${1:runs}"}),),
    ("Config", "tensor_parallel"): (("AutoTP", {"autotp_size": "^${1:4}"}),),
    ("Config", "elasticity"): (
        (
            "version 0.1",
            {"enabled": True, "max_train_batch_size": "^${1:2048}", "micro_batch_sizes": [2, 4, 8]},
        ),
    ),
}


def snippets_of(parent: SectionView, key: str, section: str, release: int) -> list[Schema]:
    """Return the snippets of a section's key whose keys the release all reads."""
    return [
        {"label": label, "body": body}
        for label, body in _SNIPPETS.get((parent.name, key), ())
        if _is_snippet_readable(section_view_of_release(section, release), body)
    ]


def _is_snippet_readable(section: SectionView, body: Schema) -> bool:
    """Whether the release reads every key of a snippet."""
    for key, value in body.items():
        if key not in section.keys:
            return False
        inner = child_section(section.keys[key].type) if isinstance(value, dict) and key != "params" else None
        if inner is not None and not _is_snippet_readable(
            section_view_of_release(inner, section.releases.first), value
        ):
            return False
    return True


def snippets_of_whole_config(release: int, consumer: str | None) -> Iterator[Schema]:
    """Yield a snippet of the whole config for each preset."""
    target = ReleaseTarget((release_name(release),), release_name(release), "argument")
    for preset in presets.PRESETS.values():
        preset_consumer = consumer or preset.consumers[0]
        if preset_consumer in preset.consumers and preset.is_suitable(release_name(release), preset_consumer):
            body = presets.preset_config(preset.name, target, preset_consumer)
            yield {"label": preset.name, "description": preset.summary, "body": body}
