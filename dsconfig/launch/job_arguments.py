"""The arguments of the job that reads a config, where the config alone is asked about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.accelerate_launch_file import is_launch_file, processes
from dsconfig.consumers.registry import consumer_of
from dsconfig.core.data_parallel import NONE, Parallelism
from dsconfig.core.json_types import Json
from dsconfig.document import read_file
from dsconfig.job.detect_consumer import Given, Reader
from dsconfig.job.run_facts import Known
from dsconfig.launch.config_references import commands_with, launchers_of, takes_too_much
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.launch.reading_budget import FOLDER, Budget, SpentError

if TYPE_CHECKING:
    from dsconfig.launch.launched_job import Job


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


def with_arguments(reader: Reader, name: str, launch: str | None = None) -> Reader:
    """The reader with the arguments and the world size that the launch files of the config at a path give.

    Where several launch files name it, what they agree in is known; arguments in which they differ are not,
    which is said with their values. Where one of them takes too much work to read, nothing is known.

    Args:
        reader: who reads the config.
        name: the path of the config.
        launch: the launch file that counts alone; None: all that name the config.
    """
    if name.startswith("<") or not name:
        return reader
    if takes_too_much(name):
        why = f"{reader.why}; the files around it take too much work to read, and no arguments are used"
        return reader._replace(why=why)
    jobs = _by_script(name, reader.name, launch)
    if launch is not None and not jobs:
        return reader._replace(why=f"{reader.why}; {os.path.relpath(launch)} does not name it")
    if reader.name == "accelerate" and reader.said is None and (trained := _by_trainer(name, jobs)):
        reader, jobs = reader._replace(name="transformers", why=f"{reader.why}, for a Trainer"), trained
    if not jobs:
        return reader
    if reader.said is None and not any(jobs.values()):
        jobs = _without_arguments(_by_script(name, None, launch))
    if unread := [script for script, found in jobs.items() if found is None]:
        verb = "takes" if len(unread) == 1 else "take"
        why = f"{reader.why}; {_named(unread)} {verb} too much work to read, and no arguments are used"
        return reader._replace(why=why)
    known = _all(jobs)
    reader = _with_model(reader, known)
    agreed = _agreed(known, reader.name) if all(jobs.values()) else None
    if agreed is None:
        return reader._replace(why=f"{reader.why}{_disagreement(list(jobs))}") if known else reader
    given, ranks, differing = agreed
    if not (given and given.arguments) and ranks is None and not differing:
        return reader
    size = f" ({ranks} process{'es' * (ranks > 1)})" if ranks else ""
    told = f"{_named(list(jobs))}{size}"
    differs = _difference(list(jobs), differing) if differing else ""
    why = f"{reader.why}, with the arguments of {told}{differs}"
    return reader._replace(why=why, given=given, processes=ranks, launch=told)


def _agreed(jobs: list[Job], reader: str) -> tuple[Given | None, int | None, dict[str, list[Json]]] | None:
    """What jobs agree in: arguments, processes, and the values in which they differ; None: in nothing.

    An argument that one of them leaves out has its default there, which the consumer alone knows: it differs.
    """
    first, *others = [job.given for job in jobs]
    sizes = list(dict.fromkeys(job.world_size for job in jobs))
    ranks = sizes[0] if len(sizes) == 1 else None
    differing: dict[str, list[Json]] = {} if len(sizes) == 1 else {_PROCESSES: list(sizes)}
    if first is None or None in others:
        return (None, ranks, differing) if not any(job.given for job in jobs) else None
    same = _same([each.given for each in jobs if each.given is not None], reader)
    return None if same is None else (same[0], ranks, {**differing, **same[1]})


def _same(givens: list[Given], reader: str) -> tuple[Given, dict[str, list[Json]]] | None:
    """The arguments in which all agree, and the values of the others; None: their programs write different things."""
    first, differing = givens[0], dict[str, list[Json]]()
    if len({repr(each) for each in givens}) == 1:
        return first, differing
    if len({repr((each.sets, each.writes, each.update)) for each in givens}) > 1:
        return None
    unknown = frozenset[str]().union(*(each.unknown for each in givens))
    same: dict[str, Json] = {}
    for name in dict.fromkeys(name for each in givens for name in each.arguments):
        values = [each.arguments.get(name) for each in givens]
        if all(value == values[0] for value in values):
            same[name] = values[0]
        else:
            unknown |= {name}
            if name in consumer_of(reader).arguments:
                differing[name] = list({repr(value): value for value in values}.values())
    likely = {
        name: value
        for name, value in first.likely.items()
        if all(each.likely.get(name) == value for each in givens)
    }
    agreed = first._replace(
        arguments=same,
        unknown=unknown,
        likely=likely,
        at=partial(_same_at, givens, reader) if any(each.at for each in givens) else None,
        note="",
        has_flags=all(each.has_flags for each in givens),
        spelled={
            word: own
            for word, own in first.spelled.items()
            if all(each.spelled.get(word) == own for each in givens)
        },
    )
    return agreed, differing


def _same_at(givens: list[Given], reader: str, ranks: int) -> Given | None:
    """In which arguments all agree on so many ranks, where the script of one reckons with their number."""
    same = _same([each.on(ranks) for each in givens], reader)
    return None if same is None else same[0]


_PROCESSES = "the number of processes"


def _difference(scripts: list[str], differing: Mapping[str, list[Json]]) -> str:
    """In what launch files differ, with the values."""
    told = []
    for name, values in islice(differing.items(), _MOST_NAMED):
        shown = ", ".join("not given" if value is None else str(value)[:_LONGEST] for value in values)
        told.append(f"{name if name == _PROCESSES else f'`{name}`'} ({shown})")
    more = len(differing) - len(told)
    names = f"{', '.join(told)} and {more} more" if more > 0 else " and ".join(told)
    who = f"commands of {_named(scripts)}" if len(scripts) == 1 else _named(scripts)
    choose = "" if len(scripts) == 1 else "; --launch FILE takes those of one"
    return f"; {who} differ in {names}, which is taken for unknown{choose}"


_MOST_NAMED, _LONGEST = 3, 40


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
    if not reader.launch:
        return []
    return _all(_by_script(name, reader.name)) or _all(_without_arguments(_by_script(name, None)))


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


def _by_script(name: str, reader: str | None, launch: str | None = None) -> dict[str, list[Job] | None]:
    budget = Budget(FOLDER)
    found: dict[str, list[Job] | None] = {}
    for script in launchers_of(name):
        if launch is not None and os.path.realpath(script) != os.path.realpath(launch):
            continue
        jobs = _jobs(script, name, reader, budget)
        commands = () if jobs or jobs is None or script.endswith(SCRIPTS) else commands_with(script)
        named = {command: _jobs(command, script, reader, budget) for command in commands}
        named = {command: jobs for command, jobs in named.items() if jobs != []}
        found |= named or {script: jobs}
    return found


def _without_arguments(jobs: Mapping[str, list[Job] | None]) -> dict[str, list[Job] | None]:
    """The jobs for what they tell beside the arguments, which another program than the reader takes."""
    return {script: found and [job._replace(given=None) for job in found] for script, found in jobs.items()}


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
