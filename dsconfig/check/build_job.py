"""The job of a config: what somebody says, what the config says of itself, and what the repository tells, merged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dsconfig.consumers import ELASTIC, accelerate_launch_file
from dsconfig.consumers.consumer_versions import EXPECTED, is_known
from dsconfig.core import releases
from dsconfig.core.json_types import Json
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.document.reader import read_mapping_file
from dsconfig.job.detect_consumer import Given, Reader, given, of_content
from dsconfig.job.job import NOTHING, Consumer, Fact, Job, layer, merge, of_reader
from dsconfig.job.run_facts import KEY, Declared, Known, Model, declared, has_block
from dsconfig.job.run_facts import NOTHING as NOTHING_KNOWN
from dsconfig.job.run_facts import of_file as known_of_block
from dsconfig.launch import config_references, detect_config
from dsconfig.launch.find_jobs import with_arguments, with_version
from dsconfig.launch.located_config import LocatedConfig, locate

if TYPE_CHECKING:
    from dsconfig.launch.launched_job import Job as LaunchJob

ModelSource: TypeAlias = "Mapping[str, Json] | str | os.PathLike[str]"
"""A model: what stands in its `config.json`, or its path or name."""


class HasDict(Protocol):
    """Training arguments as an object, such as Transformers' `TrainingArguments`."""

    def to_dict(self) -> Mapping[str, Json]:
        """Every argument by its name."""


MappingSource: TypeAlias = "Mapping[str, Json] | str | os.PathLike[str] | HasDict | None"
"""Training arguments: a mapping, an object that has them, or the path of a JSON or YAML file."""


def asked(
    target: str | Target | None = None,
    world_size: int | None = None,
    consumer: str | Reader | None = None,
    known: Known = NOTHING_KNOWN,
    training_args: MappingSource = None,
    launch: str | os.PathLike[str] | None = None,
) -> Job:
    """What the arguments of a function or a command say.

    Raises:
        OSError: the file of training arguments cannot be read.
        UnknownReleaseError: the target names no release.
        ValueError: the consumer is unknown, the world size is impossible, or the training arguments are none.
    """
    reader = given(consumer) if isinstance(consumer, str) else consumer
    spec = consumer if isinstance(consumer, str) else reader and reader.spec
    if spec is not None and not is_known(spec):
        raise ValueError(f"unknown consumer {spec!r}: expected {EXPECTED}")
    if world_size is not None and (type(world_size) is not int or world_size < 1):
        raise ValueError(f"world size {world_size!r}: expected an integer of at least 1")
    chosen = target if target is None or isinstance(target, Target) else releases.resolve(target)
    said = layer(known, "argument", "as asked for")
    said = said if reader is None else merge(said, of_reader(reader, "argument"))
    return said._replace(
        target=chosen and Fact(chosen, chosen.origin, chosen.text),
        world_size=None if world_size is None else Fact(world_size, "argument", "--world-size"),
        arguments=arguments(training_args) or said.arguments,
        launch=None if launch is None else Fact(os.fspath(launch), "argument", "--launch"),
    )


def arguments(source: MappingSource) -> Fact[Given] | None:
    """The training arguments that are given, as a fact; see `mapping` for what it raises."""
    found = mapping(source)
    return None if found is None else Fact(Given(found), "argument", "training_args")


def mapping(source: MappingSource) -> Mapping[str, Json] | None:
    """The training arguments that a mapping, a file or a `TrainingArguments` object holds; None: there are none.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no JSON or YAML object.
    """
    if source is None or isinstance(source, Mapping):
        return source
    if isinstance(source, str | os.PathLike):
        return read_mapping_file(source)
    found = source.to_dict()
    return {str(key): value for key, value in found.items()}


def known_of(
    model: ModelSource | None = None, host_memory: int | None = None, gpus_per_node: int | None = None
) -> Known:
    """The model and the hosts that are asked about.

    Raises:
        ValueError: a size of the hosts is impossible, or there is no such model.
    """
    for name, value in (("host memory", host_memory), ("GPUs of a node", gpus_per_node)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"{name} {value!r}: expected an integer of at least 1")
    named = None if model is None else asked_model(model if isinstance(model, Mapping) else os.fspath(model))
    return Known(named, host_memory, gpus_per_node)


def build_job(located: LocatedConfig, said: Job = NOTHING, settings: Job = NOTHING) -> Job:
    """The job of a config: `said` by arguments, then by the config, by settings, and told by its repository.

    The config's own block counts before that of a launch file which leads to it, as it is the nearer one.
    """
    on = located.next(said) if located.how == "launch" else located
    texts = [each for each in (on.config, on.host, located.host) if each is not None]
    own = merge(*(_of_block(each) for each in texts))
    elastic = settings.consumer is not None and settings.consumer.value.name == ELASTIC
    if elastic and not any(has_block(each.value()) for each in texts):
        settings = settings._replace(
            consumer=None
        )  # said of a folder: what has no block starts in another way
    stated = merge(said, own, settings)
    launch = stated.launch.value if stated.launch else None
    reader = informed(located, stated.reader if stated.consumer else _read_by(located), launch)
    told = merge(stated, of_reader(reader), _of_launch_file(located, on))
    target = told.target or _pinned(on.config or located.host) or _installed()
    job = told._replace(
        target=target, arguments=_together(stated.arguments, of_reader(reader).arguments, told.arguments)
    )
    return job._replace(consumer=of_reader(reader).consumer)


