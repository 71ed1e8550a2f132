"""The batch of a config that is filled: on how many data-parallel ranks, and what is written for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers import ELASTIC
from dsconfig.consumers.autofill.log import Message
from dsconfig.core.batch_triplet import KEYS, SEQUENCE, SEQUENCE_SINCE, Impossible, Triplet, derive
from dsconfig.resolve import elastic_batch
from dsconfig.resolve.batch_errors import refused_batch
from dsconfig.resolve.rank_sharing import Share, share_out
from dsconfig.resolve.raw_config import Written
from dsconfig.resolve.run_target import Runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class Batch:
    """The triplet, the data-parallel ranks that share it, and the config that the release runs with."""

    triplet: Triplet
    size: int | float
    config: JsonObject
    messages: tuple[Message, ...]
    elastic: bool


def derive_batch(written: Written, runtime: Runtime) -> Batch:
    """The batch that the release derives; the config of `written` is changed on the way.

    Raises:
        ResolveError: there is none.
    """
    config = written.config
    share = share_out(config, runtime, from_file=written.from_file)
    size = share.size
    planned = runtime.consumer == ELASTIC
    elastic = planned or (elastic_batch.is_on(config) and runtime.number >= elastic_batch.FIRST)
    if not elastic:
        triplet, messages = _plain_batch(config, share, runtime)
    elif runtime.number <= elastic_batch.LAST and not planned:
        # The block stays: the release reads it, and refuses batch keys next to it.
        found, messages = elastic_batch.as_released(config, runtime.release, size)
        triplet = _whole(found)
    else:
        config, size, messages = elastic_batch.instead(config, size, runtime)
        triplet = Triplet(*(config[key] for key in KEYS))
    said = _settle_sequence(config, runtime, from_file=written.from_file)
    return Batch(triplet, size, config, (*share.messages, *messages, *said), elastic)


def _plain_batch(config: JsonObject, share: Share, runtime: Runtime) -> tuple[Triplet, list[Message]]:
    """The triplet of a config without elasticity, written into it."""
    messages = []
    if "elasticity" in config and runtime.number > elastic_batch.LAST:
        del config["elasticity"]
        text = "the `elasticity` block, which is off and which this release refuses, is left out"
        messages.append(Message("removed", text, "elasticity"))
    train, micro, steps = (config.get(key) for key in KEYS)
    found = derive(train, micro, steps, share.size)
    if isinstance(found, Impossible):
        raise refused_batch(config, share.size, runtime, by_key=share.by_key)
    triplet = _whole(found)
    if isinstance(derive(*triplet.values(), share.size), Impossible):
        triplet = found  # beyond 2**53 the sum may hold in floats alone, which is how DeepSpeed works it out
    config.update(zip(KEYS, triplet.values(), strict=True))
    return triplet, messages


def _whole(found: Triplet) -> Triplet:
    """Whole floats as ints: 8 ranks / 2 are 4.0 to DeepSpeed."""
    values = [
        int(value) if isinstance(value, float) and value.is_integer() else value for value in found.values()
    ]
    return Triplet(*values)


def _settle_sequence(config: JsonObject, runtime: Runtime, *, from_file: bool) -> list[Message]:
    """Make the config, as a dict, divide the ranks as they were divided here."""
    shared = runtime.asked.sp or 1
    if runtime.number < SEQUENCE_SINCE:
        return []
    alone = len(runtime.parallelism.dividing) == 1
    if shared > 1 and alone and SEQUENCE not in config:
        config[SEQUENCE] = shared
        return [Message("written", f"`{SEQUENCE}` {shared} is written in", SEQUENCE)]
    if from_file and SEQUENCE in config and shared == 1:
        text = (
            f"`{SEQUENCE}` {config.pop(SEQUENCE)!r} is left out: DeepSpeedConfig does not look for it in a "
            "file, and does not divide the ranks by it; ask for sp if it should"
        )
        return [Message("removed", text, SEQUENCE)]
    return []
