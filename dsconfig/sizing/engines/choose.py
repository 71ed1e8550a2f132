"""Which wrapper DeepSpeed puts around the optimizer (`engine._configure_optimizer`)."""

from __future__ import annotations

from dsconfig.sizing.engines.base import Engine
from dsconfig.sizing.engines.setup import Setup
from dsconfig.sizing.ledger import Ledger
from dsconfig.sizing.tape import Tape


def engine_of(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """The engine of this set-up."""
    if setup.stage == 3 and setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal_shards import OrthogonalShards

        return OrthogonalShards(setup, tape, ledger)
    if setup.super_offload:
        from dsconfig.sizing.engines.superoffload import SuperOffloaded

        return SuperOffloaded(setup, tape, ledger)
    if setup.stage == 3 and (setup.swapping.optimizer or setup.swapping.parameters):
        from dsconfig.sizing.engines.swapped import Swapped

        return Swapped(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.sizing.engines.partitioned import Partitioned

        return Partitioned(setup, tape, ledger)
    if setup.stage < 2 and setup.half == "bf16" and setup.gradient == 4 and not setup.offloads:
        if setup.optimizer.muon:
            from dsconfig.sizing.engines.orthogonal_accumulated import OrthogonalAccumulated

            return OrthogonalAccumulated(setup, tape, ledger)
        from dsconfig.sizing.engines.accumulated import Accumulated

        return Accumulated(setup, tape, ledger)
    if setup.stage and setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal import Orthogonal

        return Orthogonal(setup, tape, ledger)
    if setup.stage:
        from dsconfig.sizing.engines.sharded import Sharded

        return Sharded(setup, tape, ledger)
    if setup.optimizer.muon:
        from dsconfig.sizing.engines.orthogonal_whole import OrthogonalWhole

        return OrthogonalWhole(setup, tape, ledger)
    from dsconfig.sizing.engines.whole import Whole

    return Whole(setup, tape, ledger)
