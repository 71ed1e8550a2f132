"""Find the jobs that a launch file of any format starts, and the arguments of the job that uses a config."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice

from dsconfig.core.file_access import MAX_NOTEBOOK_SIZE, read_contents, relative_path
from dsconfig.core.json_types import Json, JsonObject, value_at_dotted_path
from dsconfig.document import Document, read_bytes, read_dict, read_file
from dsconfig.document.config_file_names import is_notebook_name, is_python_name
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import is_launch_file, world_size_in_launch_file
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
from dsconfig.job.job_facts import RunFacts
from dsconfig.launch.common_arguments_of_jobs import (
    add_common_job_facts,
    common_arguments_of_jobs,
    describe_differing_arguments,
    describe_disagreement,
    list_first_paths,
    program_files_of_jobs,
)
from dsconfig.launch.config_references import (
    launch_files_naming_config,
    references_exceed_budget,
    scripts_calling_accelerate_launch,
)
from dsconfig.launch.launch_file_formats import (
    SCRIPT,
    LaunchFileFormat,
    detect_launch_format,
    is_shell_script_name,
    world_size_of,
)
from dsconfig.launch.repository_files import FOLDER_STEPS, BudgetExceededError, ReadingBudget

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.launch.launched_job import LaunchedJob


# From a launch file of any format to its jobs.


def jobs_of_launch_file(
    launch: Document, config_path: str | None = None, budget: ReadingBudget | None = None
) -> Iterator[LaunchedJob]:
    """Yield every job that a launch file starts; a script may start several.

    `config_path` is the real path of a config, to skip jobs with other configs. `budget` is the budget shared by all
    launch files of a run.

    Raises:
        OSError: a config cannot be read.
        BudgetExceededError: the launch file exceeds the given budget.
    """
    if is_python_name(launch.name):
        from dsconfig.launch.jobs_of_program import jobs_of_program_file

        yield from jobs_of_program_file(launch, config_path)
        if is_notebook_name(launch.name) and not launch.is_in_program:
            from dsconfig.launch.jobs_of_notebook import jobs_of_notebook

            yield from jobs_of_notebook(
                launch.text.encode("utf-8", "surrogatepass"), launch.name, config_path, budget
            )
        return
    if not is_shell_script_name(launch.name):
        if budget is not None:
            budget.spend(len(launch.text))
            if launch_file_exceeds_budget(launch):
                raise BudgetExceededError
        launch_format, data = detect_launch_format(launch.value()), launch.value()
        if launch_format is not None and launch_format.commands and isinstance(data, dict):
            from dsconfig.launch.jobs_of_script import jobs_of_commands

            ranks = world_size_of(launch_format, data)
            for each in jobs_of_commands(launch_format, launch, data, config_path, follow=job_of_launch_file):
                yield each._replace(world_size=ranks or each.world_size)
            return
        job = _first_job(launch)
        yield from [job] if job else []
        return
    from dsconfig.launch.jobs_of_script import jobs_of_commands

    yield from jobs_of_commands(SCRIPT, launch, None, config_path, budget, job_of_launch_file)


def launch_file_exceeds_budget(launch: Document) -> bool:
    """Return whether reading a launch file's commands exceeds the budget; in that case none of them is known."""
    if is_python_name(launch.name):
        return False
    data = None if is_shell_script_name(launch.name) else launch.value()
    launch_format = SCRIPT if data is None else detect_launch_format(data)
    if launch_format is None or not (data is None or (launch_format.commands and isinstance(data, dict))):
        return False
    from dsconfig.launch.jobs_of_script import commands_exceed_budget

    return commands_exceed_budget(launch_format, launch, data)


def job_of_launch_file(launch: Document) -> LaunchedJob | None:
    """Return the selected job of a launch file, or its first one, or None if it starts no DeepSpeed job.

    Raises:
        OSError: the config cannot be read.
    """
    selected = None if launch.selected_job is None else job_by_number(launch, launch.selected_job)
    return selected or _first_job(launch)


def job_by_number(launch: Document, number: int) -> LaunchedJob | None:
    """Return a job of a launch file by its number, or None if the file starts fewer jobs.

    Raises:
        OSError: the config cannot be read.
    """
    return next(islice(jobs_of_launch_file(launch), number, None), None)


def _first_job(launch: Document) -> LaunchedJob | None:
    if is_python_name(launch.name):
        return next(jobs_of_launch_file(launch), None)
    if is_shell_script_name(launch.name):
        from dsconfig.launch.jobs_of_script import first_job_of_commands

        return first_job_of_commands(SCRIPT, launch, None, job_of_launch_file)
    data = launch.value()
    launch_format = detect_launch_format(data)
    if not isinstance(data, dict):
        return None
    if launch_format is None:
        return _job_in_omegaconf_file(launch)
    if launch_format.commands:
        from dsconfig.launch.jobs_of_script import first_job_of_commands

        job = first_job_of_commands(launch_format, launch, data, job_of_launch_file)
        return job and job._replace(world_size=world_size_of(launch_format, data) or job.world_size)
    return _job_with_config_key(launch_format, launch, data)


