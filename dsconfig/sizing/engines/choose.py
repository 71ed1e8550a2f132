"""Which wrapper DeepSpeed puts around the optimizer (`engine._configure_optimizer`)."""

from __future__ import annotations

from dsconfig.sizing.engines.base import Engine
from dsconfig.sizing.engines.setup import Selection, Setup
from dsconfig.sizing.ledger import Ledger
from dsconfig.sizing.tape import Tape


def engine_of(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """The engine of this set-up."""
    if setup.stage == 3 and setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal_shards import OrthogonalShards

        return OrthogonalShards(setup, tape, ledger)
    if setup.selection or setup.super_offload:
        return _with_processes(setup, tape, ledger, setup.selection)
    if setup.stage == 3 and (setup.swapping.optimizer or setup.swapping.parameters):
        from dsconfig.sizing.engines.swapped import Swapped

        return Swapped(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.sizing.engines.partitioned import Partitioned

        return Partitioned(setup, tape, ledger)
    if setup.accumulates and not setup.ways.wraps_raised:
        if setup.optimizer.muon:
            from dsconfig.sizing.engines.orthogonal_accumulated import OrthogonalAccumulated

            return OrthogonalAccumulated(setup, tape, ledger)
        from dsconfig.sizing.engines.accumulated import Accumulated

        return Accumulated(setup, tape, ledger)
    if not setup.is_whole:
        return _sharded(setup, tape, ledger)
    if setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal_whole import OrthogonalWhole

        return OrthogonalWhole(setup, tape, ledger)
    from dsconfig.sizing.engines.whole import Whole

    return Whole(setup, tape, ledger)


def _sharded(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """That of stages 1 and 2."""
    if setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal import Orthogonal

        return Orthogonal(setup, tape, ledger)
    if setup.raises_gradients and not setup.ways.compact:
        from dsconfig.sizing.engines.listed import Listed

        return Listed(setup, tape, ledger)
    from dsconfig.sizing.engines.sharded import Sharded

    return Sharded(setup, tape, ledger)


def _with_processes(setup: Setup, tape: Tape, ledger: Ledger, selection: Selection | None) -> Engine:
    """What can have its optimizer in a process of its own."""
    if selection is None:
        from dsconfig.sizing.engines.superoffload import SuperOffloaded

        return SuperOffloaded(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.sizing.engines.zenflow_shards import ZenFlowShards

        return ZenFlowShards(setup, tape, ledger, selection)
    from dsconfig.sizing.engines.zenflow import ZenFlow

    return ZenFlow(setup, tape, ledger, selection)
