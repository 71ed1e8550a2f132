"""What `check` finds where DeepSpeed derives no batch: one source for the words of each finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dsconfig.check.check import check_document
from dsconfig.core.batch_triplet import KEYS, SEQUENCE
from dsconfig.core.diagnostic import Diagnostic, Effect
from dsconfig.core.releases import Target
from dsconfig.document import read_dict
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run_target import Runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


def refused_batch(config: Mapping[str, Json], size: float, runtime: Runtime, *, by_key: bool) -> ResolveError:
    """The error that carries what `check` finds of the batch keys on `size` data-parallel ranks.

    Args:
        config: the config as DeepSpeed gets it.
        size: the data-parallel ranks.
        runtime: what it is resolved for.
        by_key: whether DeepSpeed itself divides the ranks, by `sequence_parallel_size`.
    """
    if by_key:
        found = _findings(config, (*KEYS, SEQUENCE), runtime.ranks, runtime.release)
    else:
        found = _findings(config, KEYS, int(size), runtime.release)
    if size == runtime.ranks:
        return ResolveError.of(found)
    hint = f"{size:g} of the {runtime.ranks} ranks are data-parallel: that is the world size here"
    return ResolveError.of(found, (hint,))


def _findings(config: Mapping[str, Json], keys: Iterable[str], ranks: int, release: str) -> list[Diagnostic]:
    """What refuses a config of these keys alone: all else is as DeepSpeed takes it, or another's to find."""
    document = read_dict({key: config[key] for key in keys if key in config})
    report = check_document(document, Target((release,), release, "argument"), world_size=ranks)
    return [found for found in report if found.effect is Effect.REJECTED]