def _job_in_omegaconf_file(launch: Document) -> LaunchedJob | None:
    """Return the job of an OmegaConf or Hydra file, or None for other files, such as Accelerate launch files."""
    if launch.format != "yaml" or launch.embedded_at is not None or is_launch_file(launch.value()):
        return None
    from dsconfig.launch.omegaconf import find_omegaconf_job

    return find_omegaconf_job(launch)


def _job_with_config_key(
    launch_format: LaunchFileFormat, launch: Document, data: JsonObject
) -> LaunchedJob | None:
    """Return the job of a launch file that names or contains its config under a key."""
    # Imported here because most documents are not launch files and should not load these modules.
    from dsconfig.job.consumers.accelerate_launch_file import BLOCK
    from dsconfig.launch.config_source import parse_passed_config
    from dsconfig.launch.framework_presets import PRESET, framework_preset
    from dsconfig.launch.launched_job import LaunchedJob, decode_config_argument
    from dsconfig.launch.repository_files import find_installed_preset, resolve_written_path
    from dsconfig.launch.training_arguments import determined_constant, parse_exponents, parse_human_numbers

    key = next((key for key in launch_format.config if value_at_dotted_path(data, key)), None)
    if key is None:
        return _job_with_built_config(launch_format, launch, data)
    value, path = value_at_dotted_path(data, key), tuple(key.split("."))
    # Determined writes a constant hyperparameter as `{type: const, val: ...}`.
    if determined_constant(value) is not value:
        value, path = determined_constant(value), (*path, "val")
    arguments = (
        None
        if _has_custom_training_loop(launch_format, launch)
        else _read_training_arguments(launch_format, launch, data)
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
        return job._replace(document=_merge_config_overrides(part, launch_format, data), embedded_path=path)
    if not isinstance(value, str):
        return None
    job = job._replace(reference=value)
    if text := decode_config_argument(value):
        config = read_bytes(text.data, launch.name)
        return job._replace(document=config, reference=key, embedded_path=path, encoding=text.encoding)
    # ms-swift tries preset names before paths: arguments/sft_args.py:_init_deepspeed.
    if preset := find_installed_preset(launch_format.preset, value):
        return job._replace(document=parse_passed_config(read_contents(preset), preset, launch_format.reader))
    if built := framework_preset(launch_format.name, value):
        preset_format = launch_format._replace(builds=PRESET)
        return job._replace(format=preset_format, document=read_dict(built, f"{launch.name}: {key}"))
    lookup = resolve_written_path(value, launch.name)
    document = (
        None
        if lookup.path is None
        else parse_passed_config(read_contents(lookup.path), lookup.path, launch_format.reader)
    )
    return job._replace(document=_merge_config_overrides(document, launch_format, data), lookup=lookup)


def _read_training_arguments(
    launch_format: LaunchFileFormat, launch: Document, data: JsonObject
) -> LaunchArguments:
    """Read the training arguments of a launch file."""
    from dsconfig.launch.training_arguments import read_launch_file_arguments

    if launch_format.name != "Transformers":
        return read_launch_file_arguments(launch_format, data)
    from dsconfig.launch.programs_of_argument_file import read_arguments_with_program_defaults

    return read_arguments_with_program_defaults(launch_format, data, launch.name)


def _merge_config_overrides(
    config: Document | None, launch_format: LaunchFileFormat, data: Mapping[str, Json]
) -> Document | None:
    """Return the config with the overrides from the launch file applied."""
    overrides = value_at_dotted_path(data, launch_format.overwrites) if launch_format.overwrites else None
    if config is None or not isinstance(overrides, Mapping):
        return config
    return config.with_value(_merge_values(config.value(), overrides))


def _merge_values(value: Json, overrides: Mapping[str, Json]) -> Json:
    if not isinstance(value, dict):
        return dict(overrides)
    nested = {
        key: _merge_values(value.get(key), each) for key, each in overrides.items() if isinstance(each, dict)
    }
    return {**value, **overrides, **nested}


def _has_custom_training_loop(launch_format: LaunchFileFormat, launch: Document) -> bool:
    """Return whether a program takes the Trainer's arguments but passes the config to DeepSpeed itself."""
    if launch_format.name != "Transformers":
        return False
    from dsconfig.launch.config_loaded_by_program import find_custom_training_loop

    return find_custom_training_loop(launch.name) is not None


def _job_with_built_config(
    launch_format: LaunchFileFormat, launch: Document, data: Mapping[str, Json]
) -> LaunchedJob | None:
    """Return the job of a launch file whose keys the program turns into a config, or None if there is none."""
    from dsconfig.launch import framework_configs
    from dsconfig.launch.launched_job import LaunchedJob
    from dsconfig.launch.training_arguments import read_launch_file_arguments

    if launch_format.builds == "neox":
        config: JsonObject | None = framework_configs.build_neox_config(data)
        world = framework_configs.neox_world_size(data)
    elif launch_format.builds == "lightning":
        config, world = framework_configs.build_lightning_config(data), world_size_of(launch_format, data)
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
        read_launch_file_arguments(launch_format, data),
        world,
    )


