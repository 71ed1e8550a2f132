"""Jobs of a launch file in any format, and the arguments of the job that uses a config."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

from dsconfig.core.batch_triplet import NONE, Parallelism
from dsconfig.core.file_access import MAX_NOTEBOOK_SIZE, contents
from dsconfig.core.json_types import Json, JsonObject, at
from dsconfig.document import Document, read_bytes, read_dict, read_file
from dsconfig.document.config_file_names import is_notebook
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file, num_processes
from dsconfig.job.consumers.consumer import consumer_of
from dsconfig.job.detect_consumer import LaunchArguments, Reader
from dsconfig.job.job_facts import RunFacts
from dsconfig.launch.config_references import accelerate_scripts, launchers_of, references_exceed_budget
from dsconfig.launch.launch_file_formats import SCRIPT, Format, format_of, is_script, world_size_of
from dsconfig.launch.repository import FOLDER_STEPS, Budget, SpentError

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.launch.launched_job import LaunchedJob


# From a launch file of any format to its jobs.


def jobs_of(
    launch: Document, config_path: str | None = None, budget: Budget | None = None
) -> Iterator[LaunchedJob]:
    """Yield every job of a launch file; a script may have several.

    `config_path`: real path of a config; a script's jobs with other configs are skipped. `budget`: shared budget
    of all launch files that are read together.

    Raises:
        OSError: a config cannot be read.
        SpentError: a budget is given and this file exceeds it.
    """
    if not is_script(launch.name):
        if budget is not None:
            budget.spend(len(launch.text))
            if exceeds_budget(launch):
                raise SpentError
        launch_format, data = format_of(launch.value()), launch.value()
        if launch_format is not None and launch_format.commands and isinstance(data, dict):
            from dsconfig.launch.script_jobs import jobs_of_commands

            ranks = world_size_of(launch_format, data)
            for each in jobs_of_commands(launch_format, launch, data, config_path, follow=job_of):
                yield each._replace(world_size=ranks or each.world_size)
            return
        job = job_of(launch)
        yield from [job] if job else []
        return
    from dsconfig.launch.script_jobs import jobs_of_commands

    yield from jobs_of_commands(SCRIPT, launch, None, config_path, budget, job_of)


def exceeds_budget(launch: Document) -> bool:
    """Whether reading the commands of a launch file exceeds the budget, so that none is known."""
    data = None if is_script(launch.name) else launch.value()
    launch_format = SCRIPT if data is None else format_of(data)
    if launch_format is None or not (data is None or (launch_format.commands and isinstance(data, dict))):
        return False
    from dsconfig.launch.script_jobs import exceeds_budget

    return exceeds_budget(launch_format, launch, data)


def job_of(launch: Document) -> LaunchedJob | None:
    """The job of a launch file; None for any other document, and if it does not use DeepSpeed.

    Raises:
        OSError: the config cannot be read.
    """
    if is_script(launch.name):
        from dsconfig.launch.script_jobs import job_of_commands

        return job_of_commands(SCRIPT, launch, None, job_of)
    data = launch.value()
    launch_format = format_of(data)
    if not isinstance(data, dict):
        return None
    if launch_format is None:
        return _job_below_a_key(launch)
    if launch_format.commands:
        from dsconfig.launch.script_jobs import job_of_commands

        job = job_of_commands(launch_format, launch, data, job_of)
        return job and job._replace(world_size=world_size_of(launch_format, data) or job.world_size)
    return _job_of_keys(launch_format, launch, data)


def _job_below_a_key(launch: Document) -> LaunchedJob | None:
    """The job of a YAML file of OmegaConf or Hydra; None for any other file, such as an Accelerate launch file."""
    if launch.format != "yaml" or launch.embedded_at is not None or is_launch_file(launch.value()):
        return None
    from dsconfig.launch.omegaconf import job_in

    return job_in(launch)


def _job_of_keys(launch_format: Format, launch: Document, data: JsonObject) -> LaunchedJob | None:
    """The job of a launch file that names or contains its config under a key."""
    # Imported here because most documents are not launch files and should not load these modules.
    from dsconfig.job.consumers.accelerate_launch_file import BLOCK
    from dsconfig.launch.framework_presets import PRESET, program_preset
    from dsconfig.launch.launched_job import LaunchedJob, decode_config
    from dsconfig.launch.read_passed_config import read_passed
    from dsconfig.launch.repository import installed_preset, search
    from dsconfig.launch.training_arguments import constant_value, parse_exponents, parse_human_numbers

    key = next((key for key in launch_format.config if at(data, key)), None)
    if key is None:
        return _job_of_built_config(launch_format, launch, data)
    value, path = at(data, key), tuple(key.split("."))
    # Determined writes a constant hyperparameter as `{type: const, val: ...}`.
    if constant_value(value) is not value:
        value, path = constant_value(value), (*path, "val")
    arguments = (
        None
        if _has_training_loop(launch_format, launch)
        else _training_arguments(launch_format, launch, data)
    )
    job = LaunchedJob(
        launch_format, launch, key, key, None, None, arguments, world_size_of(launch_format, data)
    )
    if isinstance(value, dict) and launch_format.builds == "plugin":
        accelerate_config: JsonObject = {"distributed_type": "DEEPSPEED", BLOCK: value}
        return job._replace(document=read_dict(accelerate_config, f"{launch.name}: {key}"))
    if isinstance(value, dict):
        part = read_dict(value, launch.name) if launch.is_data else launch.subdocument(path)
        if launch_format.number_format != "yaml" and part is not None:
            part = part.with_value(
                parse_human_numbers(value)
                if launch_format.number_format == "human"
                else parse_exponents(value)
            )
        return job._replace(document=_with_overrides(part, launch_format, data), embedded_path=path)
    if not isinstance(value, str):
        return None
    job = job._replace(reference=value)
    if text := decode_config(value):
        config = read_bytes(text.data, launch.name)
        return job._replace(document=config, reference=key, embedded_path=path, encoding=text.encoding)
    # ms-swift tries preset names before paths: arguments/sft_args.py:_init_deepspeed.
    if preset := installed_preset(launch_format.preset, value):
        return job._replace(document=read_passed(contents(preset), preset, launch_format.reader))
    if built := program_preset(launch_format.name, value):
        preset_format = launch_format._replace(builds=PRESET)
        return job._replace(format=preset_format, document=read_dict(built, f"{launch.name}: {key}"))
    lookup = search(value, launch.name)
    document = (
        None if lookup.path is None else read_passed(contents(lookup.path), lookup.path, launch_format.reader)
    )
    return job._replace(document=_with_overrides(document, launch_format, data), lookup=lookup)


def _training_arguments(launch_format: Format, launch: Document, data: JsonObject) -> LaunchArguments:
    """Read the training arguments of a launch file."""
    from dsconfig.launch.training_arguments import read_arguments

    if launch_format.name != "Transformers":
        return read_arguments(launch_format, data)
    from dsconfig.launch.arguments_in_code import read_arguments_with_program

    return read_arguments_with_program(launch_format, data, launch.name)


def _with_overrides(
    config: Document | None, launch_format: Format, data: Mapping[str, Json]
) -> Document | None:
    """Merge the launch file's overrides into the config."""
    overrides = at(data, launch_format.overwrites) if launch_format.overwrites else None
    if config is None or not isinstance(overrides, Mapping):
        return config
    return config.with_value(_merged(config.value(), overrides))


