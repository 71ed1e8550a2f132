"""Where the config stands that is asked about: in the file itself, or where a launch file leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.check.scope import find_out
from dsconfig.consumers import HUGGING_FACE, accelerate_launch_config, accelerate_launch_file
from dsconfig.consumers.autofill.log import Message
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core import releases
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document, read_dict
from dsconfig.job import model_files
from dsconfig.job.consumer import Given, Reader, given
from dsconfig.job.dsconfig_block import KEY as BLOCK
from dsconfig.job.dsconfig_block import Declared, declared
from dsconfig.job.run_facts import NOTHING, Known, of_file
from dsconfig.launch.find_jobs import job_of
from dsconfig.launch.job import Job
from dsconfig.launch.job_arguments import informed, with_version
from dsconfig.launch.located_config import LocatedConfig, locate, named
from dsconfig.launch.parallelism import of_launch_file
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run_target import Launched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json, JsonObject, KeyPath


class Reading(NamedTuple):
    """A config, who reads it, and the launch file in which its values stand, if they do."""

    document: Document
    consumer: str
    launch: Document | None = None
    messages: tuple[Message, ...] = ()
    given: Given | None = None
    """The training arguments of the job, where its launch file tells them."""
    known: Known = NOTHING
    """The model that it trains, where the file or its job names one."""
    maker: LocatedConfig | None = None
    """Where the config stands that a program makes of its own keys, if one does."""

    def place(self, path: KeyPath) -> str:
        """Where a value stands, in words."""
        document, where = self.document, path
        if self.launch is not None:
            found = accelerate_launch_config.place(path, _data(self.launch))
            if found is None:
                return "made by accelerate"
            document, where = self.launch, found
        if self.maker is not None:
            there = self.maker.path_in_host(path)
            if there is None:
                return f"made by {self.maker.program}"
            document, where = self.maker.host, there
        if document.is_data or not document.located(where):
            return "written"
        return f"line {document.position(document.span(where, 'key').start).line}"


def known_config(known: Known) -> Mapping[str, Json] | None:
    """What a consumer reads of the model that is known to be trained; None where that cannot be told."""
    if known.model is None or known.model.barred:
        return None
    named = known.model.named
    if not isinstance(named, str):
        return named
    path = model_files.config_at(named)
    if path is None:
        from dsconfig.memory.models.hub_names import preset_of

        shape = preset_of(named)
        return {"hidden_size": shape.hidden} if shape else None
    try:
        return model_files.read(path)
    except (OSError, ValueError):
        return None


def reader_of(document: Document, consumer: str | None) -> Reader:
    """Who reads a config, with the arguments of its job. `consumer` None: it is found out."""
    return informed(given(consumer), document.name) if consumer else find_out(document)


def processes(document: Document, consumer: str | None) -> Launched | None:
    """The world size of the config's own block, else of a launch file, be it that of the job which reads it.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    job = job_of(document)
    own, name = declared_by(document, job)
    if own.world_size is not None:
        return Launched(own.world_size, f'that of `"{BLOCK}"` in {name}')
    if job is not None:
        return _of_launch_file(job)
    if accelerate_launch_file.is_launch_file(data := document.value()):
        ranks = accelerate_launch_file.processes(data)
        said = f"{document.name} has no `num_processes`"
        return Launched(ranks, said if ranks is None else "the launch file's `num_processes`")
    reader = reader_of(document, consumer)
    return None if reader.processes is None else Launched(reader.processes, f"that of {reader.launch}")


def _of_launch_file(job: Job) -> Launched:
    name, started = job.launch.name, job.processes
    if job.world_size is not None:
        return Launched(job.world_size, f"that of {name}")
    named_by_it = job.document.value() if job.document else None
    if accelerate_launch_file.is_launch_file(named_by_it) and not started.open:
        ranks = accelerate_launch_file.processes(named_by_it)
        if ranks is not None:
            return Launched(ranks, "the launch file's `num_processes`")
    where = name if job.line is None else f"{name}:{job.line}"
    if not started.open:
        return Launched(None, f"{where} does not say how many processes there are")
    said = " and ".join(f"`{word}`" for word in started.open)
    return Launched(None, f"{where} leaves it to the run: {said}", started.per_node)


def declared_by(document: Document, job: Job | None) -> tuple[Declared, str]:
    """What the block of a config says, be it of that which a launch file leads to, and the config's name."""
    own = declared(document.value())
    if own != Declared():
        return own, document.name
    config = job.document if job else None
    if (
        config is None
        and accelerate_launch_file.is_launch_file(document.value())
        and (found := named(document))
    ):
        config = found.document
    return (own, document.name) if config is None else (declared(config.value()), config.name)