# Arguments of the jobs that read a config, when the user checks the config alone.


def add_consumer_version(reader: ConsumerEvidence, name: str) -> ConsumerEvidence:
    """Add the pinned or installed version of a consumer if it may resolve "auto" differently from the newest.

    An unknown version may differ, so it is added too.
    """
    if reader.version is not None or reader.name not in HUGGING_FACE:
        return reader
    from dsconfig.job.consumers.consumer_versions import includes_all_changes, unknown_version_note
    from dsconfig.launch.requirements import consumer_version

    pinned = consumer_version(reader.name, name)
    if pinned is None:
        return reader
    version, source = pinned
    if includes_all_changes(reader.name, version) and not unknown_version_note(reader.name, version):
        return reader
    return reader._replace(version=version, why=f"{reader.why}, version {version} {source}")


def add_trainer_fact(reader: ConsumerEvidence, name: str) -> ConsumerEvidence:
    """Add the programs of an Accelerate launch file to its consumer, and whether all of its jobs use a Trainer.

    Only jobs that pass the launch file to `accelerate launch` are considered.
    """
    budget = ReadingBudget(FOLDER_STEPS)
    scripts = () if name.startswith("<") else scripts_calling_accelerate_launch(name)
    jobs = [job for script in scripts for job in _jobs_reading_config(script, name, None, budget) or ()]
    uses_trainer = bool(jobs) and all(job.job_facts.uses_trainer for job in jobs)
    facts = RunFacts(uses_trainer=uses_trainer, program_files=program_files_of_jobs(jobs))
    return reader._replace(facts=reader.facts.complete_from(facts))


def add_launch_arguments(reader: ConsumerEvidence, name: str, launch: str | None = None) -> ConsumerEvidence:
    """Add to a config's consumer the arguments and world size from the launch files that name the config.

    If several launch files name the config, an argument that differs between them is unknown, and the reason lists its
    values. If reading one of them exceeds the budget, no arguments are used.

    Args:
        reader: consumer of the config.
        name: path of the config.
        launch: the only launch file to use, or None to use all that name the config.
    """
    if name.startswith("<") or not name:
        return reader
    if references_exceed_budget(name):
        why = f"{reader.why}; the files around it exceed the reading limit, so no arguments are used"
        return reader._replace(why=why)
    jobs = _jobs_by_launch_file(name, reader.name, launch)
    if launch is not None and not jobs:
        return reader._replace(why=f"{reader.why}; {relative_path(launch)} does not name this config")
    # The Trainer fills the dict of Accelerate's plugin again, from its own arguments: transformers
    # integrations/deepspeed.py:propagate_args_to_deepspeed.
    if (
        reader.name == "accelerate"
        and reader.explicit_consumer_spec is None
        and (trainer_jobs := _trainer_jobs(name, jobs))
    ):
        reader, jobs = reader._replace(name="transformers", why=f"{reader.why}, for a Trainer"), trainer_jobs
    if not jobs:
        return reader
    if reader.explicit_consumer_spec is None and not any(jobs.values()):
        jobs = _remove_arguments_of_jobs(_jobs_by_launch_file(name, None, launch))
    if unread_files := [script for script, file_jobs in jobs.items() if file_jobs is None]:
        verb = "exceeds" if len(unread_files) == 1 else "exceed"
        why = f"{reader.why}; {list_first_paths(unread_files)} {verb} the reading limit, so no arguments are used"
        return reader._replace(why=why)
    flat_jobs = _flatten_jobs(jobs)
    reader = add_common_job_facts(reader, flat_jobs)
    agreed = common_arguments_of_jobs(flat_jobs, reader.name) if all(jobs.values()) else None
    if agreed is None:
        return (
            reader._replace(why=f"{reader.why}{describe_disagreement(list(jobs))}") if flat_jobs else reader
        )
    common, ranks, differing = agreed
    if not (common and (common.arguments or common.explicit)) and ranks is None and not differing:
        return reader
    world_size = f" ({ranks} process{'es' * (ranks > 1)})" if ranks else ""
    launch_label = f"{list_first_paths(list(jobs))}{world_size}"
    difference = describe_differing_arguments(list(jobs), differing) if differing else ""
    why = f"{reader.why}, with the arguments of {launch_label}{difference}"
    return reader._replace(why=why, training_arguments=common, processes=ranks, launch=launch_label)


