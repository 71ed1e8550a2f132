"""Notes on the assumptions behind a report, which are not findings."""

from __future__ import annotations

from dsconfig.document import Document
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.evaluate import Outcome
from dsconfig.job.detect_consumer import Reader
from dsconfig.rules.batch._triplet import sizes


def world_sizes(context: Context) -> tuple[int, ...] | None:
    """The world sizes at which the batch works; None where any does, or one is given."""
    return sizes(context) if context.is_config and context.world_size is None else None


def notes(document: Document, newest: Outcome, reader: Reader, *, cut: bool) -> tuple[str, ...]:
    """What else is to be said of the file as a whole."""
    most = f"{newest.context.most:,}"
    more = f"{document.name}: only the first {most} findings of a rule are listed: there are more"
    remarks = (f"{document.name}: {told}" for told in newest.context.remarks)
    return (*_unfilled(document, newest, reader), *remarks, *([more] if cut else []))


def _unfilled(document: Document, newest: Outcome, reader: Reader) -> tuple[str, ...]:
    """How many values are "auto", where the consumer does not fill them."""
    if reader.name != "deepspeed" or not newest.autos:
        return ()
    values = "1 value is" if newest.autos == 1 else f"{newest.autos} values are"
    advice = "if one of them reads the file, check with --consumer transformers"
    return (f'{document.name}: {values} "auto", which only Transformers or Accelerate fill: {advice}',)
