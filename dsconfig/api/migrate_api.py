"""`migrate` for any source: between which releases, and the batch of an `elasticity` block."""

from __future__ import annotations

import os

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    job_from_arguments,
    model_and_hosts,
)
from dsconfig.core.releases import Target, resolve
from dsconfig.document import Document
from dsconfig.fix.fix import as_json_document
from dsconfig.fix.migrate import Migration, in_launch_file
from dsconfig.fix.migrate import migrate as carry
from dsconfig.job.job import Fact, Job, job_of_reader, merge
from dsconfig.launch.config_source import ConfigSource, read
from dsconfig.launch.located_config import editable_config, locate
from dsconfig.resolve.batch import elastic_batch_solver


def migrate(
    source: ConfigSource,
    *,
    to: str | Target | None = None,
    origin: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    keep: bool = False,
) -> Migration:
    """Take a config from one release to a later one, and say what became of it: `.text`, `.decisions`.

    Of a launch file that holds its config, `.text` is the launch file with the config in it migrated.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        to: the release that is to read it; None: the installed one, else the latest known.
        origin: the release that it was written for; None: the one that its `"$dsconfig"` names, or that its
            repository pins.
        world_size: number of ranks, for the batch of an `elasticity` block; see `check`.
        consumer: who reads the file; see `check`.
        training_args: what the consumer is started with; see `check`.
        model: the model that it trains; see `check`.
        launch: the launch file whose arguments count; see `check`.
        keep: whether an `elasticity` block stays, for `dsconfig elastic`, though `to` refuses it.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: there is no such release.
        ValueError: `origin` is not known, or not earlier than `to`, or an argument is impossible, or a dict
            holds what JSON has no word for.
    """
    document = as_json_document(read(source), source)
    said = job_from_arguments(origin, world_size, consumer, model_and_hosts(model), training_args, launch)
    inside = editable_config(document)
    if inside is None or inside.embedding is None:
        return _carried(document, to, said, keep=keep)
    launched = job_of_reader(inside.reader, "launch file")
    size = None if inside.world_size is None else Fact(inside.world_size, "launch file", inside.note)
    found = merge(said, launched._replace(world_size=launched.world_size or size))
    return in_launch_file(_carried(inside.document, to, found, keep=keep), inside.embedding)


def _carried(document: Document, to: str | Target | None, said: Job, *, keep: bool) -> Migration:
    job = build_job(locate(document), said)
    if said.target is None and job.releases.origin in ("installed", "latest"):
        raise ValueError("which release was the config written for? give `origin`")
    known_from, known_to = _single(job.releases), _single(to if isinstance(to, Target) else resolve(to))
    solve = None if job.ranks is None else elastic_batch_solver(known_from, job.ranks)
    return carry(
        document,
        known_to,
        known_from,
        world_size=job.ranks,
        consumer=job.reader.name,
        solve=solve,
        keep=keep,
    )


def _single(target: Target) -> str:
    if len(target.releases) > 1:
        raise ValueError(f"`{target.text}` names {len(target.releases)} releases: give one")
    return target.releases[0]