def target_of(document: Document, target: str | Target | None) -> Target:
    """The releases that are asked for, else those that the config's own block names, else the installed one.

    Raises:
        UnknownReleaseError: the target names no release.
        OSError: the config that a launch file names cannot be read.
    """
    chosen = releases.resolve(target) if isinstance(target, str) else target
    if chosen is not None and chosen.origin in ("argument", "environment"):
        return chosen
    own, _ = declared_by(document, job_of(document))
    try:
        return releases.resolve(own.target, "file") if own.target else chosen or releases.resolve(None)
    except UnknownReleaseError:
        return chosen or releases.resolve(None)


def reading(document: Document, release: str, consumer: str | None) -> Reading:
    """The config that the document holds, names, or is the block of. `consumer` None: it is found out.

    Raises:
        OSError: the config that a launch file names cannot be read.
        ResolveError: a launch file leads to none.
    """
    return _of(locate(document, consumer), release, consumer)


def _of(located: LocatedConfig, release: str, consumer: str | None) -> Reading:
    if located.job is not None:
        return _of_job(located, located.job, release, consumer)
    host, config = located.host, located.config
    if located.how == "file":
        reader = reader_of(host, consumer)
        text = f"{host.name} is read with the arguments of {reader.launch}"
        told = (Message("note", text),) if reader.launch else ()
        known = of_file(host.value(), host.name).over(reader.known)
        return Reading(host, reader.spec, messages=told, given=reader.given, known=known)
    degrees = Known(parallelism=of_launch_file(host.value(), host.name))
    if located.how == "block":
        spec = _accelerate(consumer or "accelerate", host)
        made = accelerate_launch_config.config(_data(host), parted(spec)[1])
        if made is None:
            raise _leads_nowhere(host, release)
        text = f"accelerate makes this config of the block `{accelerate_launch_file.BLOCK}` of {host.name}"
        config = read_dict(made)
        # The Trainer fills the plugin's config as its own: trainer.py, propagate_args_to_deepspeed.
        filler = consumer if consumer and parted(consumer)[0] in HUGGING_FACE else spec
        return Reading(config, filler, host, (Message("note", text),), known=degrees)
    if located.unread is not None:
        raise located.unread
    if config is None or located.reader is None:
        if located.unlike:
            raise ResolveError(located.note)
        hint = "a relative path counts from where `accelerate launch` is called"
        raise ResolveError(f"{located.written}, which {host.name} names, {located.why_unread}", (hint,))
    text = f"{host.name} names {config.name}, which {located.reader.name} reads"
    known = of_file(config.value(), config.name).over(degrees)
    return Reading(config, located.reader.spec, messages=(Message("note", text),), known=known)


def _of_job(located: LocatedConfig, job: Job, release: str, consumer: str | None) -> Reading:
    """The config that a launch file leads to, perhaps by another."""
    if located.unlike:
        raise ResolveError(f"{job.launch.name}: {located.unlike}")
    if located.config is None:
        raise ResolveError(job.note)
    note = Message("note", job.note)
    if located.how == "launch":
        said = consumer or job.format.reader
        spec = _accelerate(said, job.launch)
        who = spec if parted(said)[0] == "accelerate" else said
        inner = _of(located.next(parted(spec)[1], who), release, who)
        known = job.known.over(inner.known)
        return inner._replace(messages=(note, *inner.messages), given=job.given, known=known)
    own = declared(located.config.value()).consumer
    reader = with_version(given(consumer or own or job.format.reader), located.config.name)
    known = of_file(located.config.value(), located.config.name).over(job.known)
    maker = located if located.config.is_data and job.format.makes else None
    return Reading(located.config, reader.spec, None, (note,), job.given, known, maker)


def _accelerate(spec: str, launch: Document) -> str:
    """Accelerate, in the version that is said, else in that which the repository of a launch file has."""
    said = given(spec if parted(spec)[0] == "accelerate" else "accelerate")
    return with_version(said, launch.name).spec


def _data(launch: Document) -> JsonObject:
    data = launch.value()
    return data if isinstance(data, dict) else {}


def _leads_nowhere(document: Document, release: str) -> ResolveError:
    """What `check` finds in a launch file whose block is not looked at, or cannot be read."""
    found = list(check_document(document, Target((release,), release, "argument")))
    stops = [one for one in found if one.severity == "error"] or [one for one in found if one.code == _OFF]
    if stops:
        return ResolveError.of(stops)
    return ResolveError(f"{document.name} holds no DeepSpeed config, and names none")


_OFF = "DSC823"
"""The rule about launch files that launch something else."""