def _merged(value: Json, overrides: Mapping[str, Json]) -> Json:
    if not isinstance(value, dict):
        return dict(overrides)
    nested = {key: _merged(value.get(key), each) for key, each in overrides.items() if isinstance(each, dict)}
    return {**value, **overrides, **nested}


def _has_training_loop(launch_format: Format, launch: Document) -> bool:
    """Whether a program takes the Trainer's arguments but passes the config to DeepSpeed without a Trainer."""
    if launch_format.name != "Transformers":
        return False
    from dsconfig.launch.config_references import find_training_loop

    return find_training_loop(launch.name) is not None


def _job_of_built_config(
    launch_format: Format, launch: Document, data: Mapping[str, Json]
) -> LaunchedJob | None:
    """The job of a launch file whose program builds the config from its keys; None if it builds none."""
    from dsconfig.launch import framework_configs
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.training_arguments import read_arguments

    if launch_format.builds == "neox":
        config: JsonObject | None = framework_configs.neox_config(data)
        world = framework_configs.world_size(data)
    elif launch_format.builds == "lightning":
        config, world = framework_configs.lightning_config(data), world_size_of(launch_format, data)
    else:
        return None
    if config is None:
        return None
    document = read_dict(config, launch.name)
    return LaunchedJob(
        launch_format,
        launch,
        launch_format.built_from,
        launch_format.built_from,
        document,
        None,
        read_arguments(launch_format, data),
        world,
    )


# Arguments of the jobs that read a config, when the user checks the config alone.


