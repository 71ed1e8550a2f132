"""The effective value of every key and where it comes from: the file, a default, the batch, the consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dsconfig.check.build_job import asked, build_job
from dsconfig.consumers.autofill.filling import Filling
from dsconfig.consumers.autofill.log import Message
from dsconfig.consumers.registry import consumer_of
from dsconfig.core.releases import Target
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Given
from dsconfig.job.job import Fact, Job
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.resolve.asked_config import Reading, known_config, launched, reading
from dsconfig.resolve.auto_values import fill_written
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.list_values import Listing
from dsconfig.resolve.raw_config import context, read_written
from dsconfig.resolve.replaced_values import Origins, Value
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
    located = locate(source if isinstance(source, Document) else read(source))
    job = build_job(located, asked(target, world_size, consumer))
    return effective_in(
        located, job, training_args=training_args, model_config=model_config, every=every, keys=keys
    )


def effective_in(
    located: LocatedConfig,
    job: Job,
    *,
    training_args: Mapping[str, Json] | None = None,
    model_config: Mapping[str, Json] | None = None,
    every: bool = False,
    keys: Sequence[str] = (),
) -> Shown:
    """The effective values of a config in its job; see `effective`."""
    release = job.releases.releases[-1]
    seen = reading(located, job)
    written = context(seen.document, release, seen.consumer)
    model_config = model_config or known_config(seen.known)
    run, messages, found = None, seen.messages, launched(located, job)
    size = found.ranks if found else None
    formula = None
    try:
        if size is not None:
            fact = job.world_size or Fact(size, "argument", "")
            here = job._replace(world_size=Fact(size, "argument", fact.source))
            circumstances = runtime(here, _NOTHING_ASKED, None)
            parallelism = circumstances.asked.over(seen.known.parallelism)
            circumstances = replace(circumstances, consumer=seen.consumer, parallelism=parallelism)
            config = read_written(seen.document, release, seen.consumer, {})
            run = derive_run(seen, config, circumstances, training_args, model_config)
            messages = run.messages
        else:
            formula = _formula(seen, release, found, training_args)
            if found is not None:
                told = [found.source, *([formula] if formula else []), "give --world-size"]
                messages = (*messages, Message("note", f"no world size: {'; '.join(told)}"))
    except ResolveError as error:
        messages = (*messages, Message("note", f"no batch at world size {size}: {error.reason}"))
    made = run or _filled(seen, release, training_args, model_config)
    origins = Origins(written, made, seen.place, formula)
    return Shown(tuple(Listing(origins, every, tuple(keys)).values()), release, messages)


def _formula(
    seen: Reading, release: str, found: Launched | None, training_args: Mapping[str, Json] | None
) -> str | None:
    """The batch in the number of GPUs, where nobody knows that."""
    per_node = found.per_node if found else None
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
