"""Where the config stands that is asked about: in the file itself, or where a launch file leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.consumers import HUGGING_FACE, accelerate_launch_file
from dsconfig.consumers.autofill import Message
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.releases import Target
from dsconfig.document import Document, read_dict
from dsconfig.job import model_files
from dsconfig.job.detect_consumer import Given, Reader, given
from dsconfig.job.job import Job
from dsconfig.job.run_facts import NOTHING, Known
from dsconfig.launch.find_jobs import with_version
from dsconfig.launch.located_config import LocatedConfig
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run import LaunchWorldSize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json, JsonObject, KeyPath


class InputConfig(NamedTuple):
    """A config, who reads it, and the launch file in which its values stand, if they do."""

    document: Document
    consumer: str
    launch_file: Document | None = None
    messages: tuple[Message, ...] = ()
    arguments: Given | None = None
    """The training arguments of the job, where its launch file tells them."""
    facts: Known = NOTHING
    """The model that it trains, where the file or its job names one."""
    generator: LocatedConfig | None = None
    """Where the config stands that a program makes of its own keys, if one does."""

    def describe_location(self, path: KeyPath) -> str:
        """Where a value stands, in words."""
        document, where = self.document, path
        if self.launch_file is not None:
            found = accelerate_launch_file.place(path, _mapping_of(self.launch_file))
            if found is None:
                return "made by accelerate"
            document, where = self.launch_file, found
        if self.generator is not None:
            there = self.generator.path_in_host(path)
            if there is None:
                return f"made by {self.generator.program}"
            document, where = self.generator.host, there
        if document.is_data or not document.located(where):
            return "written"
        return f"line {document.position(document.span(where, 'key').start).line}"


def model_config_of(known: Known) -> Mapping[str, Json] | None:
    """What a consumer reads of the model that is known to be trained; None where that cannot be told."""
    if known.model is None or known.model.barred:
        return None
    named = known.model.named
    if not isinstance(named, str):
        return named
    path = model_files.config_at(named)
    if path is None:
        from dsconfig.memory.models.model_zoo import preset_of

        shape = preset_of(named)
        return {"hidden_size": shape.hidden_size} if shape else None
    try:
        return model_files.read(path)
    except (OSError, ValueError):
        return None


def launch_world_size(located: LocatedConfig, job: Job) -> LaunchWorldSize | None:
    """The world size that nobody asked for, and what tells it, else what leaves it to the run."""
    size, found = job.world_size, located.job
    if size is not None:
        if size.origin == "argument":
            return LaunchWorldSize(size.value, "")
        own = found is None or size.value != found.world_size
        if (
            size.origin == "launch file"
            and own
            and accelerate_launch_file.is_launch_file(_accelerate_file(located))
        ):
            return LaunchWorldSize(size.value, "the launch file's `num_processes`")
        return LaunchWorldSize(size.value, f"that of {size.source}")
    if found is not None:
        name, started = found.launch.name, found.processes
        where = name if found.line is None else f"{name}:{found.line}"
        if not started.open:
            return LaunchWorldSize(None, f"{where} does not say how many processes there are")
        said = " and ".join(f"`{word}`" for word in started.open)
        return LaunchWorldSize(None, f"{where} leaves it to the run: {said}", started.per_node)
    return (
        None
        if located.how == "file"
        else LaunchWorldSize(None, f"{located.host.name} has no `num_processes`")
    )


def _accelerate_file(located: LocatedConfig) -> object:
    text = located.host if located.job is None else located.config
    return None if text is None else text.value()


def read_input_config(located: LocatedConfig, job: Job) -> InputConfig:
    """The config as the job reads it: that which the host is, holds, names, or is the block of.

    Raises:
        OSError: the config that a launch file names cannot be read.
        ResolveError: a launch file leads to none.
    """
    if located.unread is not None:
        raise located.unread
    host, config, reader = located.host, located.config, job.reader
    if located.how == "file":
        text = f"{host.name} is read with the arguments of {reader.launch}"
        told = (*([Message("note", text)] if reader.launch else []), *_consumer_note(reader))
        return InputConfig(host, reader.spec, messages=told, arguments=job.given, facts=job.known)
    if located.how == "block":
        return _from_accelerate_block(host, job)
    if config is None:
        raise ResolveError(*_explain_missing(located))
    note = Message("note", located.note)
    if located.how == "launch":
        inner = read_input_config(located.next(job), job)
        return inner._replace(messages=(note, *inner.messages), arguments=job.given)
    if located.job is None:
        note = Message("note", f"{host.name} names {config.name}, which {reader.name} reads")
    told = (note, *_consumer_note(reader)) if located.job else (note,)
    makes = located.job is not None and config.is_data and located.job.format.makes
    return InputConfig(config, reader.spec, None, told, job.given, job.known, located if makes else None)


def _from_accelerate_block(host: Document, job: Job) -> InputConfig:
    """The config that Accelerate makes of the block of its launch file."""
    reader = job.reader
    is_accelerate = reader.name == "accelerate"
    spec = with_version(reader if is_accelerate else given("accelerate"), host.name).spec
    made = accelerate_launch_file.config(_mapping_of(host), parted(spec)[1])
    if made is None:
        raise _no_config_error(host, job.releases.releases[-1])
    text = f"accelerate makes this config of the block `{accelerate_launch_file.BLOCK}` of {host.name}"
    # The Trainer fills the plugin's config as its own: trainer.py, propagate_args_to_deepspeed.
    filler = reader.spec if reader.name in HUGGING_FACE else spec
    return InputConfig(read_dict(made), filler, host, (Message("note", text),), job.given, job.known)


def _consumer_note(reader: Reader) -> tuple[Message, ...]:
    """Say that others may read the config too, where its program leaves that open."""
    if not reader.others:
        return ()
    others = " or ".join(reader.others)
    text = f"{reader.name} is assumed to read the config, but {others} may ({reader.why}): --consumer says it"
    return (Message("note", text),)


def _explain_missing(located: LocatedConfig) -> tuple[str, tuple[str, ...]]:
    """Why a launch file leads to no config, and what to do."""
    host = located.host
    if located.unlike:
        return (f"{host.name}: {located.unlike}" if located.job else located.note), ()
    if located.job is not None:
        return located.note, ()
    hint = "a relative path counts from where `accelerate launch` is called"
    return f"{located.written}, which {host.name} names, {located.why_unread}", (hint,)


def _mapping_of(launch: Document) -> JsonObject:
    data = launch.value()
    return data if isinstance(data, dict) else {}


def _no_config_error(document: Document, release: str) -> ResolveError:
    """What `check` finds in a launch file whose block is not looked at, or cannot be read."""
    found = list(check_document(document, Target((release,), release, "argument")))
    stops = [one for one in found if one.severity == "error"] or [one for one in found if one.code == _OFF]
    if stops:
        return ResolveError.of(stops)
    return ResolveError(f"{document.name} holds no DeepSpeed config, and names none")


_OFF = "DSC823"
"""The rule about launch files that launch something else."""
