"""Select the engine, following `engine._configure_optimizer`, and its features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.memory.engines.engine_setup import EngineSetup

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ForwardTape
    from dsconfig.memory.engines.base_engine import Engine, Feature
    from dsconfig.memory.memory_ledger import MemoryLedger


def select_engine(setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> Engine:
    """Create the engine of a setup with its features.

    Raises:
        NotModelledError: DeepSpeed fails with this model, or its engine has not been measured.
    """
    engine = _engine_class(setup)(setup, tape, ledger)
    for feature in _feature_classes(setup):
        engine.compose(feature(engine))
    return engine


def _engine_class(setup: EngineSetup) -> type[Engine]:
    if setup.stage == 3:
        from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3

        return DeepSpeedZeroOptimizerStage3
    if setup.uses_bf16_optimizer:
        from dsconfig.memory.engines.fp16_bf16_optimizers import BF16Optimizer

        return BF16Optimizer
    if setup.is_unsharded:
        from dsconfig.memory.engines.fp16_bf16_optimizers import FP16Optimizer

        return FP16Optimizer
    from dsconfig.memory.engines.stage_1_and_2 import DeepSpeedZeroOptimizer

    return DeepSpeedZeroOptimizer


def _feature_classes(setup: EngineSetup) -> Iterator[type[Feature]]:
    """Yield the classes of the features that change the engine's memory."""
    if setup.tp_size > 1:
        from dsconfig.memory.features import autotp

        yield autotp.AutoTP
        if setup.stage == 3:
            yield autotp.AutoTPStage3
    if setup.ep_size:
        from dsconfig.memory.features.autoep import AutoEP

        yield AutoEP
    if setup.quantized_gradients:
        from dsconfig.memory.features.quantized_gradients import QuantizedGradients

        yield QuantizedGradients
    if setup.optimizer.muon_method:
        from dsconfig.memory.features.muon import muon_feature

        yield muon_feature(setup)
    if setup.zenflow:
        from dsconfig.memory.features import zenflow

        yield zenflow.ZenFlowStage3 if setup.stage == 3 else zenflow.ZenFlowStage12
    if setup.super_offload:
        from dsconfig.memory.features.nvme_and_superoffload import SuperOffload

        yield SuperOffload
    if setup.stage == 3 and (setup.nvme.optimizer_buffers or setup.nvme.param_buffer_size):
        from dsconfig.memory.features.nvme_and_superoffload import NvmeOffload

        yield NvmeOffload
