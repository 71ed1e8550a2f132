"""Build the job of a config from explicit arguments, the "$dsconfig" block, settings and the repository."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dsconfig.core import releases
from dsconfig.core.json_types import Json
from dsconfig.core.releases import NUMBERS, ReleaseTarget, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.document.read_document import read_mapping_file
from dsconfig.job.consumers import ELASTIC, INFERENCE, accelerate_launch_file
from dsconfig.job.consumers.consumer_versions import (
    EXPECTED_CONSUMER,
    is_consumer_spec,
    minimum_deepspeed_release,
)
from dsconfig.job.detect_consumer import (
    ConsumerEvidence,
    LaunchArguments,
    consumer_named_by_user,
    consumer_suggested_by_content,
)
from dsconfig.job.job import (
    EMPTY_JOB,
    DetectedConsumer,
    Job,
    JobFact,
    job_from_consumer,
    job_from_facts,
    merge_jobs,
)
from dsconfig.job.job_facts import (
    DSCONFIG_KEY,
    DsconfigBlock,
    NamedModel,
    RunFacts,
    has_elasticity_block,
    read_dsconfig_block,
)
from dsconfig.job.job_facts import NO_FACTS as NOTHING_KNOWN
from dsconfig.job.job_facts import facts_of_dsconfig_block as known_of_block
from dsconfig.launch import classify_config_file, config_references
from dsconfig.launch.find_jobs import add_consumer_version, add_launch_arguments, add_trainer_fact
from dsconfig.launch.located_config import LocatedConfig, locate_config

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Protocol, TypeAlias

    from dsconfig.launch.launched_job import LaunchedJob as LaunchJob

    class HasDict(Protocol):
        """An object with training arguments, such as Transformers' `TrainingArguments`."""

        def to_dict(self) -> Mapping[str, Json]:
            """Return all training arguments by name."""


ModelSource: TypeAlias = "Mapping[str, Json] | str | os.PathLike[str]"
"""A model: the contents of its `config.json`, or its path or name."""

MappingSource: TypeAlias = "Mapping[str, Json] | str | os.PathLike[str] | HasDict | None"
"""Training arguments: a mapping, an object with `to_dict`, or the path to a JSON or YAML file."""


def job_from_arguments(
    target: str | ReleaseTarget | None = None,
    world_size: int | None = None,
    consumer: str | ConsumerEvidence | None = None,
    facts: RunFacts = NOTHING_KNOWN,
    training_args: MappingSource = None,
    launch: str | os.PathLike[str] | None = None,
) -> Job:
    """Build a job from only the facts that are passed explicitly to a function or command.

    Raises:
        OSError: the file of training arguments cannot be read.
        UnknownReleaseError: the target matches no release.
        ValueError: the consumer is unknown, or the world size or the training arguments are invalid.
    """
    reader = consumer_named_by_user(consumer) if isinstance(consumer, str) else consumer
    spec = consumer if isinstance(consumer, str) else reader and reader.consumer_spec
    if spec is not None and not is_consumer_spec(spec):
        raise ValueError(f"unknown consumer {spec!r}: expected {EXPECTED_CONSUMER}")
    if world_size is not None and (type(world_size) is not int or world_size < 1):
        raise ValueError(f"world size {world_size!r}: expected a positive integer")
    release = (
        target if target is None or isinstance(target, ReleaseTarget) else releases.resolve_target(target)
    )
    job = job_from_facts(facts, "argument", "set by the caller")
    job = job if reader is None else merge_jobs(job, job_from_consumer(reader, "argument"))
    return job._replace(
        target=release and JobFact(release, release.origin, release.text),
        world_size=None if world_size is None else JobFact(world_size, "argument", "--world-size"),
        arguments=training_arguments_fact(training_args) or job.arguments,
        launch=None if launch is None else JobFact(os.fspath(launch), "argument", "--launch"),
    )


def training_arguments_fact(source: MappingSource) -> JobFact[LaunchArguments] | None:
    """Return explicit training arguments as a fact; raises the errors of `read_training_arguments`."""
    values = read_training_arguments(source)
    return None if values is None else JobFact(LaunchArguments(values), "argument", "training_args")


def read_training_arguments(source: MappingSource) -> Mapping[str, Json] | None:
    """Return the training arguments from a mapping, a file or a `TrainingArguments` object.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not contain a JSON or YAML object.
    """
    if source is None or isinstance(source, Mapping):
        return source
    if isinstance(source, str | os.PathLike):
        return read_mapping_file(source)
    values = source.to_dict()
    return {str(key): value for key, value in values.items()}


