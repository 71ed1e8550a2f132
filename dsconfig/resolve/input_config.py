"""Find the config to resolve: in the given file, or through a launch file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.check import check_document
from dsconfig.core.releases import ReleaseTarget
from dsconfig.core.wording import join_phrases
from dsconfig.document import Document, read_dict
from dsconfig.job import model_config_json
from dsconfig.job.consumers import HUGGING_FACE, INFERENCE, accelerate_launch_file
from dsconfig.job.consumers.autofill import AutofillMessage
from dsconfig.job.consumers.consumer_versions import split_consumer_spec
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments, consumer_named_by_user
from dsconfig.job.job import Job
from dsconfig.job.job_facts import NO_FACTS, RunFacts
from dsconfig.launch.find_jobs import add_consumer_version
from dsconfig.launch.located_config import LocatedConfig
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.resolved_run import LaunchWorldSize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import Json, JsonObject, KeyPath


class InputConfig(NamedTuple):
    """A config to resolve, its consumer, and the launch file that contains or produces it."""

    document: Document
    consumer: str
    launch_file: Document | None = None
    messages: tuple[AutofillMessage, ...] = ()
    arguments: LaunchArguments | None = None
    """Training arguments of the job, if its launch file has them."""
    facts: RunFacts = NO_FACTS
    """Known facts about the run, such as the model."""
    generator: LocatedConfig | None = None
    """Location of the keys from which a program generates the config, if one does."""

    def describe_location(self, path: KeyPath) -> str:
        """Describe the location of a value, such as `line 3`."""
        document, location = self.document, path
        if self.launch_file is not None:
            launch_path = accelerate_launch_file.path_in_launch_file(
                path, _top_level_mapping(self.launch_file)
            )
            if launch_path is None:
                return "made by accelerate"
            document, location = self.launch_file, launch_path
        if self.generator is not None:
            host_path = self.generator.path_in_host(path)
            if host_path is None:
                return f"made by {self.generator.program_name}"
            document, location = self.generator.host, host_path
        if document.is_data or not document.has_path(location):
            return "written"
        return f"line {document.position(document.span(location, 'key').start).line}"


def model_config_of(facts: RunFacts) -> Mapping[str, Json] | None:
    """Return the part of the model's `config.json` that a consumer reads, or None if it is unavailable."""
    if facts.model is None or facts.model.is_outside:
        return None
    model_source = facts.model.named
    if not isinstance(model_source, str):
        return model_source
    path = model_config_json.find_config_json(model_source)
    if path is None:
        from dsconfig.memory import preset_of

        shape = preset_of(model_source)
        return {"hidden_size": shape.hidden_size} if shape else None
    try:
        return model_config_json.read_config_json(path)
    except (OSError, ValueError):
        return None


def launch_world_size(located: LocatedConfig, job: Job) -> LaunchWorldSize | None:
    """Return the world size that the launch file sets and its source, or why it is unknown."""
    size, launch_job = job.world_size, located.job
    if size is not None:
        if size.origin == "argument":
            return LaunchWorldSize(size.value, "")
        is_not_the_jobs = launch_job is None or size.value != launch_job.world_size
        if (
            size.origin == "launch file"
            and is_not_the_jobs
            and accelerate_launch_file.is_launch_file(_referenced_accelerate_file(located))
        ):
            return LaunchWorldSize(size.value, "the launch file's `num_processes`")
        return LaunchWorldSize(size.value, f"that of {size.source}")
    if launch_job is not None:
        name, started = launch_job.launch.name, launch_job.processes
        location = name if launch_job.line is None else f"{name}:{launch_job.line}"
        if not started.open_expressions:
            return LaunchWorldSize(None, f"{location} does not say how many processes there are")
        variables = " and ".join(f"`{word}`" for word in started.open_expressions)
        return LaunchWorldSize(None, f"{location} leaves it to the run: {variables}", started.per_node)
    return (
        None
        if located.relation == "file"
        else LaunchWorldSize(None, f"{located.host.name} has no `num_processes`")
    )


def _referenced_accelerate_file(located: LocatedConfig) -> object:
    text = located.host if located.job is None else located.config
    return None if text is None else text.value()


