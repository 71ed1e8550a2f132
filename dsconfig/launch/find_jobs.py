"""Jobs of a launch file in any format, and the arguments of the job that uses a config."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.accelerate_launch_file import is_launch_file, processes
from dsconfig.consumers.consumer import consumer_of
from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.file_access import contents
from dsconfig.core.json_types import Json, JsonObject, at
from dsconfig.document import Document, read_bytes, read_dict, read_file
from dsconfig.job.detect_consumer import Given, Reader
from dsconfig.job.run_facts import Known
from dsconfig.launch.config_references import commands_with, launchers_of, references_take_too_much
from dsconfig.launch.format_table import SCRIPT, SCRIPTS, Format, format_of
from dsconfig.launch.repository import FOLDER, Budget, SpentError

if TYPE_CHECKING:
    from dsconfig.launch.launched_job import Job


# From a launch file of any format to its jobs.


def jobs_of(launch: Document, wanted: str | None = None, within: Budget | None = None) -> Iterator[Job]:
    """Yield every job of a launch file; a script may have several.

    `wanted`: real path of a config; a script's jobs with other configs are skipped. `within`: shared budget
    of all launch files that are read together.

    Raises:
        OSError: a config cannot be read.
        SpentError: a budget is given and this file exceeds it.
    """
    if not launch.name.endswith(SCRIPTS):
        if within is not None:
            within.spend(len(launch.text))
            if takes_too_much(launch):
                raise SpentError
        job = job_of(launch)
        yield from [job] if job else []
        return
    from dsconfig.launch.script_jobs import jobs_of_commands

    yield from jobs_of_commands(SCRIPT, launch, None, wanted, within)


def takes_too_much(launch: Document) -> bool:
    """Whether reading the commands of a launch file exceeds the budget, so that none is known."""
    data = None if launch.name.endswith(SCRIPTS) else launch.value()
    found = SCRIPT if data is None else format_of(data)
    if found is None or not (data is None or (found.commands and isinstance(data, dict))):
        return False
    from dsconfig.launch.script_jobs import takes_too_much

    return takes_too_much(found, launch, data)


def job_of(launch: Document) -> Job | None:
    """The job of a launch file; None for any other document, and if it does not use DeepSpeed.

    Raises:
        OSError: the config cannot be read.
    """
    if launch.name.endswith(SCRIPTS):
        from dsconfig.launch.script_jobs import of_commands

        return of_commands(SCRIPT, launch, None)
    data = launch.value()
    found = format_of(data)
    if found is None or not isinstance(data, dict):
        return None
    if found.commands:
        from dsconfig.launch.script_jobs import of_commands

        job = of_commands(found, launch, data)
        return job and job._replace(world_size=_world(found, data) or job.world_size)
    return _of_keys(found, launch, data)


def _of_keys(found: Format, launch: Document, data: JsonObject) -> Job | None:
    """The job of a launch file that names or contains its config under a key."""
    # Imported here because most documents are not launch files and should not load these modules.
    from dsconfig.consumers.accelerate_launch_file import BLOCK
    from dsconfig.launch.config_references import read_passed
    from dsconfig.launch.launched_job import Job, text_of
    from dsconfig.launch.repository import installed, search
    from dsconfig.launch.training_arguments import constant, exponents, human

    key = next((key for key in found.config if at(data, key)), None)
    if key is None:
        return _of_makers(found, launch, data)
    value, place = at(data, key), tuple(key.split("."))
    # Determined writes a constant hyperparameter as `{type: const, val: ...}`.
    if constant(value) is not value:
        value, place = constant(value), (*place, "val")
    told = None if _own_loop(found, launch) else _given(found, launch, data)
    job = Job(found, launch, key, key, None, None, told, _world(found, data))
    if isinstance(value, dict) and found.makes == "plugin":
        made: JsonObject = {"distributed_type": "DEEPSPEED", BLOCK: value}
        return job._replace(document=read_dict(made, f"{launch.name}: {key}"))
    if isinstance(value, dict):
        part = read_dict(value, launch.name) if launch.is_data else launch.part(place)
        if found.numbers != "yaml" and part is not None:
            part = part.read_as(human(value) if found.numbers == "human" else exponents(value))
        return job._replace(document=_overwritten(part, found, data), inline=place)
    if not isinstance(value, str):
        return None
    job = job._replace(written=value)
    if text := text_of(value):
        config = read_bytes(text.data, launch.name)
        return job._replace(document=config, written=key, inline=place, encoded=text.encoded)
    if preset := installed(found.preset, value):
        return job._replace(document=read_passed(contents(preset), preset, found.reader))
    where = search(value, launch.name)
    document = None if where.path is None else read_passed(contents(where.path), where.path, found.reader)
    return job._replace(document=_overwritten(document, found, data), place=where)


def _given(found: Format, launch: Document, data: JsonObject) -> Given:
    """Read the training arguments of a launch file."""
    from dsconfig.launch.training_arguments import given

    if found.name != "Transformers":
        return given(found, data)
    from dsconfig.launch.program_arguments import given_by_program

    return given_by_program(found, data, launch.name)


def _overwritten(config: Document | None, found: Format, data: Mapping[str, Json]) -> Document | None:
    """Merge the launch file's overrides into the config."""
    over = at(data, found.overwrites) if found.overwrites else None
    if config is None or not isinstance(over, Mapping):
        return config
    return config.read_as(_merged(config.value(), over))


