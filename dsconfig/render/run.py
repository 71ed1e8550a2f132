"""A resolved run for people: the batch with its arithmetic, and what was done to the config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dsconfig.render.text import printable

if TYPE_CHECKING:
    from dsconfig.render.style import Style

_TONES = {"refused": "error", "unfilled": "warning", "overridden": "warning", "removed": "warning"}


class Message(Protocol):
    """What is said of a run."""

    @property
    def kind(self) -> str:
        """One word."""

    @property
    def text(self) -> str:
        """One line."""


class Run(Protocol):
    """What is shown of a run."""

    @property
    def triplet(self) -> tuple[Any, Any, Any]:
        """Batch, micro batch, accumulation steps."""

    @property
    def release(self) -> str:
        """The release it is for."""

    @property
    def world_size(self) -> int:
        """Ranks."""

    @property
    def data_parallel_size(self) -> int | float:
        """Ranks that get samples of their own."""

    @property
    def messages(self) -> Sequence[Message]:
        """What else there is to say."""

    @property
    def mismatches(self) -> Sequence[object]:
        """Written values that differ from the training arguments."""

    @property
    def filled(self) -> Sequence[Any]:
        """What the consumer filled."""


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
