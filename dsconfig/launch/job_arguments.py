"""The arguments of the job that reads a config, where the config alone is asked about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.accelerate_launch_file import is_launch_file, processes
from dsconfig.core.data_parallel import NONE, Parallelism
from dsconfig.document import read_file
from dsconfig.job.consumer import Reader
from dsconfig.job.run_facts import Known
from dsconfig.launch.budget import FOLDER, Budget, SpentError
from dsconfig.launch.config_references import commands_with, launchers_of, takes_too_much
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.formats import SCRIPTS

if TYPE_CHECKING:
    from dsconfig.launch.job import Job


def informed(reader: Reader, name: str) -> Reader:
    """The reader of the config at a path, with what else its repository tells of the job."""
    return with_version(with_arguments(reader, name), name)


def with_version(reader: Reader, name: str) -> Reader:
    """The reader in the version that is required or installed, where that is not as the newest is."""
    if reader.version is not None or reader.name not in HUGGING_FACE:
        return reader
    from dsconfig.consumers.consumer_versions import is_newest
    from dsconfig.launch.installed_versions import version_of

    found = version_of(reader.name, name)
    if found is None or is_newest(reader.name, found[0]):
        return reader
    version, source = found
    return reader._replace(version=version, why=f"{reader.why}, version {version} {source}")


def with_arguments(reader: Reader, name: str) -> Reader:
    """The reader with the arguments and the world size that the launch file of the config at a path gives.

    Where several launch files name it, and do not agree, none of them counts, which is said; so where one of
    them takes too much work to read.
    """
    if name.startswith("<") or not name:
        return reader
    if takes_too_much(name):
        why = f"{reader.why}; the files around it take too much work to read, and no arguments are used"
        return reader._replace(why=why)
    jobs = _by_script(name, reader.name)
    if reader.name == "accelerate" and reader.said is None and (trained := _by_trainer(name, jobs)):
        reader, jobs = reader._replace(name="transformers", why=f"{reader.why}, for a Trainer"), trained
    if not jobs:
        return reader
    if unread := [script for script, found in jobs.items() if found is None]:
        verb = "takes" if len(unread) == 1 else "take"
        why = f"{reader.why}; {_named(unread)} {verb} too much work to read, and no arguments are used"
        return reader._replace(why=why)
    known = _all(jobs)
    reader = _with_model(reader, known)
    arguments = {(repr(job.given), job.world_size) for job in known}
    if not all(jobs.values()) or len(arguments) != 1:
        return reader._replace(why=f"{reader.why}{_disagreement(list(jobs))}") if known else reader
    job = known[0]
    if not (job.given and job.given.arguments) and job.world_size is None:
        return reader
    size = f" ({job.world_size} process{'es' * (job.world_size > 1)})" if job.world_size else ""
    launch = f"{_named(list(jobs))}{size}"
    why = f"{reader.why}, with the arguments of {launch}"
    return reader._replace(why=why, given=job.given, processes=job.world_size, launch=launch)


def _with_model(reader: Reader, jobs: list[Job]) -> Reader:
    """The reader with the model that all these jobs train; where they train several, none of them counts."""
    found = [job.known for job in jobs]
    if len({each.model and each.model.shown for each in found}) > 1:
        return reader._replace(why=f"{reader.why}; it is read for several models, and none is taken")
    programs = {each.program for each in found}
    program = programs.pop() if len(programs) == 1 else None
    adapters = any(each.adapters for each in found)
    model = found[0].model if found else None
    known = Known(model, program=program, adapters=adapters, parallelism=_shared_by(found))
    return reader._replace(known=reader.known.over(known))


def _shared_by(found: list[Known]) -> Parallelism:
    """The parallelism of all these jobs; where they differ in what divides the batch, it is not known."""
    batches = {tuple((each.kind, each.size) for each in one.parallelism.degrees) for one in found}
    if len(batches) < 2:
        return found[0].parallelism if found else NONE
    one = next(known.parallelism for known in found if known.parallelism.degrees)
    return Parallelism(tuple(each._replace(size=None) for each in one.degrees))


def jobs_behind(reader: Reader, name: str) -> list[Job]:
    """The jobs whose arguments the reader of the config at a path has."""
    return _all(_by_script(name, reader.name)) if reader.launch else []


def _all(jobs: Mapping[str, list[Job] | None]) -> list[Job]:
    return [job for found in jobs.values() for job in found or ()]


def jobs_naming(name: str) -> list[Job]:
    """Every job that names the config at a path, whoever reads it there."""
    if name.startswith("<") or not name:
        return []
    return _all(_by_script(name, None))


def is_autotuned(name: str) -> bool:
    """Whether every command known to start a job with the config at a path starts DeepSpeed's autotuner.

    Source: deepspeed launcher/runner.py, `--autotuning` (`tune` or `run`).
    """
    jobs = jobs_naming(name)
    return bool(jobs) and all((job.arguments or {}).get("autotuning") in ("tune", "run") for job in jobs)


def _by_script(name: str, reader: str | None) -> dict[str, list[Job] | None]:
    budget = Budget(FOLDER)
    found: dict[str, list[Job] | None] = {}
    for script in launchers_of(name):
        jobs = _jobs(script, name, reader, budget)
        commands = () if jobs or jobs is None or script.endswith(SCRIPTS) else commands_with(script)
        named = {command: _jobs(command, script, reader, budget) for command in commands}
        named = {command: jobs for command, jobs in named.items() if jobs != []}
        found |= named or {script: jobs}
    return found


def _by_trainer(name: str, jobs: Mapping[str, list[Job] | None]) -> dict[str, list[Job] | None]:
    """The jobs by which a Trainer reads a config that Accelerate is handed; empty where any is another's."""
    if any(jobs.values()):
        return {}
    trained = _by_script(name, "transformers")
    return trained if all(trained.values()) else {}


def _jobs(script: str, name: str, reader: str | None, budget: Budget) -> list[Job] | None:
    """The jobs of a launch file by which this reader (None: any) reads the config at a path.

    None: the launch file was not read.
    """
    path = os.path.realpath(name)
    try:
        found = list(jobs_of(read_file(script), path, budget))
    except OSError:
        return []
    except SpentError:
        return None
    return [
        job if job.world_size is not None else job._replace(world_size=_processes(job))
        for job in found
        if reader in (None, job.format.reader)
        and job.inline is None
        and job.place is not None
        and job.place.path is not None
        and os.path.realpath(job.place.path) == path
    ]


def _processes(job: Job) -> int | None:
    """The world size of the launch file of Accelerate that a command names."""
    data = job.document.value() if job.document else None
    return processes(data) if is_launch_file(data) and not job.processes.open else None


def _disagreement(scripts: list[str]) -> str:
    if len(scripts) == 1:
        return f"; {_named(scripts)} names it with different arguments, and none are used"
    return f"; {_named(scripts)} name it with different arguments, and none are used"


_FEW = 2


def _named(scripts: list[str]) -> str:
    paths = sorted(os.path.relpath(script) for script in scripts)
    more = len(paths) - _FEW
    return f"{', '.join(paths[:_FEW])} and {more} more" if more > 0 else " and ".join(paths)