def with_version(reader: Reader, name: str) -> Reader:
    """The consumer with its pinned or installed version, if that fills differently from the newest."""
    if reader.version is not None or reader.name not in HUGGING_FACE:
        return reader
    from dsconfig.job.consumers.consumer_versions import is_newest
    from dsconfig.launch.requirements import version_of

    pinned = version_of(reader.name, name)
    if pinned is None or is_newest(reader.name, pinned[0]):
        return reader
    version, source = pinned
    return reader._replace(version=version, why=f"{reader.why}, version {version} {source}")


def with_trainer_fact(reader: Reader, name: str) -> Reader:
    """The consumer of an Accelerate launch file, with its programs.

    Also with the fact whether every job that passes the file uses a Trainer.
    """
    budget = Budget(FOLDER_STEPS)
    scripts = () if name.startswith("<") else accelerate_scripts(name)
    jobs = [job for script in scripts for job in _jobs_reading(script, name, None, budget) or ()]
    uses_trainer = bool(jobs) and all(job.facts.uses_trainer for job in jobs)
    facts = RunFacts(uses_trainer=uses_trainer, program_files=_program_files(jobs))
    return reader._replace(facts=reader.facts.over(facts))


def _program_files(jobs: list[LaunchedJob]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for job in jobs for path in job.program_files))


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
    if references_exceed_budget(name):
        why = f"{reader.why}; the files around it exceed the reading limit, so no arguments are used"
        return reader._replace(why=why)
    jobs = _jobs_by_file(name, reader.name, launch)
    if launch is not None and not jobs:
        return reader._replace(why=f"{reader.why}; {os.path.relpath(launch)} does not name this config")
    # The Trainer fills the dict of Accelerate's plugin again, from its own arguments: transformers
    # integrations/deepspeed.py:propagate_args_to_deepspeed.
    if (
        reader.name == "accelerate"
        and reader.explicit_spec is None
        and (trainer_jobs := _trainer_jobs(name, jobs))
    ):
        reader, jobs = reader._replace(name="transformers", why=f"{reader.why}, for a Trainer"), trainer_jobs
    if not jobs:
        return reader
    if reader.explicit_spec is None and not any(jobs.values()):
        jobs = _without_arguments(_jobs_by_file(name, None, launch))
    if unread_files := [script for script, file_jobs in jobs.items() if file_jobs is None]:
        verb = "exceeds" if len(unread_files) == 1 else "exceed"
        why = f"{reader.why}; {_join_paths(unread_files)} {verb} the reading limit, so no arguments are used"
        return reader._replace(why=why)
    flat_jobs = _flatten(jobs)
    reader = _with_common_facts(reader, flat_jobs)
    agreed = _common_arguments(flat_jobs, reader.name) if all(jobs.values()) else None
    if agreed is None:
        return (
            reader._replace(why=f"{reader.why}{_describe_disagreement(list(jobs))}") if flat_jobs else reader
        )
    common, ranks, differing = agreed
    if not (common and (common.arguments or common.explicit)) and ranks is None and not differing:
        return reader
    world_size = f" ({ranks} process{'es' * (ranks > 1)})" if ranks else ""
    launch_label = f"{_join_paths(list(jobs))}{world_size}"
    difference = _describe_difference(list(jobs), differing) if differing else ""
    why = f"{reader.why}, with the arguments of {launch_label}{difference}"
    return reader._replace(why=why, training_arguments=common, processes=ranks, launch=launch_label)


def _common_arguments(
    jobs: list[LaunchedJob], reader: str
) -> tuple[LaunchArguments | None, int | None, dict[str, list[Json]]] | None:
    """Arguments, world size and differing values of several jobs; None if they agree in nothing.

    An argument that one job leaves out has the consumer's default there, so it counts as differing.
    """
    first, *others = [job.training_arguments for job in jobs]
    sizes = list(dict.fromkeys(job.world_size for job in jobs))
    ranks = sizes[0] if len(sizes) == 1 else None
    differing: dict[str, list[Json]] = {} if len(sizes) == 1 else {_WORLD_SIZE_LABEL: list(sizes)}
    if first is None or None in others:
        return (None, ranks, differing) if not any(job.training_arguments for job in jobs) else None
    same = _same_arguments(
        [each.training_arguments for each in jobs if each.training_arguments is not None], reader
    )
    return None if same is None else (same[0], ranks, {**differing, **same[1]})