def explicit_model_and_hosts(
    model: ModelSource | None = None, host_memory: int | None = None, gpus_per_node: int | None = None
) -> RunFacts:
    """Return the model and host sizes that the user gave explicitly.

    Raises:
        ValueError: a host size is invalid, or the model cannot be found.
    """
    for name, value in (("host memory", host_memory), ("GPUs per node", gpus_per_node)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} {value!r}: expected a positive integer")
    if model is not None and not isinstance(model, Mapping):
        model = os.fspath(model)
    return RunFacts(None if model is None else require_model(model), host_memory, gpus_per_node)


def build_job(located: LocatedConfig, arguments: Job = EMPTY_JOB, settings: Job = EMPTY_JOB) -> Job:
    """Build the job of a config; each fact comes from the strongest source that knows it.

    The order: explicit arguments, the config's `"$dsconfig"` block, settings, launch files, the repository. The
    block of the config precedes the block of a launch file that refers to it.

    Args:
        located: the config and its launch file.
        arguments: facts from a caller or the command line.
        settings: facts from a settings file.
    """
    final = located.follow_accelerate_link(arguments) if located.relation == "launch" else located
    documents = [each for each in (final.config, final.host, located.host) if each is not None]
    block_facts = merge_jobs(*(_facts_of_dsconfig_block(each) for each in documents))
    elastic = settings.consumer is not None and settings.consumer.value.name == ELASTIC
    if elastic and not any(has_elasticity_block(each.value()) for each in documents):
        # Settings apply to a whole folder. A config without an `elasticity` block cannot be started by
        # `dsconfig elastic run`, so their `consumer = "elastic"` does not apply to it.
        settings = settings._replace(consumer=None)
    explicit = merge_jobs(arguments, block_facts, settings)
    launch = explicit.launch.value if explicit.launch else None
    reader = add_version_and_launch_arguments(
        located, explicit.reader if explicit.consumer else _detect_consumer(located), launch
    )
    merged = merge_jobs(explicit, job_from_consumer(reader), _launch_file_facts(located, final))
    # The machine that checks often has another DeepSpeed than the one that trains, or none: a pin in the
    # repository is the better evidence.
    target = (
        merged.target
        or _pinned_releases(final.config or located.host, reader)
        or _base_of_fork(located)
        or _installed_release(_note_on_requirements(final.config or located.host))
    )
    training_args = _merge_arguments(
        explicit.arguments, job_from_consumer(reader).arguments, merged.arguments
    )
    return merged._replace(
        target=target, arguments=training_args, consumer=job_from_consumer(reader).consumer
    )


def _merge_arguments(
    explicit: JobFact[LaunchArguments] | None, *others: JobFact[LaunchArguments] | None
) -> JobFact[LaunchArguments] | None:
    """Merge explicit training arguments with those of the script or launch file; the explicit ones take precedence."""
    launched = next((each for each in others if each is not None and each is not explicit), None)
    if explicit is None or launched is None or explicit.source != "training_args":
        return explicit or launched
    # `training_args` may list only some arguments; the launch command supplies the others.
    arguments = {**launched.value.arguments, **explicit.value.arguments}
    merged = launched.value._replace(
        arguments=arguments, unknown=launched.value.unknown - explicit.value.arguments.keys()
    )
    return JobFact(merged, launched.origin, launched.source)


def job_of_document(document: Document, arguments: Job = EMPTY_JOB) -> Job:
    """Build the job of the config in a document, or of the config that the document names; see `build_job`."""
    return build_job(locate_config(document), arguments)


def job_without_repository(located: LocatedConfig, arguments: Job) -> Job:
    """Build the job from explicit facts and the launch file, without searching the repository."""
    final = located.follow_accelerate_link(arguments) if located.relation == "launch" else located
    return merge_jobs(arguments, _launch_file_facts(located, final), Job(target=_installed_release()))


