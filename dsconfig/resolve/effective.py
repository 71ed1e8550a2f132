"""The effective value of every key and where it comes from: the file, a default, the batch, the consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dsconfig.consumers.autofill.autofill import Filling
from dsconfig.consumers.autofill.log import Message
from dsconfig.consumers.registry import consumer_of
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.document.source import ConfigSource, read
from dsconfig.job.consumer import Given
from dsconfig.resolve.auto_values import fill_written
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.list_values import Listing
from dsconfig.resolve.locate_config import Reading, known_config, processes, reading, target_of
from dsconfig.resolve.provenance import Origins, Value
from dsconfig.resolve.raw_config import context, read_written
from dsconfig.resolve.resolve import derive_run
from dsconfig.resolve.run_target import Launched, Parallel, runtime
from dsconfig.resolve.unknown_ranks import formula_of

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


_NOTHING_ASKED = (None, None, None, None)


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
    document = source if isinstance(source, Document) else read(source)
    chosen = target_of(document, target)
    release = chosen.releases[-1]
    seen = reading(document, release, consumer)
    written = context(seen.document, release, seen.consumer)
    model_config = model_config or known_config(seen.known)
    run, messages, launched = None, seen.messages, None if world_size else processes(document, consumer)
    size = launched.ranks if launched else world_size
    formula = None
    try:
        if size is not None:
            circumstances = runtime(seen.consumer, _NOTHING_ASKED, size, chosen)
            parallelism = circumstances.asked.over(seen.known.parallelism)
            circumstances = replace(circumstances, parallelism=parallelism)
            config = read_written(seen.document, release, seen.consumer, {})
            run = derive_run(seen, config, circumstances, training_args, model_config)
            messages = run.messages
        else:
            formula = _formula(seen, release, launched, training_args)
            if launched is not None:
                messages = (*messages, Message("note", f"no world size: {launched.source}"))
    except ResolveError as error:
        messages = (*messages, Message("note", f"no batch at world size {size}: {error.reason}"))
    made = run or _filled(seen, release, training_args, model_config)
    origins = Origins(written, made, seen.place, formula)
    return Shown(tuple(Listing(origins, every, tuple(keys)).values()), release, messages)


def _formula(
    seen: Reading, release: str, launched: Launched | None, training_args: Mapping[str, Json] | None
) -> str | None:
    """The batch in the number of GPUs, where nobody knows that."""
    per_node = launched.per_node if launched else None
    parallelism = Parallel().over(seen.known.parallelism)
    try:
        return formula_of(seen, release, parallelism, per_node, training_args, {})
    except ResolveError:
        return None


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
