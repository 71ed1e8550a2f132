"""The batch where nobody knows how many ranks there are: a formula in their number, and what to give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers import ELASTIC
from dsconfig.consumers.registry import consumer_of
from dsconfig.core.batch_triplet import KEYS
from dsconfig.core.data_parallel import Parallelism, batch_formula
from dsconfig.job.detect_consumer import Given
from dsconfig.resolve.asked_config import Reading, reading
from dsconfig.resolve.auto_values import fill_written
from dsconfig.resolve.elastic_batch import is_on
from dsconfig.resolve.errors import ResolveError, UnknownWorldSizeError
from dsconfig.resolve.raw_config import read_written
from dsconfig.resolve.run_target import Launched, Parallel

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig


class Open(NamedTuple):
    """A config of which nobody knows on how many ranks it runs."""

    located: LocatedConfig
    job: Job
    asked: Parallel
    changes: Mapping[str, Json]
    """Values that are set first, by dotted path."""


def unknown_world_size(
    question: Open, launched: Launched | None, training_args: Mapping[str, Json] | None
) -> UnknownWorldSizeError:
    """The error with the batch as a formula in the number of GPUs, where there is one."""
    source = "" if launched is None else launched.source
    per_node = launched.per_node if launched else None
    hints = [f"one node has {per_node} ranks, two have {2 * per_node}"] if per_node else []
    try:
        release = question.job.releases.releases[-1]
        seen = reading(question.located, question.job)
        parallelism = question.asked.over(seen.known.parallelism)
        formula = formula_of(seen, release, parallelism, per_node, training_args, question.changes)
    except (ResolveError, ValueError):
        formula = None
    return UnknownWorldSizeError(source, formula, hints)


def formula_of(
    seen: Reading,
    release: str,
    parallelism: Parallelism,
    per_node: int | None,
    training_args: Mapping[str, Json] | None,
    changes: Mapping[str, Json],
) -> str | None:
    """The batch of a config as a formula in the number of GPUs; None where there is none.

    Raises:
        ResolveError: the config cannot be read, or filled.
        ValueError: a change names no key, or a training argument is of the wrong kind.
    """
    if parallelism.unknown is not None:
        return None
    if seen.given is None and training_args is None:
        seen = seen._replace(given=Given({}, consumer_of(seen.consumer).arguments))
    written = read_written(seen.document, release, seen.consumer, changes)
    written.refuse_overwritten(seen.document)
    config = fill_written(seen, written, None, training_args, None)[0].config
    if is_on(config) or seen.consumer == ELASTIC:
        return None  # the solver chooses the batch for each number of ranks
    ranks = f"{per_node} × nodes" if per_node else "GPUs"
    train, micro, steps = (config.get(key) for key in KEYS)
    return batch_formula(train, micro, steps, ranks, parallelism.divisor())