def _merged(value: Json, over: Mapping[str, Json]) -> Json:
    if not isinstance(value, dict):
        return dict(over)
    inner = {key: _merged(value.get(key), each) for key, each in over.items() if isinstance(each, dict)}
    return {**value, **over, **inner}


def _own_loop(found: Format, launch: Document) -> bool:
    """Whether a program takes the Trainer's arguments but passes the config to DeepSpeed without a Trainer.
    """
    if found.name != "Transformers":
        return False
    from dsconfig.launch.config_references import own_loop

    return own_loop(launch.name) is not None


def _of_makers(found: Format, launch: Document, data: Mapping[str, Json]) -> Job | None:
    """The job of a launch file whose program builds the config from its keys; None if it builds none."""
    from dsconfig.launch import config_synthesis
    from dsconfig.launch.launched_job import Job
    from dsconfig.launch.training_arguments import given

    if found.makes == "neox":
        made: JsonObject | None = config_synthesis.neox_config(data)
        world = config_synthesis.world_size(data)
    elif found.makes == "lightning":
        made, world = config_synthesis.config(data), _world(found, data)
    else:
        return None
    if made is None:
        return None
    document = read_dict(made, launch.name)
    return Job(found, launch, found.made_of, found.made_of, document, None, given(found, data), world)


def _world(found: Format, data: Mapping[str, Json]) -> int | None:
    """World size of a launch file: the product of the format's keys; None if a needed key is missing."""
    from math import prod

    needed = (*found.world[:1], *found.needs)
    if not needed or any(at(data, key) is None for key in needed):
        return None
    sizes = [_count(at(data, key)) for key in found.world if at(data, key) is not None]
    return prod(size for size in sizes if size) if all(sizes) else None


def _count(value: Json) -> int | None:
    """A positive count, perhaps as text in an environment variable; None if unknown before the run."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _MOST_DIGITS:
        value = int(value)
    return value if type(value) is int and value > 0 else None


_MOST_DIGITS = 10


# Arguments of the jobs that read a config, when the user checks the config alone.


def with_version(reader: Reader, name: str) -> Reader:
    """The consumer with its pinned or installed version, if that version differs from the newest in what it
    fills.
    """
    if reader.version is not None or reader.name not in HUGGING_FACE:
        return reader
    from dsconfig.consumers.consumer_versions import is_newest
    from dsconfig.launch.requirements import version_of

    found = version_of(reader.name, name)
    if found is None or is_newest(reader.name, found[0]):
        return reader
    version, source = found
    return reader._replace(version=version, why=f"{reader.why}, version {version} {source}")


def with_arguments(reader: Reader, name: str, launch: str | None = None) -> Reader:
    """The consumer with the arguments and world size from the launch files that name the config.

    Several launch files: values they agree in are used; an argument that differs is unknown, and the reason
    lists its values. If one of them exceeds the reading budget, no arguments are used.

    Args:
        reader: consumer of the config.
        name: path of the config.
        launch: the only launch file to use; None: all that name the config.
    """
    if name.startswith("<") or not name:
        return reader
    if references_take_too_much(name):
        why = f"{reader.why}; the files around it exceed the reading limit, so no arguments are used"
        return reader._replace(why=why)
    jobs = _by_script(name, reader.name, launch)
    if launch is not None and not jobs:
        return reader._replace(why=f"{reader.why}; {os.path.relpath(launch)} does not name this config")
    if reader.name == "accelerate" and reader.said is None and (trained := _by_trainer(name, jobs)):
        reader, jobs = reader._replace(name="transformers", why=f"{reader.why}, for a Trainer"), trained
    if not jobs:
        return reader
    if reader.said is None and not any(jobs.values()):
        jobs = _without_arguments(_by_script(name, None, launch))
    if unread := [script for script, found in jobs.items() if found is None]:
        verb = "exceeds" if len(unread) == 1 else "exceed"
        why = f"{reader.why}; {_named(unread)} {verb} the reading limit, so no arguments are used"
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
    """Arguments, world size and differing values of several jobs; None if they agree in nothing.

    An argument that one job leaves out has the consumer's default there, so it counts as differing.
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
    """Arguments in which all agree, and the values of the others; None if their programs write different
    keys.
    """
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
    """The arguments in which all agree on `ranks` ranks, if a script derives them from the number of ranks.
    """
    same = _same([each.on(ranks) for each in givens], reader)
    return None if same is None else same[0]


_PROCESSES = "the number of processes"


