"""A resolved run for people: the batch with its arithmetic, and what was done to the config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.render.terminal import Style
    from dsconfig.resolve.run import Run

_TONES = {"refused": "error", "unfilled": "warning", "overridden": "warning", "removed": "warning"}


def described(run: Run, style: Style) -> Iterator[str]:
    """The lines of it, each with its end."""
    batch, micro, steps = run.triplet
    ranks = f"{run.data_parallel_size:g} ranks"
    if run.data_parallel_size != run.world_size:
        ranks = f"{run.data_parallel_size:g} data-parallel of {run.world_size} ranks"
    head = f"{batch} samples a step = {micro} (micro batch) × {steps} (accumulation steps) × {ranks}"
    yield f"{style.paint(head, 'bold')}, DeepSpeed {run.release}\n"
    for filled in run.filled:
        yield f"{style.paint('filled', 'good')}: `{filled.key}` = {filled.value!r} from {filled.origin}\n"
    for mismatch in run.mismatches:
        yield f"{style.paint('mismatch', 'error')}: {printable(str(mismatch))}\n"
    for message in run.messages:
        yield f"{style.paint(message.kind, _TONES.get(message.kind, 'info'))}: {printable(message.text)}\n"