def read_input_config(located: LocatedConfig, job: Job, *, is_for_training: bool = True) -> InputConfig:
    """Find the config that the job loads: the file itself, an embedded one, or one that a launch file names.

    Raises:
        OSError: the config that a launch file names cannot be read.
        ResolveError: a launch file has no config, or the config is for inference although `is_for_training` is true.
    """
    if located.error is not None:
        raise located.error
    if is_for_training and job.reader.name == INFERENCE:
        raise ResolveError(
            f"{located.host.name} is an inference config ({job.reader.why}), which has no batch and no training memory",
            (
                "pass the config of a training run",
                "`dsconfig check` and `dsconfig show` work for inference configs",
            ),
        )
    host, config, reader = located.host, located.config, job.reader
    if located.relation == "file":
        text = f"{host.name} is read with the arguments of {reader.launch}"
        messages = (*([AutofillMessage("note", text)] if reader.launch else []), *_consumer_note(reader))
        return InputConfig(
            host,
            reader.consumer_spec,
            messages=messages,
            arguments=job.training_arguments,
            facts=job.run_facts,
        )
    if located.relation == "block":
        return _config_from_accelerate_block(host, job)
    if config is None:
        raise ResolveError(*_explain_missing_config(located))
    note = AutofillMessage("note", located.note)
    if located.relation == "launch":
        inner_config = read_input_config(located.follow_accelerate_link(job), job)
        return inner_config._replace(
            messages=(note, *inner_config.messages), arguments=job.training_arguments
        )
    if located.job is None:
        note = AutofillMessage("note", f"{host.name} names {config.name}, which {reader.name} loads")
    messages = (note, *_consumer_note(reader)) if located.job else (note,)
    makes = located.job is not None and config.is_data and located.job.format.builds
    return InputConfig(
        config,
        reader.consumer_spec,
        None,
        messages,
        job.training_arguments,
        job.run_facts,
        located if makes else None,
    )


def _config_from_accelerate_block(host: Document, job: Job) -> InputConfig:
    """Return the config that Accelerate builds from its launch file's `deepspeed_config` block."""
    reader = job.reader
    is_accelerate = reader.name == "accelerate"
    spec = add_consumer_version(
        reader if is_accelerate else consumer_named_by_user("accelerate"), host.name
    ).consumer_spec
    config = accelerate_launch_file.build_plugin_config(
        _top_level_mapping(host), split_consumer_spec(spec)[1]
    )
    if config is None:
        raise _no_config_error(host, job.releases.releases[-1])
    text = f"Accelerate builds this config from `{accelerate_launch_file.BLOCK}` in {host.name}"
    # The Trainer also resolves "auto" in the plugin's config: trainer.py, `propagate_args_to_deepspeed`.
    consumer = reader.consumer_spec if reader.name in HUGGING_FACE else spec
    return InputConfig(
        read_dict(config),
        consumer,
        host,
        (AutofillMessage("note", text),),
        job.training_arguments,
        job.run_facts,
    )


def _consumer_note(reader: ConsumerEvidence) -> tuple[AutofillMessage, ...]:
    """Return a note if the consumer is only an assumption."""
    if not reader.others:
        return ()
    others = join_phrases(reader.others)
    text = (
        f"{reader.name} is assumed to load the config, but {others} may do so ({reader.why}); set --consumer"
    )
    return (AutofillMessage("note", text),)


def _explain_missing_config(located: LocatedConfig) -> tuple[str, tuple[str, ...]]:
    """Return why a launch file has no config, and hints on how to change that."""
    host = located.host
    if located.why_not_checked:
        return (f"{host.name}: {located.why_not_checked}" if located.job else located.note), ()
    if located.job is not None:
        return located.note, ()
    hint = "relative paths start at the directory in which `accelerate launch` is called"
    return f"{located.reference}, which {host.name} names, {located.why_unread}", (hint,)


def _top_level_mapping(launch: Document) -> JsonObject:
    data = launch.value()
    return data if isinstance(data, dict) else {}


def _no_config_error(document: Document, release: str) -> ResolveError:
    """Return the error for a launch file without a usable config, including the diagnostics of `check`."""
    diagnostics = list(check_document(document, ReleaseTarget((release,), release, "argument")))
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"] or [
        diagnostic for diagnostic in diagnostics if diagnostic.code == _OFF
    ]
    if errors:
        return ResolveError.of(errors)
    return ResolveError(f"{document.name} contains no DeepSpeed config, and names none")


_OFF = "DSC823"
"""Code of the rule about launch files that do not use DeepSpeed."""