def _difference(scripts: list[str], differing: Mapping[str, list[Json]]) -> str:
    """Describe the arguments in which launch files differ, with their values."""
    told = []
    for name, values in islice(differing.items(), _MOST_NAMED):
        shown = ", ".join("not set" if value is None else str(value)[:_LONGEST] for value in values)
        told.append(f"{name if name == _PROCESSES else f'`{name}`'} ({shown})")
    more = len(differing) - len(told)
    names = f"{', '.join(told)} and {more} more" if more > 0 else " and ".join(told)
    who = f"commands of {_named(scripts)}" if len(scripts) == 1 else _named(scripts)
    choose = "" if len(scripts) == 1 else "; choose one with --launch FILE"
    return f"; {who} differ in {names}, so it counts as unknown{choose}"


_MOST_NAMED, _LONGEST = 3, 40


def _with_model(reader: Reader, jobs: list[Job]) -> Reader:
    """The consumer with the model that all these jobs train; without a model if they train different ones."""
    found = [job.known for job in jobs]
    if len({each.model and each.model.shown for each in found}) > 1:
        return reader._replace(why=f"{reader.why}; its jobs train different models, so none is used")
    programs = {each.program for each in found}
    program = programs.pop() if len(programs) == 1 else None
    adapters = any(each.adapters for each in found)
    model = found[0].model if found else None
    known = Known(model, program=program, adapters=adapters, parallelism=_shared_by(found))
    return reader._replace(known=reader.known.over(known))


def _shared_by(found: list[Known]) -> Parallelism:
    """The parallelism of all jobs; unknown sizes if they differ in what divides the batch."""
    batches = {tuple((each.kind, each.size) for each in one.parallelism.degrees) for one in found}
    if len(batches) < 2:
        return found[0].parallelism if found else NONE
    one = next(known.parallelism for known in found if known.parallelism.degrees)
    return Parallelism(tuple(each._replace(size=None) for each in one.degrees))


def jobs_behind(reader: Reader, name: str) -> list[Job]:
    """The jobs that gave the consumer of this config its arguments."""
    if not reader.launch:
        return []
    return _all(_by_script(name, reader.name)) or _all(_without_arguments(_by_script(name, None)))


def _all(jobs: Mapping[str, list[Job] | None]) -> list[Job]:
    return [job for found in jobs.values() for job in found or ()]


def jobs_naming(name: str) -> list[Job]:
    """Every job that names the config at a path, whatever its consumer."""
    if name.startswith("<") or not name:
        return []
    return _all(_by_script(name, None))


def is_autotuned(name: str) -> bool:
    """Whether every known job with this config runs DeepSpeed's autotuner, which replaces keys of the config.

    Source: deepspeed launcher/runner.py, `--autotuning` (`tune` or `run`).
    """
    jobs = jobs_naming(name)
    return bool(jobs) and all((job.arguments or {}).get("autotuning") in ("tune", "run") for job in jobs)


def _by_script(name: str, reader: str | None, launch: str | None = None) -> dict[str, list[Job] | None]:
    """Jobs by launch file for a config and consumer (None: any); None as value: the file exceeds the budget.
    """
    budget = Budget(FOLDER)
    found: dict[str, list[Job] | None] = {}
    for script in launchers_of(name):
        if launch is not None and os.path.realpath(script) != os.path.realpath(launch):
            continue
        jobs = _jobs(script, name, reader, budget)
        # An Accelerate launch file has no arguments; the scripts that pass it to `accelerate launch` have.
        commands = () if jobs or jobs is None or script.endswith(SCRIPTS) else commands_with(script)
        named = {command: _jobs(command, script, reader, budget) for command in commands}
        named = {command: jobs for command, jobs in named.items() if jobs != []}
        found |= named or {script: jobs}
    return found


def _without_arguments(jobs: Mapping[str, list[Job] | None]) -> dict[str, list[Job] | None]:
    """The jobs without their arguments, which belong to another consumer; model and parallelism still apply.
    """
    return {script: found and [job._replace(given=None) for job in found] for script, found in jobs.items()}


def _by_trainer(name: str, jobs: Mapping[str, list[Job] | None]) -> dict[str, list[Job] | None]:
    """The jobs in which a Trainer reads a config that Accelerate loads; empty if any job has another
    consumer.
    """
    if any(jobs.values()):
        return {}
    trained = _by_script(name, "transformers")
    return trained if all(trained.values()) else {}


def _jobs(script: str, name: str, reader: str | None, budget: Budget) -> list[Job] | None:
    """The jobs of a launch file in which this consumer (None: any) reads the config at a path.

    None: the launch file exceeds the reading budget.
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
    """World size set by the Accelerate launch file that a command names."""
    data = job.document.value() if job.document else None
    return processes(data) if is_launch_file(data) and not job.processes.open else None


def _disagreement(scripts: list[str]) -> str:
    """Say that the jobs share no arguments; used if their programs write different keys."""
    verb = "names" if len(scripts) == 1 else "name"
    return f"; {_named(scripts)} {verb} it with different arguments, so none are used"


_FEW = 2


def _named(scripts: list[str]) -> str:
    """The first few paths, relative to the current directory, and the number of the others."""
    paths = sorted(os.path.relpath(script) for script in scripts)
    more = len(paths) - _FEW
    return f"{', '.join(paths[:_FEW])} and {more} more" if more > 0 else " and ".join(paths)