def add_version_and_launch_arguments(
    located: LocatedConfig, reader: ConsumerEvidence, launch: str | None = None
) -> ConsumerEvidence:
    """Add the version of `reader`, and the arguments from the scripts that use the config."""
    if located.relation == "file" and not located.host.is_in_program:
        reader = add_launch_arguments(reader, located.host.name, launch)
    elif located.relation != "file" and located.job is None:
        reader = add_trainer_fact(reader, located.host.name)
    elif located.is_named_by_program and located.config is not None:
        from dsconfig.launch.scripts_starting_program import add_program_launch_facts

        reader = add_program_launch_facts(reader, located.host.name, located.config.name, launch)
    if located.relation == "file" and not reader.facts.program_files:
        reader = _add_programs_with_config(reader, located.host)
        programs = reader.facts.program_files
        is_started = reader.launch or reader.processes or reader.training_arguments is not None
        if launch is None and len(programs) == 1 and not is_started:
            from dsconfig.launch.scripts_starting_program import add_program_launch_facts

            reader = add_program_launch_facts(reader, programs[0], located.host.name)
    document = located.config if located.job is None and located.config is not None else located.host
    return add_consumer_version(reader, document.name)


def _add_programs_with_config(reader: ConsumerEvidence, config: Document) -> ConsumerEvidence:
    """Add the Python programs that contain or name the config, unless a launch file starts one with it."""
    if not config.name or config.name.startswith("<"):
        return reader
    is_program = config.is_in_program
    programs = (config.name,) if is_program else config_references.programs_naming_config(config.name)
    if not programs:
        return reader
    facts = RunFacts(_model_loaded_by_programs(programs, config.name), program_files=programs)
    return reader._replace(facts=reader.facts.complete_from(facts))


def _model_loaded_by_programs(programs: tuple[str, ...], config: str) -> NamedModel | None:
    """Return the only model that programs load by a constant name, or None."""
    from dsconfig.launch.memory_arguments_in_code import MODEL, memory_arguments_of_program
    from dsconfig.launch.training_arguments import is_hub_name

    read = (memory_arguments_of_program(program, config) for program in programs)
    loads = [code for code in read if code.loaded_at]
    names = {code.overrides[MODEL] for code in loads}
    name = names.pop() if len(names) == 1 else None
    if not isinstance(name, str) or not is_hub_name(name):
        return None
    return NamedModel(name, f"which {loads[0].loaded_at} loads", "launch file")


def _detect_consumer(located: LocatedConfig) -> ConsumerEvidence:
    """Return the consumer suggested by the location or content of the config."""
    if located.reader is not None:
        return located.reader
    host = located.host
    if located.relation != "file":
        return ConsumerEvidence("accelerate", "it is an Accelerate launch file", "content")
    if host.is_in_program:
        from dsconfig.launch.jobs_of_notebook import consumer_of_written_file
        from dsconfig.launch.python.config_dicts import consumer_of_document

        return consumer_of_written_file(host) or consumer_of_document(host)
    content = consumer_suggested_by_content(host.value())
    if content.name == INFERENCE:  # a program that names the file may have another config for training
        return content
    return config_references.find_consumer_in_repository(host.name, content) or content


def _launch_file_facts(located: LocatedConfig, final: LocatedConfig) -> Job:
    """Return the facts in a launch file and in the Accelerate launch file that it names."""
    job, host = located.job, final.host
    facts = EMPTY_JOB if job is None else facts_of_launched_job(job)
    if final.job is None and final.relation != "file":
        ranks = accelerate_launch_file.world_size_in_launch_file(host.value())
        from dsconfig.launch.training_arguments import accelerate_file_parallelism

        degrees = RunFacts(
            parallelism=accelerate_file_parallelism(host.value(), host.name),
            loads_whole=accelerate_launch_file.disables_partitioned_loading(host.value()),
        )
        accelerate_facts = job_from_facts(degrees, "launch file", host.name)._replace(
            world_size=None if ranks is None else JobFact(ranks, "launch file", host.name)
        )
        facts = merge_jobs(facts, accelerate_facts)
    return facts


def facts_of_launched_job(job: LaunchJob) -> Job:
    """Return what a launch file or script states about its job."""
    name = job.launch.name
    return job_from_facts(job.job_facts, "launch file", name)._replace(
        world_size=None if job.world_size is None else JobFact(job.world_size, "launch file", name),
        arguments=None
        if job.training_arguments is None
        else JobFact(job.training_arguments, "launch file", name),
    )


def consumer_of_host_file(located: LocatedConfig, job: Job) -> ConsumerEvidence:
    """Return the consumer of a file that contains or names a config: that of its job, or else Accelerate."""
    consumer = job.reader
    if located.job is None:
        name, version = ("accelerate", consumer.version if consumer.name == "accelerate" else None)
    else:
        name, version = consumer.name, consumer.version
    is_explicit = consumer.explicit_consumer_spec is not None
    why, origin = (consumer.why, consumer.origin) if is_explicit else (located.host_kind, "content")
    return add_consumer_version(
        ConsumerEvidence(name, why, origin, version=version, facts=consumer.facts), located.host.name
    )


