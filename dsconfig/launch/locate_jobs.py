"""Locate the config of each job that a file starts; a script may start several."""

from __future__ import annotations

from dsconfig.document import Document
from dsconfig.launch.find_jobs import jobs_of_launch_file
from dsconfig.launch.located_config import LocatedConfig, locate_config, locate_config_of_job


def locate_jobs(host: Document) -> list[LocatedConfig]:
    """Locate the config of each job that a file starts; jobs that differ in nothing that matters count once.

    A file that is a config, or starts no job, gives the one result of `locate`.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    jobs = [] if host.format == "python" else list(jobs_of_launch_file(host))
    if len(jobs) < 2 and not (jobs and jobs[0].started_by):
        return [locate_config(host)]
    distinct: dict[tuple[object, ...], LocatedConfig] = {}
    for number, job in enumerate(jobs):
        if job.identity not in distinct:
            distinct[job.identity] = locate_config_of_job(job)._replace(job_number=number)
    return list(distinct.values())


def locate_again(host: Document, job_number: int) -> LocatedConfig:
    """Locate the config of a job in another text of its file; `job_number`: see `LocatedConfig`.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    jobs = list(jobs_of_launch_file(host)) if job_number else []
    if job_number >= len(jobs):
        return locate_config(host)
    return locate_config_of_job(jobs[job_number])._replace(job_number=job_number)