def _same_arguments(
    all_arguments: list[LaunchArguments], reader: str
) -> tuple[LaunchArguments, dict[str, list[Json]]] | None:
    """Common arguments and the values of the others; None if the programs write different keys."""
    first, differing = all_arguments[0], dict[str, list[Json]]()
    if len({repr(each) for each in all_arguments}) == 1:
        return first, differing
    if len({repr((each.sets, each.writes, each.samples_per_step)) for each in all_arguments}) > 1:
        return None
    unknown = frozenset[str]().union(*(each.unknown for each in all_arguments))
    common: dict[str, Json] = {}
    for name in dict.fromkeys(name for each in all_arguments for name in each.arguments):
        values = [each.arguments.get(name) for each in all_arguments]
        if all(value == values[0] for value in values):
            common[name] = values[0]
        else:
            unknown |= {name}
            if name in consumer_of(reader).arguments:
                differing[name] = list({repr(value): value for value in values}.values())
    likely = {
        name: value
        for name, value in first.likely.items()
        if all(each.likely.get(name) == value for each in all_arguments)
    }
    agreed = first._replace(
        arguments=common,
        unknown=unknown,
        likely=likely,
        at=partial(_same_arguments_at, all_arguments, reader)
        if any(each.at for each in all_arguments)
        else None,
        note="",
        has_flags=all(each.has_flags for each in all_arguments),
        spelled={
            word: spelling
            for word, spelling in first.spelled.items()
            if all(each.spelled.get(word) == spelling for each in all_arguments)
        },
        explicit={
            name: value
            for name, value in first.explicit.items()
            if all(each.explicit.get(name) == value for each in all_arguments)
        },
    )
    return agreed, differing


def _same_arguments_at(
    all_arguments: list[LaunchArguments], reader: str, ranks: int
) -> LaunchArguments | None:
    """The arguments in which all agree on `ranks` ranks, if a script derives them from the number of ranks."""
    common = _same_arguments([each.on(ranks) for each in all_arguments], reader)
    return None if common is None else common[0]


_WORLD_SIZE_LABEL = "the number of processes"


def _describe_difference(scripts: list[str], differing: Mapping[str, list[Json]]) -> str:
    """Describe the arguments in which launch files differ, with their values."""
    parts = []
    for name, values in islice(differing.items(), _MAX_NAMED):
        shown_values = ", ".join(
            "not set" if value is None else str(value)[:_MAX_VALUE_LENGTH] for value in values
        )
        parts.append(f"{name if name == _WORLD_SIZE_LABEL else f'`{name}`'} ({shown_values})")
    more = len(differing) - len(parts)
    names = f"{', '.join(parts)} and {more} more" if more > 0 else " and ".join(parts)
    subject = f"commands of {_join_paths(scripts)}" if len(scripts) == 1 else _join_paths(scripts)
    advice = "" if len(scripts) == 1 else "; choose one with --launch FILE"
    return f"; {subject} differ in {names}, so it counts as unknown{advice}"


_MAX_NAMED, _MAX_VALUE_LENGTH = 3, 40


def _with_common_facts(reader: Reader, jobs: list[LaunchedJob]) -> Reader:
    """The consumer with the model that all these jobs train; without a model if they train different ones."""
    job_facts = [job.facts for job in jobs]
    # Memory estimates for the wrong model would mislead more than none.
    if len({each.model and each.model.shown for each in job_facts}) > 1:
        facts = RunFacts(program_files=_program_files(jobs))
        return reader._replace(
            facts=reader.facts.over(facts),
            why=f"{reader.why}; its jobs train different models, so none is used",
        )
    programs = {each.program for each in job_facts}
    program = programs.pop() if len(programs) == 1 else None
    adapters = any(each.adapters for each in job_facts)
    model = job_facts[0].model if job_facts else None
    facts = RunFacts(
        model,
        program=program,
        adapters=adapters,
        parallelism=_common_parallelism(job_facts),
        uses_trainer=bool(job_facts) and all(each.uses_trainer for each in job_facts),
        program_files=_program_files(jobs),
        loads_whole=any(each.loads_whole for each in job_facts),
    )
    return reader._replace(facts=reader.facts.over(facts))


def _common_parallelism(job_facts: list[RunFacts]) -> Parallelism:
    """The parallelism of all jobs; unknown sizes if they differ in what divides the batch."""
    batches = {tuple((each.kind, each.size) for each in example.parallelism.degrees) for example in job_facts}
    if len(batches) < 2:
        return job_facts[0].parallelism if job_facts else NONE
    example = next(facts.parallelism for facts in job_facts if facts.parallelism.degrees)
    return Parallelism(tuple(each._replace(size=None) for each in example.degrees))


def jobs_with_arguments(reader: Reader, name: str) -> list[LaunchedJob]:
    """The jobs that gave the consumer of this config its arguments."""
    if not reader.launch:
        return []
    return _flatten(_jobs_by_file(name, reader.name)) or _flatten(
        _without_arguments(_jobs_by_file(name, None))
    )


