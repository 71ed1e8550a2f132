"""`dsconfig.migrate`: migrate a config from any source to a later release."""

from __future__ import annotations

import os

from dsconfig.check.build_job import (
    MappingSource,
    ModelSource,
    build_job,
    explicit_model_and_hosts,
    job_from_arguments,
)
from dsconfig.core.releases import ReleaseTarget, resolve_target
from dsconfig.document import Document
from dsconfig.fix.apply_fixes import as_json_document
from dsconfig.fix.migrate import Migration, map_migration_to_launch_file
from dsconfig.fix.migrate import migrate as migrate_document
from dsconfig.job.job import Job, JobFact, job_from_consumer, merge_jobs
from dsconfig.launch.config_source import ConfigSource
from dsconfig.launch.locate_configs_of_jobs import read_config_of_job
from dsconfig.launch.located_config import find_editable_config, locate_config
from dsconfig.resolve.batch import elastic_batch_solver


def migrate(
    source: ConfigSource,
    *,
    to: str | ReleaseTarget | None = None,
    origin: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | None = None,
    training_args: MappingSource = None,
    model: ModelSource | None = None,
    launch: str | os.PathLike[str] | None = None,
    job: int | None = None,
    keep: bool = False,
) -> Migration:
    """Migrate a config to a later release; the result has `.text` and the open `.decisions`.

    Given a launch file with an embedded config, `.text` is the launch file with the migrated config.

    Args:
        source: a path, text, bytes, a dict or a `Config`; see `check`.
        to: release to migrate to. Default: the installed one, else the latest known.
        origin: release that the config was written for. Default: the target in its `"$dsconfig"`, or the release
            that its repository pins.
        world_size: number of ranks, for the batch of an `elasticity` block; see `check`.
        consumer: library that loads the file; see `check`.
        training_args: training arguments of the consumer; see `check`.
        model: the model to train; see `check`.
        launch: launch file that starts the job; see `check`.
        job: see `resolve`.
        keep: whether to keep an `elasticity` block that `to` rejects, for `dsconfig elastic`.

    Raises:
        OSError: the path cannot be read.
        UnknownReleaseError: a release is unknown.
        ValueError: `origin` is unknown or not earlier than `to`, an argument is invalid, or JSON cannot represent
            a value of a dict.
    """
    document = as_json_document(read_config_of_job(source, job), source)
    arguments = job_from_arguments(
        origin, world_size, consumer, explicit_model_and_hosts(model), training_args, launch
    )
    embedded = find_editable_config(document)
    if embedded is None or embedded.embedding is None:
        return _migrate_document(document, to, arguments, keep=keep)
    launched = job_from_consumer(embedded.reader, "launch file")
    size = None if embedded.world_size is None else JobFact(embedded.world_size, "launch file", embedded.note)
    merged = merge_jobs(arguments, launched._replace(world_size=launched.world_size or size))
    return map_migration_to_launch_file(
        _migrate_document(embedded.document, to, merged, keep=keep), embedded.embedding
    )


def _migrate_document(
    document: Document, to: str | ReleaseTarget | None, arguments: Job, *, keep: bool
) -> Migration:
    job = build_job(locate_config(document), arguments)
    if arguments.target is None and job.releases.origin in ("installed", "latest"):
        raise ValueError("the release that the config was written for is unknown: pass `origin`")
    origin, target = (
        _single_release(job.releases),
        _single_release(to if isinstance(to, ReleaseTarget) else resolve_target(to)),
    )
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


def _single_release(target: ReleaseTarget) -> str:
    if len(target.releases) > 1:
        raise ValueError(f"`{target.text}` names {len(target.releases)} releases: pass a single one")
    return target.releases[0]
