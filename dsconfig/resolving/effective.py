"""The effective value of every key and where it comes from: the file, a default, the batch, the consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig import releases
from dsconfig.checking.source import ConfigSource, read
from dsconfig.consumers.by_name import consumer_of
from dsconfig.consumers.filling.record import Message
from dsconfig.consumers.filling.state import Filling
from dsconfig.consumers.reader import Given
from dsconfig.document import Document
from dsconfig.releases import Target
from dsconfig.resolving.errors import ResolveError
from dsconfig.resolving.listing import Listing
from dsconfig.resolving.origins import Origins, Value
from dsconfig.resolving.reading import Reading, known_config, processes, reading
from dsconfig.resolving.resolve import derive_run, fill_written
from dsconfig.resolving.runtime import runtime
from dsconfig.resolving.written import context, read_written

if TYPE_CHECKING:
    from dsconfig.json_types import Json


@dataclass(frozen=True, slots=True)
class Shown:
    """The values of a config in one release, and messages about how they came about."""

    values: tuple[Value, ...]
    release: str
    messages: tuple[Message, ...] = ()


def effective(
    source: ConfigSource | Document,
    world_size: int | None = None,
    target: str | Target | None = None,
    consumer: str | None = None,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> Shown:
    """The effective values of a config, or of a document that was read; the arguments are those of `show`.

    Raises:
        ResolveError: the config cannot be read.
        OSError: the path cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: an argument is impossible.
    """
    chosen = target if isinstance(target, Target) else releases.resolve(target)
    document = source if isinstance(source, Document) else read(source)
    release = chosen.releases[-1]
    seen = reading(document, release, consumer)
    written = context(seen.document, release, seen.consumer)
    model_config = model_config or known_config(seen.known)
    run, messages, launched = None, seen.messages, None if world_size else processes(document, consumer)
    size = launched.ranks if launched else world_size
    try:
        if size is not None:
            circumstances = runtime(seen.consumer, (1, 1, 1, 1), size, chosen)
            config = read_written(seen.document, release, seen.consumer, {})
            run = derive_run(seen, config, circumstances, training_args, model_config)
            messages = run.messages
    except ResolveError as error:
        messages = (*messages, Message("note", f"no batch at world size {size}: {error.reason}"))
    made = run or _filled(seen, release, training_args, model_config)
    origins = Origins(written, made, seen.place)
    return Shown(tuple(Listing(origins, every, tuple(keys)).values()), release, messages)


def _filled(
    seen: Reading,
    release: str,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
) -> Filling | None:
    """What is filled on any number of ranks, as far as the arguments of the job are known."""
    if seen.given is None and training_args is None:
        seen = seen._replace(given=Given({}, consumer_of(seen.consumer).arguments))
    written = read_written(seen.document, release, seen.consumer, {})
    try:
        return fill_written(seen, written, None, training_args, model_config)[0]
    except ResolveError:
        return None
