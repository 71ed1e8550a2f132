"""Sections that may stay closed: a wrong value in there stops nothing for sure.

The general rules of types say `crashes` only of a value that the engine certainly meets. Where a switch is
off, or where only a certain kind of model or a call in the script opens the section, what is written has no
effect until then; the rules of the domain know the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from dsconfig.diagnostic import Path
from dsconfig.evaluation.context import Context, SkipRule
from dsconfig.rules._formats import model_format

_Opens = Callable[[Context], bool]


def _switch(path: str) -> _Opens:
    return lambda ctx: ctx.on(path)


def _half(ctx: Context) -> bool:
    return model_format(ctx) != "fp32"


def _never(_: Context) -> bool:
    """What opens the section stands in no config."""
    return False


_SECTIONS: dict[Path, _Opens] = {
    ("activation_checkpointing",): _never,  # deepspeed.checkpointing.configure, called by the script
    ("autotuning",): _never,  # the tuner, or the end of one of its trials
    ("compression_training",): _never,  # deepspeed.compression.init_compression, called by the script
    ("curriculum_learning",): _switch("curriculum_learning.enabled"),
    ("data_efficiency",): _never,  # the data loader that a `training_data` argument makes
    ("data_types", "buffer_dtype"): _half,  # cast together with the parameters
    ("elasticity",): _switch("elasticity.enabled"),
    ("expert_parallel",): _never,  # rules of their own know what the engine checks
    ("flops_profiler",): _switch("flops_profiler.enabled"),
    ("nebula",): _switch("nebula.enabled"),
    ("optimizer", "params"): _switch("optimizer.type"),
    ("pipeline",): _never,  # PipelineEngine, made for a PipelineModule
    ("progressive_layer_drop",): _switch("progressive_layer_drop.enabled"),
    ("scheduler", "params"): _switch("scheduler.type"),
    ("sparse_attention",): _never,  # deepspeed.ops.sparse_attention, called by the script
    ("tensor_parallel", "partition_config"): _never,  # likewise
}


def dormant(ctx: Context, path: Path) -> bool:
    """Whether it is not certain that an engine looks at the path."""
    opens = _SECTIONS.get(path[:1]) or _SECTIONS.get(path[:2])
    if opens is None or len(path) < 2 or path[-1] == "enabled":
        return False
    try:
        return not opens(ctx)
    except SkipRule:
        return True
