"""Where a key that a section does not know was meant to stand."""

from __future__ import annotations

from functools import lru_cache

from dsconfig.diagnostic import Path, dotted
from dsconfig.model.keyinfo import ROOT, child_section, section_keys, types_of, view
from dsconfig.rules._similar import SHORT

# Names that documentation, tutorials, examples and other frameworks use, and what they stand for (None:
# nothing). A key is a dotted path, or a bare name for the top level.
DEAD: dict[str, str | None] = {
    "comms_config": "comms_logger",
    "monitor_config": "tensorboard",
    "grandient_accumulation_steps": "gradient_accumulation_steps",
    "train_micro_batch_size": "train_micro_batch_size_per_gpu",
    "micro_batch_size": "train_micro_batch_size_per_gpu",
    "micro_batch_per_gpu": "train_micro_batch_size_per_gpu",
    "train_step_batch_size": "train_micro_batch_size_per_gpu",
    "train_micro_batch_size_per_device": "train_micro_batch_size_per_gpu",
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "batch_size": "train_batch_size",
    "global_batch_size": "train_batch_size",
    "gradient_accumulation": "gradient_accumulation_steps",
    "grad_accum_steps": "gradient_accumulation_steps",
    "max_grad_norm": "gradient_clipping",
    "grad_clip": "gradient_clipping",
    "clip_grad_norm": "gradient_clipping",
    "zero_all_gather_size": "allgather_size",
    "zero": "zero_optimization",
    "zero_stage": "zero_optimization.stage",
    "stage": "zero_optimization.stage",
    "fp16_enabled": "fp16.enabled",
    "bf16_enabled": "bf16.enabled",
    "betas": "optimizer.params.betas",
    "gradient_checkpointing": None,
    "num_epochs": None,
    "num_train_epochs": None,
    "seed": None,
    "elasticity.prefer_large_batch": "elasticity.prefer_larger_batch",
    "zero_optimization.grad_hooks": None,
    "quantize_training.quantize-algo": "quantize_training.quantize_algo",
    "quantize_training.quantize_type": "quantize_training.quantize_algo.q_type",
    "quantize_training.quantize_eigenvalue": "quantize_training.eigenvalue",
    "flops_profiler.step": "flops_profiler.profile_step",
    "torch_autocast.enable": "torch_autocast.enabled",
    "fp16.enable": "fp16.enabled",
    "bf16.enable": "bf16.enabled",
    "bf16.loss_scale": None,
    "bf16.initial_scale_power": None,
    "bf16.loss_scale_window": None,
    "bf16.hysteresis": None,
    "bf16.min_loss_scale": None,
    "bf16.auto_cast": None,
    "bf16.check_overflow": "bf16.check_grad_overflow",
    "fp16.initial_loss_scale_power": "fp16.initial_scale_power",
    "activation_checkpointing.partitioned_activations": "activation_checkpointing.partition_activations",
    "autotuning.start_step": "autotuning.start_profile_step",
    "autotuning.end_step": "autotuning.end_profile_step",
    "tensor_parallel.size": "tensor_parallel.autotp_size",
}


def stands_for(path: Path) -> str | None:
    """The key that is meant by one that never was: "" where there is none; None for any other path."""
    word = dotted(path)
    if word not in DEAD:
        return None
    return DEAD[word] or ""


@lru_cache(maxsize=8)
def _homes(release: int) -> dict[str, list[str]]:
    """Every key name that the release reads, with its dotted paths; free-form objects are left out."""
    homes: dict[str, list[str]] = {}

    def visit(section: str, path: tuple[str, ...]) -> None:
        for word, key in view(section, release).keys.items():
            if word == key.info.name:
                homes.setdefault(word, []).append(".".join((*path, word)))
                inner = child_section(key.type)
                if inner:
                    visit(inner, (*path, word))

    visit(ROOT, ())
    return homes


def home_of(word: str, parent: Path, release: int) -> str | None:
    """The one place where the release reads a key of this name; of several, that inside or above `parent`."""
    inside = _param_of_type(word, parent, release)
    if inside is not None:
        return inside
    found = _homes(release).get(word, [])
    if len(found) > 1:
        above = dotted(parent)
        near = [
            path
            for path in found
            if path.startswith(f"{above}.") or above.startswith(path.rpartition(".")[0])
        ]
        found = near if len(near) == 1 and len(word) > SHORT else []
    return found[0] if len(found) == 1 and word not in _COMMON else None


_WITH_TYPES: dict[Path, str] = {("optimizer",): "Optimizer", ("scheduler",): "Scheduler"}


def _param_of_type(word: str, parent: Path, release: int) -> str | None:
    """The place of a key beside `type` that belongs among the params of an optimizer or a scheduler."""
    section = _WITH_TYPES.get(parent)
    for kind in types_of(section).values() if section else ():
        key = section_keys(kind.params).get(word) if kind.params else None
        if key is not None and key.read_in(release):
            return f"{dotted(parent)}.params.{word}"
    return None


_COMMON = frozenset({"enabled", "type", "params", "name", "names", "config", "version", "size", "mode"})