def _pinned_releases(config: Document, reader: ConsumerEvidence) -> JobFact[ReleaseTarget] | None:
    """Return the releases that the nearest requirements allow, or None if they allow no known release.

    Releases with which the consumer does not start are left out. A cap without a lower bound (`<0.15`) says nothing
    about older releases: pip installs the newest release that it allows.
    """
    from dsconfig.launch.requirements import find_requirements

    requirement = find_requirements("deepspeed", config.name)
    pin = requirement and requirement.agreed_requirement
    if not pin:
        return None
    try:
        target = releases.resolve_target(pin.exact_version or pin.specifier, "pin")
    except UnknownReleaseError:
        # a fork, or a release newer than this package: it tells nothing about the config
        return None
    least = minimum_deepspeed_release(reader.name, reader.version)
    kept = tuple(each for each in target.releases if least is None or NUMBERS[each] >= NUMBERS[least])
    kept = kept or target.releases
    target = target._replace(releases=kept if pin.has_lower_bound else kept[-1:])
    file = pin.source.rpartition(":")[0] or pin.source
    return JobFact(target._replace(source=file), "pin", f"{pin.source}: deepspeed{pin.specifier}")


def _base_of_fork(located: LocatedConfig) -> JobFact[ReleaseTarget] | None:
    """Return the release on which a DeepSpeed fork is based, if the program in a launch file installs one."""
    if located.job is None or (fork := located.job.format.fork) is None:
        return None
    name, release = fork
    source = f"{name}, the fork that {located.program_name} installs"
    return JobFact(releases.resolve_target(release, "pin")._replace(source=source), "pin", source)


def _note_on_requirements(config: Document) -> str | None:
    """Return why the nearest requirements do not determine the target, or None if there are none."""
    from dsconfig.launch.requirements import find_requirements

    nearest = find_requirements("deepspeed", config.name)
    if nearest is None:
        return None
    texts = dict.fromkeys(f"deepspeed{each.specifier} ({each.source})" for each in nearest.requirements)
    why = "of which no release is known" if nearest.agreed_requirement else "so none of them is used"
    return f"the repository requires {' and '.join(texts)}, {why}: set the target"


def _installed_release(note: str | None = None) -> JobFact[ReleaseTarget]:
    target = releases.resolve_target(None)
    return JobFact(target._replace(note=note) if note else target, target.origin, target.text)


def _facts_of_dsconfig_block(document: Document) -> Job:
    """Return the facts in a config's `"$dsconfig"` block."""
    block, source = read_dsconfig_block(document.value()), f'`"{DSCONFIG_KEY}"` in {document.name}'
    if block == DsconfigBlock():
        return EMPTY_JOB
    consumer = (
        None
        if block.consumer is None
        else consumer_named_by_user(block.consumer, 'set in its own `"$dsconfig"`', "file")
    )
    target = releases_of_dsconfig_block(document)
    return job_from_facts(known_of_block(document.value(), document.name), "file", source)._replace(
        target=target and JobFact(target, "file", source),
        consumer=consumer
        and JobFact(DetectedConsumer(consumer.name, consumer.version), "file", consumer.why),
        world_size=None if block.world_size is None else JobFact(block.world_size, "file", source),
    )


def releases_of_dsconfig_block(document: Document) -> ReleaseTarget | None:
    """Return the releases named in the config's `"$dsconfig"` block, or None if it names no known release."""
    text = read_dsconfig_block(document.value()).target
    try:
        return None if text is None else releases.resolve_target(text, "file")
    except UnknownReleaseError:
        return None


def why_not_config(document: Document, consumer: str | None = None) -> str | None:
    """Return a clause that says why a document is not a DeepSpeed config, or None if it is one, even if broken.

    `consumer` is the consumer that the user named, if any.
    """
    why = classify_config_file.why_not_config(document, consumer)
    return None if why is None else f"not a DeepSpeed config: {why}"


def require_model(model: str | Mapping[str, Json]) -> NamedModel:
    """Return the model that the user named explicitly, which must exist.

    Raises:
        ValueError: the model cannot be found or read; the message is one line and names it.
    """
    from dsconfig.rules._model_facts import requested_model

    return requested_model(model)
