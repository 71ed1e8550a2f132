"""A config as a job fills it: each "auto" whose training argument is known has become a value."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.json_values import at, copied

if TYPE_CHECKING:
    from dsconfig.consumers.autofill.log import Filled, Message, Mismatch
    from dsconfig.core.json_types import JsonObject
    from dsconfig.job.detect_consumer import Given


class Job(NamedTuple):
    """The config as it is filled, the record of that, and what the consumer will raise for."""

    data: JsonObject
    filled: tuple[Filled, ...]
    mismatches: tuple[Mismatch, ...]
    refused: tuple[Message, ...]
    added: frozenset[str] = frozenset()
    """Keys of the root that its program puts in."""
    has_flags: bool = False
    """Whether the arguments are flags of a command, and not keys of the launch file."""
    spelled: Mapping[str, str] = MappingProxyType({})
    """Arguments that the launch file calls otherwise: the Trainer's name first, its own second."""
    precisions: frozenset[str] = frozenset()
    """Which of the switches `fp16` and `bf16` the launch file sets."""


def fill_in(
    data: JsonObject, consumer_name: str, world_size: int | None, given: Given, shared: int = 1
) -> Job | None:
    """Fill a config from the arguments of its job; None where nothing is filled, or they cannot be read.

    `shared`: how many ranks share each sequence.
    """
    from dsconfig.consumers.autofill import Assumed, fill
    from dsconfig.consumers.registry import consumer_of

    consumer = consumer_of(consumer_name)
    if given.sets or given.writes:
        data = copied(data)
    added = given.complete(data)
    if not consumer.fills:
        return Job(data, (), (), (), added) if added or given.writes else None
    known = given.on(world_size)
    try:
        assumed, arguments = Assumed(known.unknown), known.arguments
        filling = fill(copied(data), consumer, world_size, arguments, None, sp=shared, assumed=assumed)
    except (ValueError, TypeError, AttributeError, OverflowError):  # other rules say what is wrong with it
        return None
    # What the plugin puts in for lack of an argument stays "auto": it is a finding of its own.
    constant = {entry.key for entry in consumer.fills if entry.stage == "plugin"}
    filled = [each for each in filling.filled if each.key not in constant and at(data, each.key) == "auto"]
    made = copied(data)
    for each in filled:
        *sections, last = each.key.split(".")
        here = made
        for section in sections:
            here = here[section]
        here[last] = each.value
    refused = tuple(
        each for each in filling.messages if each.kind == "refused" and (each.key or "").endswith(".enabled")
    )
    return Job(
        made,
        tuple(filled),
        tuple(filling.mismatches),
        refused,
        has_flags=given.has_flags,
        spelled=given.spelled,
        precisions=frozenset(name for name in ("fp16", "bf16") if known.arguments.get(name) is True),
    )
