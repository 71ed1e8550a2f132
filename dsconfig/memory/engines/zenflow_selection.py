"""Which columns ZenFlow selects of each parameter at stages 1 and 2 (`zenflow_stage_1_and_2.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsconfig.memory.engines.base import TEMPORARY
from dsconfig.memory.engines.flat_partition import Partition
from dsconfig.memory.engines.setup import Selection, Setup
from dsconfig.memory.graph import Weight
from dsconfig.memory.memory_ledger import Ledger

SELECTED = "selected columns"
SELECTED_STATES = "states of selected columns"
STALE = "stale weights of the optimizer's process"


class Stretch(NamedTuple):
    """What lies of a parameter in the piece of one rank."""

    rank: int
    whole: int
    """Elements of its whole columns; of a vector none."""
    columns: int
    """How many of these are selected."""
    selected: int
    """Elements of the selected ones; all of a vector."""


def columns_of(selection: Selection, count: int) -> int:
    """How many of so many columns are selected (`_num_selected_columns`): -1 is a part of a single one."""
    return max(1, int(count * selection.ratio)) if count else 0


def stretches(selection: Selection, weight: Weight, cut: Partition) -> list[Stretch]:
    """The stretches of a parameter, which lies transposed in the flat weights: column by column."""
    start, found = cut.starts[weight], list[Stretch]()
    at, end = start, start + weight.elements
    while at < end:
        rank = at // cut.size
        stop = min(end, (rank + 1) * cut.size)
        if len(weight.shape) == 1:
            found.append(Stretch(rank, 0, 0, stop - at))
        else:
            rows = weight.shape[0]
            count = (stop - start) // rows - -(-(at - start) // rows)
            columns = columns_of(selection, count)
            found.append(Stretch(rank, max(0, count) * rows, columns, columns * rows))
        at = stop
    return found


def update(setup: Setup, ledger: Ledger, selected: Iterable[int], copied: int) -> None:
    """`group_step`: AdamW over so many bytes of each parameter; `copied`: of them in copies."""
    sizes = list(selected)
    offloaded = setup.selection is not None and setup.selection.offload
    arriving = 2 * sum(sizes) if offloaded and setup.apart else 0
    ledger.take(SELECTED_STATES, arriving)
    ledger.take(SELECTED, copied)
    most = sum(sizes) if setup.apart else 2 * max(sizes, default=0)  # on a GPU torch takes them together
    ledger.touch(TEMPORARY, most)
    ledger.give(SELECTED, copied)
    ledger.give(SELECTED_STATES, arriving)