def jobs_giving_arguments(reader: ConsumerEvidence, name: str) -> list[LaunchedJob]:
    """Return the jobs whose training arguments the consumer merges with the config."""
    if not reader.launch:
        return []
    return _flatten_jobs(_jobs_by_launch_file(name, reader.name)) or _flatten_jobs(
        _remove_arguments_of_jobs(_jobs_by_launch_file(name, None))
    )


def _flatten_jobs(jobs: Mapping[str, list[LaunchedJob] | None]) -> list[LaunchedJob]:
    return [job for file_jobs in jobs.values() for job in file_jobs or ()]


def jobs_naming_config(name: str) -> list[LaunchedJob]:
    """Return every job that names the config at a path, with any consumer."""
    if name.startswith("<") or not name:
        return []
    return _flatten_jobs(_jobs_by_launch_file(name, None))


def is_config_autotuned(name: str) -> bool:
    """Return whether every known job with this config runs DeepSpeed's autotuner, which overwrites keys.

    Source: deepspeed launcher/runner.py, `--autotuning` (`tune` or `run`).
    """
    jobs = jobs_naming_config(name)
    return bool(jobs) and all((job.arguments or {}).get("autotuning") in ("tune", "run") for job in jobs)


def _jobs_by_launch_file(
    name: str, reader: str | None, launch: str | None = None
) -> dict[str, list[LaunchedJob] | None]:
    """Map each launch file to its jobs that use a config, or to None if reading the file exceeds the budget."""
    budget = ReadingBudget(FOLDER_STEPS)
    jobs_by_file: dict[str, list[LaunchedJob] | None] = {}
    # One budget for all files: a repository may have hundreds of scripts that name the same config.
    for script in launch_files_naming_config(name):
        if launch is not None and os.path.realpath(script) != os.path.realpath(launch):
            continue
        jobs = _jobs_reading_config(script, name, reader, budget)
        # An Accelerate launch file has no arguments; the scripts that pass it to `accelerate launch` have.
        commands = (
            ()
            if jobs or jobs is None or is_shell_script_name(script)
            else scripts_calling_accelerate_launch(script)
        )
        jobs_by_command = {
            command: _jobs_reading_config(command, script, reader, budget) for command in commands
        }
        jobs_by_command = {command: jobs for command, jobs in jobs_by_command.items() if jobs != []}
        jobs_by_file |= jobs_by_command or {script: jobs}
    return jobs_by_file


def _remove_arguments_of_jobs(
    jobs: Mapping[str, list[LaunchedJob] | None],
) -> dict[str, list[LaunchedJob] | None]:
    """Remove the training arguments from jobs of another consumer, but keep their model and parallelism."""
    return {
        script: file_jobs and [job._replace(training_arguments=None) for job in file_jobs]
        for script, file_jobs in jobs.items()
    }


def _trainer_jobs(
    name: str, jobs: Mapping[str, list[LaunchedJob] | None]
) -> dict[str, list[LaunchedJob] | None]:
    """Return the jobs in which a Trainer reads an Accelerate config; empty if any job has another consumer."""
    if any(jobs.values()):
        return {}
    trainer_jobs = _jobs_by_launch_file(name, "transformers")
    return trainer_jobs if all(trainer_jobs.values()) else {}


def _jobs_reading_config(
    script: str, name: str, reader: str | None, budget: ReadingBudget
) -> list[LaunchedJob] | None:
    """Return the jobs of a launch file that read the config at a path, with the consumer `reader` if given.

    Return None if the launch file exceeds the reading budget.
    """
    path = os.path.realpath(name)
    try:
        if is_notebook_name(script):
            from dsconfig.launch.jobs_of_notebook import jobs_of_notebook

            jobs = list(jobs_of_notebook(read_contents(script, MAX_NOTEBOOK_SIZE), script, path, budget))
        else:
            jobs = list(jobs_of_launch_file(read_file(script), path, budget))
    except OSError:
        return []
    except BudgetExceededError:
        return None
    return [
        job if job.world_size is not None else job._replace(world_size=world_size_from_accelerate_file(job))
        for job in jobs
        if reader in (None, job.format.reader)
        and job.embedded_path is None
        and job.lookup is not None
        and job.lookup.path is not None
        and os.path.realpath(job.lookup.path) == path
    ]


def world_size_from_accelerate_file(job: LaunchedJob) -> int | None:
    """Return the world size set by the Accelerate launch file that a command names."""
    data = job.document.value() if job.document else None
    return (
        world_size_in_launch_file(data)
        if is_launch_file(data) and not job.processes.open_expressions
        else None
    )
