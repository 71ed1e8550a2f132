"""Choice of the engine class, as `engine._configure_optimizer` chooses the ZeRO optimizer."""

from __future__ import annotations

from dsconfig.memory.engines.base import Engine
from dsconfig.memory.engines.setup import Setup, ZenFlowSettings
from dsconfig.memory.graph import Tape
from dsconfig.memory.memory_ledger import Ledger


def select_engine(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """Create the engine for a setup."""
    if setup.stage == 3 and setup.optimizer.muon_method:
        from dsconfig.memory.engines.muon import MuonStage3

        return MuonStage3(setup, tape, ledger)
    if setup.zenflow or setup.super_offload:
        return _with_processes(setup, tape, ledger, setup.zenflow)
    if setup.stage == 3 and (setup.nvme.optimizer_buffers or setup.nvme.param_buffer_size):
        from dsconfig.memory.engines.zero3_offload import NvmeStage3

        return NvmeStage3(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.memory.engines.zero3 import Stage3Engine

        return Stage3Engine(setup, tape, ledger)
    # `_configure_optimizer`: bf16 with fp32 accumulation uses `BF16_Optimizer` at stages 0 and 1, unless the
    # release mistakes the dtype.
    if setup.uses_bf16_optimizer and not setup.quirks.fp32_accumulation_is_mistaken_for_bf16:
        if setup.optimizer.muon_method:
            from dsconfig.memory.engines.muon import MuonBF16Optimizer

            return MuonBF16Optimizer(setup, tape, ledger)
        from dsconfig.memory.engines.bf16_optimizer import BF16OptimizerEngine

        return BF16OptimizerEngine(setup, tape, ledger)
    if not setup.is_unsharded:
        return _sharded(setup, tape, ledger)
    if setup.optimizer.muon_method:
        from dsconfig.memory.engines.muon import MuonStage0

        return MuonStage0(setup, tape, ledger)
    from dsconfig.memory.engines.zero0 import Stage0Engine

    return Stage0Engine(setup, tape, ledger)


def _sharded(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """Create an engine of stage 1 or 2."""
    if setup.optimizer.muon_method:
        from dsconfig.memory.engines.muon import MuonStage12

        return MuonStage12(setup, tape, ledger)
    if setup.accumulates_fp32 and not setup.quirks.fp32_grads_are_one_buffer:
        from dsconfig.memory.engines.zero12 import Stage12PerTensorGrads

        return Stage12PerTensorGrads(setup, tape, ledger)
    from dsconfig.memory.engines.zero12 import Stage12Engine

    return Stage12Engine(setup, tape, ledger)


def _with_processes(setup: Setup, tape: Tape, ledger: Ledger, selection: ZenFlowSettings | None) -> Engine:
    """Create an engine whose optimizer can run in a separate process."""
    if selection is None:
        from dsconfig.memory.engines.zero3_offload import SuperOffloadStage3

        return SuperOffloadStage3(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.memory.engines.zenflow import ZenFlowStage3

        return ZenFlowStage3(setup, tape, ledger, selection)
    from dsconfig.memory.engines.zenflow import ZenFlowStage12

    return ZenFlowStage12(setup, tape, ledger, selection)