def _flatten(jobs: Mapping[str, list[LaunchedJob] | None]) -> list[LaunchedJob]:
    return [job for file_jobs in jobs.values() for job in file_jobs or ()]


def jobs_naming(name: str) -> list[LaunchedJob]:
    """Every job that names the config at a path, whatever its consumer."""
    if name.startswith("<") or not name:
        return []
    return _flatten(_jobs_by_file(name, None))


def is_autotuned(name: str) -> bool:
    """Whether every known job with this config runs DeepSpeed's autotuner, which replaces keys of the config.

    Source: deepspeed launcher/runner.py, `--autotuning` (`tune` or `run`).
    """
    jobs = jobs_naming(name)
    return bool(jobs) and all((job.arguments or {}).get("autotuning") in ("tune", "run") for job in jobs)


def _jobs_by_file(
    name: str, reader: str | None, launch: str | None = None
) -> dict[str, list[LaunchedJob] | None]:
    """Jobs by launch file for a config and consumer (None: any); None as value: the file exceeds the budget."""
    budget = Budget(FOLDER_STEPS)
    jobs_by_file: dict[str, list[LaunchedJob] | None] = {}
    # One budget for all files: a repository may have hundreds of scripts that name the same config.
    for script in launchers_of(name):
        if launch is not None and os.path.realpath(script) != os.path.realpath(launch):
            continue
        jobs = _jobs_reading(script, name, reader, budget)
        # An Accelerate launch file has no arguments; the scripts that pass it to `accelerate launch` have.
        commands = () if jobs or jobs is None or is_script(script) else accelerate_scripts(script)
        jobs_by_command = {command: _jobs_reading(command, script, reader, budget) for command in commands}
        jobs_by_command = {command: jobs for command, jobs in jobs_by_command.items() if jobs != []}
        jobs_by_file |= jobs_by_command or {script: jobs}
    return jobs_by_file


def _without_arguments(jobs: Mapping[str, list[LaunchedJob] | None]) -> dict[str, list[LaunchedJob] | None]:
    """The jobs without their arguments, which belong to another consumer; model and parallelism still apply."""
    return {
        script: file_jobs and [job._replace(training_arguments=None) for job in file_jobs]
        for script, file_jobs in jobs.items()
    }


def _trainer_jobs(
    name: str, jobs: Mapping[str, list[LaunchedJob] | None]
) -> dict[str, list[LaunchedJob] | None]:
    """The jobs in which a Trainer reads a config of Accelerate; empty if any has another consumer."""
    if any(jobs.values()):
        return {}
    trainer_jobs = _jobs_by_file(name, "transformers")
    return trainer_jobs if all(trainer_jobs.values()) else {}


def _jobs_reading(script: str, name: str, reader: str | None, budget: Budget) -> list[LaunchedJob] | None:
    """The jobs of a launch file in which this consumer (None: any) reads the config at a path.

    None: the launch file exceeds the reading budget.
    """
    path = os.path.realpath(name)
    try:
        if is_notebook(script):
            from dsconfig.launch.notebook_jobs import jobs_of_notebook

            jobs = list(jobs_of_notebook(contents(script, MAX_NOTEBOOK_SIZE), script, path, budget))
        else:
            jobs = list(jobs_of(read_file(script), path, budget))
    except OSError:
        return []
    except SpentError:
        return None
    return [
        job if job.world_size is not None else job._replace(world_size=_accelerate_processes(job))
        for job in jobs
        if reader in (None, job.format.reader)
        and job.embedded_path is None
        and job.lookup is not None
        and job.lookup.path is not None
        and os.path.realpath(job.lookup.path) == path
    ]


def _accelerate_processes(job: LaunchedJob) -> int | None:
    """World size set by the Accelerate launch file that a command names."""
    data = job.document.value() if job.document else None
    return num_processes(data) if is_launch_file(data) and not job.processes.open_expressions else None


def _describe_disagreement(scripts: list[str]) -> str:
    """Say that the jobs share no arguments; used if their programs write different keys."""
    verb = "names" if len(scripts) == 1 else "name"
    return f"; {_join_paths(scripts)} {verb} it with different arguments, so none are used"


_MAX_PATHS = 2


def _join_paths(scripts: list[str]) -> str:
    """The first few paths, relative to the current directory, and the number of the others."""
    paths = sorted(os.path.relpath(script) for script in scripts)
    more = len(paths) - _MAX_PATHS
    return f"{', '.join(paths[:_MAX_PATHS])} and {more} more" if more > 0 else " and ".join(paths)
