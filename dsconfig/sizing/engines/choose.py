"""Which wrapper DeepSpeed puts around the optimizer (`engine._configure_optimizer`)."""

from __future__ import annotations

from dsconfig.sizing.engines.base import Engine
from dsconfig.sizing.engines.setup import Setup
from dsconfig.sizing.ledger import Ledger
from dsconfig.sizing.tape import Tape


def engine_of(setup: Setup, tape: Tape, ledger: Ledger) -> Engine:
    """The engine of this set-up."""
    if setup.stage == 3 and (setup.swapping.optimizer or setup.swapping.parameters):
        from dsconfig.sizing.engines.swapped import Swapped

        return Swapped(setup, tape, ledger)
    if setup.stage == 3:
        from dsconfig.sizing.engines.partitioned import Partitioned

        return Partitioned(setup, tape, ledger)
    if setup.stage < 2 and setup.half == "bf16" and setup.gradient == 4 and not setup.offloads:
        from dsconfig.sizing.engines.accumulated import Accumulated

        return Accumulated(setup, tape, ledger)
    if setup.stage:
        from dsconfig.sizing.engines.sharded import Sharded

        return Sharded(setup, tape, ledger)
    from dsconfig.sizing.engines.whole import Whole

    return Whole(setup, tape, ledger)
