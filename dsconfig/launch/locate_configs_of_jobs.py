"""Locate the config of each job that a file starts; a script may start several."""

from __future__ import annotations

from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document
from dsconfig.launch.config_source import ConfigSource, read_config_source
from dsconfig.launch.find_jobs import job_by_number, jobs_of_launch_file
from dsconfig.launch.located_config import LocatedConfig, locate_config, locate_config_of_job


def locate_jobs(host: Document) -> list[LocatedConfig]:
    """Locate the config of each distinct job in a file; jobs with equal `LaunchedJob.identity` count once.

    For a config, a file that starts no job, or a selected job, the only result is that of `locate_config`.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    if host.selected_job is not None:
        return [locate_config(host)]
    jobs = [] if host.format == "python" else list(jobs_of_launch_file(host))
    if len(jobs) < 2 and not (jobs and jobs[0].started_by):
        return [locate_config(host)]
    distinct: dict[tuple[object, ...], LocatedConfig] = {}
    for number, job in enumerate(jobs):
        if job.identity not in distinct:
            distinct[job.identity] = locate_config_of_job(job)._replace(job_number=number)
    located = list(distinct.values())
    # Jobs of launch files that the script passes on are about those files, not about the script's own commands.
    if all(each.job is not None and each.job.started_by for each in located) and _has_launcher_problems(host):
        located.append(LocatedConfig(host, host, "file"))
    return located


def _has_launcher_problems(script: Document) -> bool:
    from dsconfig.launch.launcher_checks import has_launcher_problems

    return has_launcher_problems(script)


def locate_again(host: Document, job_number: int) -> LocatedConfig:
    """Locate the config of a job again after the text of its file has changed.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    job = job_by_number(host, job_number) if job_number else None
    return locate_config(host) if job is None else locate_config_of_job(job)._replace(job_number=job_number)


# For a function or command with one result: the job or config that it is about.


def read_config_of_job(source: ConfigSource | Document, job: int | None) -> Document:
    """Read a config source and select one of its jobs; if `job` is None, warn about the other jobs.

    Raises:
        OSError: the path cannot be read.
        TypeError: the source is of another type.
        ValueError: see `select_job`.
    """
    if isinstance(source, Document) and job is None:
        return source
    selected = select_job(source if isinstance(source, Document) else read_config_source(source), job)
    if selected.others:
        import warnings

        warnings.warn(f"{selected.note}; `job` selects another one", stacklevel=3)
    return selected.document


class SelectedJob(NamedTuple):
    """The job selected from a file, for commands that report on a single job."""

    document: Document
    """The file with the selected job, or the selected config of a Python source."""
    number: int = 1
    others: str = ""
    """Sentence that lists all jobs; empty if the file has only one or the user selected it."""
    configs_differ: bool = False
    """Whether the jobs of the file have different configs."""

    @property
    def note(self) -> str:
        """Note that lists all jobs and says which one was selected."""
        return f"{self.others}; this is about job {self.number}"


def select_job(host: Document, number: int | None = None) -> SelectedJob:
    """Select one of the jobs that a file starts, or one of the configs in a Python source.

    Args:
        host: the file.
        number: number of the job or config, from 1, or None for the first job that has a config.

    Raises:
        OSError: the config that a launch file names cannot be read.
        ValueError: there is no such job, or `number` is None and a Python source has several configs.
    """
    if host.is_in_program:
        return SelectedJob(_select_config_of_program(host, number), number or 1)
    located = locate_jobs(host)
    if number is not None:
        _require_number_within(host, number, len(located), "job")
    if len(located) == 1:
        return SelectedJob(host)
    first = 1 + next((index for index, each in enumerate(located) if each.config is not None), 0)
    host.selected_job = located[(number or first) - 1].job_number
    if number is not None:
        return SelectedJob(host, number)
    configs = {each.config.name for each in located if each.config is not None}
    return SelectedJob(host, first, _describe_jobs(host, located), len(configs) > 1)


def _select_config_of_program(host: Document, number: int | None) -> Document:
    from dsconfig.launch.python.config_dicts import sibling_documents

    configs = sibling_documents(host) or [host]
    if number is not None:
        _require_number_within(host, number, len(configs), "config")
        return configs[number - 1]
    if len(configs) == 1:
        return host
    lines = [str(each.position(each.root.span.start).line) for each in configs if each.root]
    raise ValueError(
        f"{host.name} contains {len(configs)} configs, in lines {', '.join(lines[:-1])} and {lines[-1]}:"
        f" select one by its number, from 1 to {len(configs)}"
    )


def _require_number_within(host: Document, number: int, count: int, noun: str) -> None:
    if not 1 <= number <= count:
        amount = f"{count} {noun}{'' if count == 1 else 's'}"
        raise ValueError(f"there is no {noun} {number}: {host.name} has {amount}")


def _describe_jobs(host: Document, located: list[LocatedConfig]) -> str:
    shown = [
        f"{index + 1}: {each.job.location}, {each.job.reference}"
        for index, each in enumerate(located[:_SHOWN_JOBS])
        if each.job is not None
    ]
    more = [f"and {len(located) - _SHOWN_JOBS} more"] if len(located) > _SHOWN_JOBS else []
    return f"{host.name} starts {len(located)} jobs that differ ({'; '.join([*shown, *more])})"


_SHOWN_JOBS = 6
"""Maximum number of jobs that a note lists."""
