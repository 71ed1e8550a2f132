"""`dsconfig.migrate`: migrate a config from any source."""

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
from dsconfig.fix.migrate import migrate as migrate_document
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
    """Migrate a config to a later release; the result has the new `.text` and the `.decisions` left to you.

    Given a launch file with an embedded config, `.text` is the launch file with the migrated config.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        to: release to migrate to. Default: the installed one, else the latest known.
        origin: release that the config was written for. Default: the target in its `"$dsconfig"`, or the release
            that its repository pins.
        world_size: number of ranks, for the batch of an `elasticity` block; see `check`.
        consumer: library that loads the file; see `check`.
        training_args: training arguments of the consumer; see `check`.
        model: model that is trained; see `check`.
        launch: launch file that starts the job; see `check`.
        keep: whether to keep an `elasticity` block that `to` rejects, for `dsconfig elastic`.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: a release is unknown.
        ValueError: `origin` is unknown or not earlier than `to`, an argument is invalid, or JSON cannot represent
            a value of a dict.
    """
    document = as_json_document(read(source), source)
    arguments = job_from_arguments(
        origin, world_size, consumer, model_and_hosts(model), training_args, launch
    )
    embedded = editable_config(document)
    if embedded is None or embedded.embedding is None:
        return _migrate(document, to, arguments, keep=keep)
    launched = job_of_reader(embedded.reader, "launch file")
    size = None if embedded.world_size is None else Fact(embedded.world_size, "launch file", embedded.note)
    merged = merge(arguments, launched._replace(world_size=launched.world_size or size))
    return in_launch_file(_migrate(embedded.document, to, merged, keep=keep), embedded.embedding)


def _migrate(document: Document, to: str | Target | None, arguments: Job, *, keep: bool) -> Migration:
    job = build_job(locate(document), arguments)
    if arguments.target is None and job.releases.origin in ("installed", "latest"):
        raise ValueError("the release that the config was written for is unknown: pass `origin`")
    origin, target = _single(job.releases), _single(to if isinstance(to, Target) else resolve(to))
    solve = None if job.ranks is None else elastic_batch_solver(origin, job.ranks)
    return migrate_document(
        document,
        target,
        origin,
        world_size=job.ranks,
        consumer=job.reader.name,
        solve=solve,
        keep=keep,
    )


def _single(target: Target) -> str:
    if len(target.releases) > 1:
        raise ValueError(f"`{target.text}` names {len(target.releases)} releases: pass a single one")
    return target.releases[0]
