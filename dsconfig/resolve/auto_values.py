"""The values that a consumer puts in the place of "auto", from the arguments of the job and from others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers.autofill import Assumed, MissingArgumentsError, fill
from dsconfig.consumers.autofill.filling import Filling
from dsconfig.consumers.autofill.log import Message
from dsconfig.consumers.registry import consumer_of
from dsconfig.resolve.asked_config import Reading
from dsconfig.resolve.errors import UnfilledError
from dsconfig.resolve.raw_config import Written

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


def fill_written(
    seen: Reading,
    written: Written,
    ranks: int | None,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
    *,
    sp: int = 1,
) -> tuple[Filling, Assumed]:
    """Fill the config as its reader will, from the arguments of its job and from those that are given.

    Raises:
        ResolveError: the batch is to be filled from training arguments, which are not given.
        ValueError: a training argument is of the wrong kind.
    """
    assumed, notes = Assumed(), list[Message]()
    if seen.given is not None:
        known = seen.given.on(ranks)
        known.complete(written.config)
        training_args = {**known.arguments, **(training_args or {})}
        assumed = Assumed(known.unknown - training_args.keys(), known.likely)
        notes = [Message("note", known.note)] if known.note else []
    try:
        filling = fill(
            written.config,
            consumer_of(seen.consumer),
            ranks,
            training_args,
            model_config,
            sp=sp,
            assumed=assumed,
        )
    except MissingArgumentsError as error:
        raise UnfilledError(error.missing, written.config, error.reason, *error.hints) from None
    filling.messages[:0] = notes
    return filling, assumed