def _together(stated: Fact[Given] | None, *told: Fact[Given] | None) -> Fact[Given] | None:
    """The arguments that are given, over those of the script or launch file that starts the job."""
    launched = next((each for each in told if each is not None and each is not stated), None)
    if stated is None or launched is None or stated.source != "training_args":
        return stated or launched
    both = {**launched.value.arguments, **stated.value.arguments}
    given = launched.value._replace(
        arguments=both, unknown=launched.value.unknown - stated.value.arguments.keys()
    )
    return Fact(given, launched.origin, launched.source)


def job_of(document: Document, said: Job = NOTHING) -> Job:
    """The job of the config that a document is, holds or names; see `build_job`."""
    return build_job(locate(document), said)


def stated_job(located: LocatedConfig, said: Job) -> Job:
    """The job of a config as it is said, and as its launch file has it: the repository is not asked."""
    on = located.next(said) if located.how == "launch" else located
    return merge(said, _of_launch_file(located, on), Job(target=_installed()))


def informed(located: LocatedConfig, reader: Reader, launch: str | None = None) -> Reader:
    """The reader with its version, and of a config with the arguments of the scripts that name it, or of one."""
    if located.how == "file":
        reader = with_arguments(reader, located.host.name, launch)
    nearest = located.config if located.job is None and located.config is not None else located.host
    return with_version(reader, nearest.name)


def _read_by(located: LocatedConfig) -> Reader:
    """Who reads the config, where nobody says so."""
    if located.reader is not None:
        return located.reader
    host = located.host
    if located.how != "file":
        return Reader("accelerate", "it is a launch file of Accelerate", "content")
    content = of_content(host.value())
    return config_references.reader_of(host.name, content) or content


def _of_launch_file(located: LocatedConfig, on: LocatedConfig) -> Job:
    """What a launch file tells, and the launch file of Accelerate that it leads `on` to."""
    job, host = located.job, on.host
    told = NOTHING if job is None else of_job(job)
    if on.job is None and on.how != "file":
        ranks = accelerate_launch_file.processes(host.value())
        from dsconfig.launch.training_arguments import of_launch_file

        degrees = Known(parallelism=of_launch_file(host.value(), host.name))
        of_accelerate = layer(degrees, "launch file", host.name)._replace(
            world_size=None if ranks is None else Fact(ranks, "launch file", host.name)
        )
        told = merge(told, of_accelerate)
    return told


def of_job(job: LaunchJob) -> Job:
    """What a launch file or a script tells of the job that it starts."""
    name = job.launch.name
    return layer(job.known, "launch file", name)._replace(
        world_size=None if job.world_size is None else Fact(job.world_size, "launch file", name),
        arguments=None if job.given is None else Fact(job.given, "launch file", name),
    )


def host_reader(located: LocatedConfig, job: Job) -> Reader:
    """Who reads the file that was named, where that is a launch file: Accelerate reads its own."""
    who = job.reader
    if located.job is None:
        name, version = ("accelerate", who.version if who.name == "accelerate" else None)
    else:
        name, version = who.name, who.version
    stated = who.said is not None
    reader = Reader(
        name, who.why if stated else located.kind, who.origin if stated else "content", known=who.known
    )
    return with_version(reader._replace(version=version), located.host.name)


def _pinned(config: Document) -> Fact[Target] | None:
    """The releases that the nearest requirements of the repository allow; None where they name none that is known."""
    from dsconfig.launch.requirements import requirements_of

    found = requirements_of("deepspeed", config.name)
    pin = found and found.agreed
    if not pin:
        return None
    try:
        target = releases.resolve(pin.exact or pin.specifier, "pin")
    except UnknownReleaseError:
        return None
    file = pin.source.rpartition(":")[0] or pin.source
    return Fact(target._replace(source=file), "pin", f"{pin.source}: deepspeed{pin.specifier}")


def _installed() -> Fact[Target]:
    found = releases.resolve(None)
    return Fact(found, found.origin, found.text)


def _of_block(document: Document) -> Job:
    """What a config says in its block `"$dsconfig"`."""
    said, where = declared(document.value()), f'`"{KEY}"` in {document.name}'
    if said == Declared():
        return NOTHING
    consumer = (
        None if said.consumer is None else given(said.consumer, 'its own `"$dsconfig"` says so', "file")
    )
    named = target_of_block(document)
    return layer(known_of_block(document.value(), document.name), "file", where)._replace(
        target=named and Fact(named, "file", where),
        consumer=consumer and Fact(Consumer(consumer.name, consumer.version), "file", consumer.why),
        world_size=None if said.world_size is None else Fact(said.world_size, "file", where),
    )


def target_of_block(document: Document) -> Target | None:
    """The releases that the config itself names; None where it names none that there is."""
    text = declared(document.value()).target
    try:
        return None if text is None else releases.resolve(text, "file")
    except UnknownReleaseError:
        return None


def foreign(document: Document) -> str | None:
    """Why a document is not a DeepSpeed config, in words; None where it is one, or means to be."""
    why = detect_config.foreign(document)
    return None if why is None else f"not a DeepSpeed config: {why}"


def asked_model(model: str | Mapping[str, Json]) -> Model:
    """The model that somebody asks for, which has to be there.

    Raises:
        ValueError: it cannot be read, or there is none; the message is one line and names it.
    """
    from dsconfig.rules._model_facts import requested_model

    return requested_model(model)
