"""The job that a launch file describes: its config, consumer, arguments and number of processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import Document, TextSpan
from dsconfig.document.config_file_names import is_python_name
from dsconfig.job.consumers.accelerate_launch_file import (
    BLOCK,
    LINK,
    deepspeed_block,
    disables_partitioned_loading,
)
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.consumers.consumer_versions import version_includes_change
from dsconfig.job.detect_consumer import ConsumerEvidence, LaunchArguments
from dsconfig.job.job_facts import NamedModel, RunFacts
from dsconfig.launch.launch_file_formats import PROGRAM_FILE, LaunchFileFormat
from dsconfig.launch.launcher_call import LauncherCall
from dsconfig.launch.process_count import ProcessCount
from dsconfig.launch.repository_files import PathLookup, is_preset_name, resolve_written_path

PROGRAM = "program"
"""Value of `LaunchFileFormat.builds` for a job whose program builds the config as a dict."""

HYDRA = "hydra"
"""Value of `LaunchFileFormat.builds` for a job whose config Hydra composes from files and overrides."""


class LaunchedJob(NamedTuple):
    """A job that a launch file starts, with all that the file states about it."""

    format: LaunchFileFormat
    launch: Document
    reference: str
    """Path, preset name or dotted key of the config, as written."""
    key: str
    """Dotted key or flag that names the config."""
    document: Document | None
    """The config, or None if it was not found."""
    lookup: PathLookup | None
    """Result of the search for the config's path, or None for a preset or an embedded config."""
    training_arguments: LaunchArguments | None
    """Training arguments of the job, or None if no program compares them with the config."""
    world_size: int | None
    embedded_path: KeyPath | None = None
    """Path of the embedded config in the launch file, if it has one."""
    line: int | None = None
    """Line of the command in a script, or None to use the line of the key."""
    arguments: Mapping[str, Json] | None = None
    """Flags of the command, or None if the keys of the launch file are the arguments."""
    encoding: str | None = None
    """Encoding of a config passed instead of a path: `json_text` or `base64`, as named in
    `consumer_versions.CHANGES`.
    """
    flags: Mapping[str, Json] = MappingProxyType({})
    """Flags of the command that override keys in the block of its Accelerate launch file."""
    is_written_by_script: bool = False
    """Whether the script writes the config file itself."""
    is_too_long: bool = False
    """Whether the text that the script writes exceeds the size limit for configs."""
    is_template: bool = False
    """Whether the script creates the config from another file with `sed`."""
    processes: ProcessCount = ProcessCount(None)
    """Number of processes that the command starts, and the expressions that leave it unknown."""
    program_file: str = ""
    """Path of the Python program that the command starts, as written."""
    folder: str = ""
    """Directory that the script has entered with `cd`."""
    launcher: LauncherCall | None = None
    """The launcher of the command with its own flags, or None if dsconfig does not know it."""
    other_consumers: tuple[str, ...] = ()
    """Other possible consumers, if the program does not show which one reads the config."""
    why: str = ""
    """Clause that names the evidence for the consumer in the program."""
    source: Document | None = None
    """The dict of the program from which the config was built, or None if it is not in a file of the repository."""
    may_have_more_flags: bool = False
    """Whether the command may pass further flags, which are known only when it runs: `train.py $EXTRA_ARGS`."""
    started_by: str = ""
    """Location of the command that passes the launch file to a program: `run.sh:12`."""

    @property
    def location(self) -> str:
        """The file and line that start the job, formatted for messages."""
        return self.started_by or f"{self.launch.name}{'' if self.line is None else f':{self.line}'}"

    @property
    def identity(self) -> tuple[object, ...]:
        """Key of all facts that affect diagnostics; jobs that differ only in their data set have equal keys."""
        arguments = self.training_arguments
        names = consumer_from_spec(self.format.reader).training_argument_names
        relevant = (
            {name: value for name, value in arguments.arguments.items() if name in names} if arguments else {}
        )
        config = self.document
        return (
            self.format.name,
            self.format.reader,
            self.reference,
            None if config is None else config.name,
            repr(config.value()) if config is not None and self.is_embedded else "",
            self.world_size,
            repr(relevant),
            repr(self.flags),
        )

    @property
    def is_embedded(self) -> bool:
        """Whether the config is embedded in the launch file or built from it, rather than a separate file."""
        config = self.document
        is_built = config is not None and config.name.startswith(f"{self.launch.name}: ")
        return config is not None and (self.embedded_path is not None or config.is_data or is_built)

    @property
    def is_config_from_other_file(self) -> bool:
        """Whether the config's text comes from another file, possibly edited with `sed`."""
        return self.document is not None and (self.is_template or not self.is_embedded)

    def config(self, version: str | None) -> Document | None:
        """Return the config as a version of the consumer reads it; flags override an Accelerate launch file.

        Source: accelerate commands/launch.py:_validate_launch_command.
        """
        data = self.document.value() if self.document and self.flags else None
        if self.document is None or not isinstance(data, dict):
            return self.document
        settings, flags = deepspeed_block(data), dict(self.flags)
        precision = flags.pop("mixed_precision", None)
        if LINK in settings:  # flags such as --zero_stage are ignored for a config file
            merged = {key: value for key, value in data.items() if key != "mixed_precision" or not precision}
            return self.document.with_value(merged)
        # Accelerate 1.5 lets a flag override the file (#3409); before, the file won.
        # `mixed_precision` is no key of the block: here the flag wins in every version.
        precision = data.get("mixed_precision") if precision is None else precision
        merged = (
            settings | flags
            if version_includes_change("flags_first", "accelerate", version)
            else flags | settings
        )
        changed: JsonObject = {**data, BLOCK: merged}
        return self.document.with_value(
            changed if precision is None else {**changed, "mixed_precision": precision}
        )

    @property
    def reader(self) -> ConsumerEvidence:
        """The consumer of the config, with the launch file as evidence."""
        name = "it" if self.is_embedded else self.launch.name
        why = f"{name} is a launch file of {self.format.name}"
        if self.format.builds == PROGRAM:
            why = f"{self.reference} receives it"
        elif self.format.builds == HYDRA:
            why = f"Hydra composes it from {self.reference}"
        elif self.format.name == PROGRAM_FILE.name:
            program = "" if is_python_name(self.launch.name) else "the program of "
            why = f"{program}{self.location} passes it to `{self.key}`"
        if self.why:
            why = f"{why}, {self.why}"
        likely = bool(self.other_consumers)
        return ConsumerEvidence(
            self.format.reader, why, "launch file", likely, facts=self.job_facts, others=self.other_consumers
        )

    @property
    def job_facts(self) -> RunFacts:
        """The model, adapters, program and parallelism of the job, and the memory of its nodes under Slurm."""
        from dsconfig.launch.memory_arguments_in_code import memory_arguments_in_code
        from dsconfig.launch.training_arguments import (
            find_model_on_disk,
            is_hub_name,
            job_parallelism,
            model_name_in_launch_file,
            trains_adapters,
        )

        data = self.launch.value() if self.arguments is None else self.arguments
        code = memory_arguments_in_code(self)
        data = code.add_to(data) if isinstance(data, Mapping) else data
        reference = model_name_in_launch_file(data)
        model_path = reference and find_model_on_disk(reference, self.launch.name)
        if reference and not model_path and is_hub_name(reference):
            model_path = reference
        name = self.launch.name if self.launch.name.startswith("<") else relative_path(self.launch.name)
        why = (code.loaded_at and f"which {code.loaded_at} loads") or f"which {name} names"
        model = NamedModel(model_path, why, "launch file") if model_path else None
        host_memory, ranks_per_node = self._memory_and_ranks_of_node()
        return RunFacts(
            model,
            host_memory,
            ranks_per_node,
            self.format.name,
            adapters=trains_adapters(data, self.format.name),
            parallelism=job_parallelism(self),
            uses_trainer=self.format.reader == "transformers",
            program_files=self.program_files,
            loads_whole=self.document is not None and disables_partitioned_loading(self.document.value()),
        )

    def _memory_and_ranks_of_node(self) -> tuple[int | None, int | None]:
        """Return the memory that Slurm gives the job on each node, and the ranks that share it, or twice None."""
        if self.line is None or "#SBATCH" not in self.launch.text:
            return None, None
        from dsconfig.launch.shell.variables import slurm_memory_of_node, slurm_variables

        memory, variables = slurm_memory_of_node(self.launch.text), slurm_variables(self.launch.text)
        ranks = self.processes.per_node
        if ranks is None and self.world_size is not None:
            nodes = variables.get("SLURM_NNODES", "")
            ranks = self.world_size // int(nodes) if nodes.isdecimal() and int(nodes) > 0 else None
        return (memory, ranks) if memory and ranks else (None, None)

    @property
    def program_files(self) -> tuple[str, ...]:
        """Path of the Python program that the command starts; empty if the program is not in the repository."""
        path = (
            resolve_written_path(self.program_file, self.launch.name, self.folder).path
            if self.program_file
            else None
        )
        return () if path is None else (path,)

    def describe_unknown_batch_sizes(self, world_size: int | None) -> list[str]:
        """Return one line for each factor of the batch size that is known only at run time."""
        line = "" if self.line is None else f":{self.line}"
        where, lines = f"{self.launch.name}{line}", list[str]()
        if world_size is None and self.processes.open_expressions:
            expressions = " and ".join(f"`{word}`" for word in self.processes.open_expressions)
            lines.append(f"{where}: the world size depends on {expressions}; pass --world-size")
        if (degree := self.job_facts.parallelism.unknown_degree) is not None:
            lines.append(f"the data-parallel size is not known: {degree}; the batch is not checked")
        return lines

    @property
    def command_span(self) -> TextSpan | None:
        """Span of the command in a script, or None for launch files that consist of keys."""
        if self.line is None:
            return None
        lines = self.launch.text.split("\n")[: self.line]
        end = len("\n".join(lines))
        return TextSpan(end - len(lines[-1]), end)

    @property
    def note(self) -> str:  # noqa: C901, PLR0911  one case for each way to a config
        """Message about how the launch file refers to the config, or why there is no config."""
        line = key_line_suffix(self.launch, self.key) if self.line is None else f":{self.line}"
        where = f"{self.launch.name}{line}"
        if self.embedded_path is not None:
            return f"{where}: {self.format.name} reads the config that is embedded here"
        if self.is_too_long:
            text = f"the text that the script writes into `{self.reference}`"
            return f"{where}: {text} exceeds the size limit and is not checked"
        if self.format.builds == HYDRA:
            return f"{where}: Hydra composes the config from {self.reference}"
        if self.format.builds == PROGRAM and self.document is None:
            return f"{where}: only a run shows the config that {self.reference} receives"
        if self.format.builds == PROGRAM:
            return f"{where}: the program builds the config that {self.reference} receives"
        if self.document is None:
            if "$" in self.reference or self.is_written_by_script:
                return (
                    f"{where}: `{self.reference}` depends on variables of the job's shell and is not checked"
                )
            if self.lookup is not None and (why := self.lookup.why_unread):
                return f"{where}: `{self.reference}` {why}"
            if self.lookup is None or not self.lookup.tried:
                return f"{where}: `{self.reference}` does not exist here and is not checked"
            if self.format.preset and is_preset_name(self.reference):
                preset = f"`{self.reference}` is a preset of {self.format.name}"
                return f"{where}: {preset} that is not installed here, so it is not checked"
            return (
                f"{where}: `{self.reference}` was not found from {self.lookup.shown_tried_folders}, "
                "so it is not checked: "
                "the job resolves it from the folder in which it starts"
            )
        if self.encoding is not None:
            return f"{where}: {self.format.name} reads the config that is encoded in `{self.reference}`"
        if self.lookup is None or not self.lookup.tried:
            is_built = self.format.builds and self.document.is_data
            return f"{where}: {self.format.name} " + (
                "builds the config" if is_built else f"reads `{self.reference}`"
            )
        source = f"{self.document.name}, found from {self.lookup.shown_folder}"
        if "$" in self.reference or self.reference.startswith("/"):
            source += f" for `{self.reference}`"
        receiver = f"`{self.key}`" if self.format.name == PROGRAM_FILE.name else self.format.name
        return f"{where}: {receiver} reads {source}"


class EncodedConfig(NamedTuple):
    """The bytes of a config that is passed on the command line instead of a path, and their encoding."""

    data: bytes
    encoding: str


def decode_config_argument(word: str) -> EncodedConfig | None:
    """Decode a command-line word that contains a config as JSON or base64; return None for a path."""
    if word.lstrip().startswith("{"):
        return EncodedConfig(word.encode("utf-8", "replace"), "json_text")
    if len(word) < _MIN_BASE64 or not _BASE64.fullmatch(word):
        return None
    from base64 import urlsafe_b64decode

    try:
        data = urlsafe_b64decode(word)
    except ValueError:
        return None
    return EncodedConfig(data, "base64") if data.lstrip().startswith(b"{") else None


_BASE64 = re.compile(r"[\w-]+={0,2}", re.ASCII)
_MIN_BASE64 = 8


def key_line_suffix(document: Document, key: str) -> str:
    """Return the line of a key as a suffix of a file name (`:12`), or an empty string if it is unknown."""
    path = tuple(key.split("."))
    if document.is_data or not document.has_path(path):
        return ""
    return f":{document.position(document.span(path, 'key').start).line}"
