"""Locate the config that a file is, contains or names.

`locate_config` is the only path from a file named by the user to the config that its job reads.
`LocatedConfig.map_diagnostic_to_host` maps a diagnostic of the config to the named file, and
`EmbeddedLocation.write_into_host` writes an edited config into that file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

from dsconfig.core.diagnostic import Diagnostic, Fix, Location, MoveKey, Operation, ReplaceText
from dsconfig.core.file_access import read_contents
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.document import Document, TextSpan, read_bytes, read_text
from dsconfig.document.config_file_names import is_python_name
from dsconfig.document.document import location_of_path, location_of_span
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.accelerate_launch_file import LINK, deepspeed_block, is_launch_file
from dsconfig.job.consumers.consumer_versions import split_consumer_spec
from dsconfig.job.detect_consumer import ConsumerEvidence, consumer_suggested_by_content
from dsconfig.launch.classify_config_file import why_not_checked
from dsconfig.launch.config_references import launch_files_naming_config
from dsconfig.launch.config_source import parse_passed_config
from dsconfig.launch.find_jobs import add_consumer_version, job_of_launch_file, jobs_of_launch_file
from dsconfig.launch.framework_presets import PRESET
from dsconfig.launch.launch_file_formats import is_shell_script_name
from dsconfig.launch.repository_files import PathLookup, resolve_written_path

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from dsconfig.job.job import Job
    from dsconfig.launch.launched_job import LaunchedJob

Relation: TypeAlias = "Literal['file', 'embedded', 'named', 'launch', 'block', 'missing']"
"""Relation between the file that the user named (the host) and the config.

`file`: the host is the config. `embedded`: the config is embedded in it or built from its keys. `named`: the
config is another file. `launch`: the host names an Accelerate launch file, which leads on. `block`:
Accelerate builds the config from the host's block. `missing`: there is no config.
"""


class LocatedConfig(NamedTuple):
    """A config and its location in the file that the user named."""

    host: Document
    """The file that the user named: the config itself, a launch file or a script."""
    config: Document | None
    """The config, or None if there is none or Accelerate builds it from the host's block."""
    relation: Relation
    note: str = ""
    """Note on how the host leads to the config, or why there is none; empty for `file` and `block`."""
    error: OSError | None = None
    """Error from reading the named config, or None if the config could be read."""
    why_not_checked: str = ""
    """Why the file that the host names is not checked, if it does not look like a config."""
    reference: str = ""
    """Path of the config as written in an Accelerate launch file."""
    why_unread: str = ""
    """Why there is no config at the path in `reference`, as the end of a sentence."""
    job: LaunchedJob | None = None
    """The job of the host, or None for a config and for an Accelerate launch file."""
    reader: ConsumerEvidence | None = None
    """The consumer implied by the host, or None if the host is the config."""
    job_number: int = 0
    """Index of the job among the jobs of the host."""

    def follow_accelerate_link(self, job: Job) -> LocatedConfig:
        """Return the config that this Accelerate launch file names, for the job's version of Accelerate."""
        assert self.job is not None
        assert self.config is not None
        consumer = job.consumer and job.consumer.value
        version = consumer.version if consumer and consumer.name == "accelerate" else None
        return locate_config(self.job.config(version) or self.config)

    @property
    def host_kind(self) -> str:
        """Clause that describes the file if it is not a config itself."""
        if is_shell_script_name(self.host.name):
            return "it is a shell script"
        if is_python_name(self.host.name):
            return "it is a Python program"
        return f"it is a launch file of {self.program_name or 'Accelerate'}"

    @property
    def program_name(self) -> str:
        """Name of the program that the launch file belongs to; empty for a config."""
        return "" if self.job is None else self.job.format.name

    @property
    def is_named_by_program(self) -> bool:
        """Whether the host is a Python program that passes the path to the config to a consumer."""
        return self.job is not None and is_python_name(self.host.name)

    def path_in_host(self, path: KeyPath) -> KeyPath | None:
        """Return the path of a config key in the host file, or None if the program adds the key."""
        job = self.job
        return (
            _path_in_launch_file(self.host, path)
            if job is not None and job.format.builds == _KEYS_AT_ROOT
            else None
        )

    def map_diagnostic_to_host(self, diagnostic: Diagnostic) -> Diagnostic | None:
        """Convert a diagnostic of the config to one of the host file, with that file's key path and location.

        A fix that cannot be turned into an edit of the host becomes help text. Return None for a warning about a key
        that the launch file's program adds, because the user cannot change it.
        """
        if self.relation != "embedded" or self.job is None:
            return diagnostic
        is_added = _is_added_by_program(diagnostic, self.job)
        if is_added and diagnostic.severity != "error":
            return None
        job = self.job
        base, map_location = job.embedded_path or (), _location_mapper(job)
        fix = None if diagnostic.fix is None else _prefix_fix_paths(diagnostic.fix, base)
        if fix is not None and not _can_edit_host(job, fix):
            diagnostic, fix = diagnostic._replace(help=diagnostic.help or fix.title), None
        if is_added:
            advice = f"set `{diagnostic.path[0]}` in the launch file; without it, {job.format.name} adds this value"
            diagnostic, fix = diagnostic._replace(help=advice), None
        location = map_location(diagnostic.location, diagnostic.path)
        related = (
            each._replace(path=(*base, *each.path), location=map_location(each.location, each.path))
            for each in diagnostic.related
        )
        return diagnostic._replace(
            path=(*base, *diagnostic.path),
            location=location,
            # The command that leads to a built config is the location of all its keys.
            related=tuple(each for each in related if each.location is None or each.location != location),
            fix=fix,
        )


class EditableConfig(NamedTuple):
    """The text of a config that can be edited, and its location in the launch file."""

    document: Document
    reader: ConsumerEvidence
    world_size: int | None
    note: str
    """Note on how the launch file leads to the config."""
    embedding: EmbeddedLocation | None = None
    """Location of the config in the launch file, or None if the config is a separate file."""


class LinkedConfig(NamedTuple):
    """A config that an Accelerate launch file names."""

    reference: str
    """Path of the config as written in the launch file."""
    document: Document | None
    """The config, or None if the file was not found."""
    reader: ConsumerEvidence
    """Consumer of the linked config."""
    lookup: PathLookup
    """Result of the search for the config file."""

    def missing_file_note(self, launch: str) -> str:
        """Return the message about a config file that does not exist or must not be read."""
        if why := self.lookup.why_unread:
            return f"{launch}: {self.reference} {why}"
        tried = self.lookup.shown_tried_folders or "here"
        return f"{launch}: {self.reference} was not found from {tried}, so it is not checked"


# -- from the host to the config ---------------------------------------------------------------------------


def locate_config(host: Document, consumer: str | None = None) -> LocatedConfig:
    """Find the config that a file is, contains or names.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    if host.is_in_program:
        return LocatedConfig(host, host, "file")
    job = job_of_launch_file(host)
    if job is not None:
        return locate_config_of_job(job)._replace(job_number=host.selected_job or 0)
    if not is_launch_file(host.value()):
        return LocatedConfig(host, host, "file")
    try:
        link = read_linked_config(host, consumer)
    except OSError as error:
        message = f"{host.name}: {error.filename} cannot be checked: {(error.strerror or str(error)).lower()}"
        return LocatedConfig(host, None, "missing", message, error)
    if link is None:
        return LocatedConfig(host, None, "block")
    if link.document is None:
        return LocatedConfig(
            host,
            None,
            "missing",
            link.missing_file_note(host.name),
            reference=link.reference,
            why_unread=link.lookup.why_unread or "was not found from here",
            reader=link.reader,
        )
    if reason := why_not_checked(link.document):
        return LocatedConfig(
            host, None, "missing", f"{host.name}: {reason}", why_not_checked=reason, reader=link.reader
        )
    note = f"{host.name}: Accelerate reads {link.document.name}, found from {link.lookup.shown_folder}"
    return LocatedConfig(host, link.document, "named", note, reader=link.reader)


def locate_config_of_job(job: LaunchedJob) -> LocatedConfig:
    """Locate the config of one job of a launch file."""
    config = job.document
    located = LocatedConfig(job.launch, config, "named", job.note, job=job, reader=job.reader)
    if config is None:
        return located._replace(relation="missing")
    if job.is_config_from_other_file and (why := why_not_checked(config, job.reader.name)):
        return located._replace(config=None, relation="missing", why_not_checked=why)
    if is_launch_file(config.value()):  # for example TRL's `accelerate_config: zero2.yaml`
        return located._replace(relation="launch")
    return located._replace(relation="embedded") if job.is_embedded else located


def find_config_link(launch: Document) -> tuple[str, PathLookup] | None:
    """Return the path in `deepspeed_config_file` of an Accelerate launch file, and the file that it resolves to.

    Return None without such a key, and if the file selects another backend: FSDP ignores the block.
    """
    data = launch.value()
    # commands/launch.py:_validate_launch_command switches DeepSpeed on for this value only.
    if not isinstance(data, dict) or data.get("distributed_type", "DEEPSPEED") != "DEEPSPEED":
        return None
    name = deepspeed_block(data).get(LINK)
    # The plugin's default for the environment variable is the word "none":
    # utils/dataclasses.py:DeepSpeedPlugin.
    if not isinstance(name, str) or name in ("", "none"):
        return None
    return name, resolve_written_path(name, launch.name)


def read_linked_config(launch: Document, consumer: str | None = None) -> LinkedConfig | None:
    """Return the config that an Accelerate launch file names, or None if it names none.

    `consumer` is the consumer that the user named, if any.

    Raises:
        OSError: the config cannot be read.
    """
    link = find_config_link(launch)
    if link is None:
        return None
    reference, lookup = link
    path = lookup.path
    reader = ConsumerEvidence("accelerate", f"{launch.name} names it", "launch file")
    name, version = split_consumer_spec(consumer or "")
    if name in HUGGING_FACE:
        reader = reader._replace(name=name, version=version)
    if path is None:
        return LinkedConfig(reference, None, reader, lookup)
    config = parse_passed_config(read_contents(path), path, reader.name, is_direct=True)
    detected = consumer_suggested_by_content(config.value("json")) if consumer is None else None
    if detected is not None and detected.name == "transformers":
        # The script may use a Trainer, which fills more keys than Accelerate alone.
        reader = reader if detected.likely else detected
    return LinkedConfig(reference, config, reader, lookup)


def find_editable_config(host: Document, job_number: int | None = None) -> EditableConfig | None:
    """Return the config of a launch file as editable text, or None if the file has none or several.

    `job_number` is the job whose config to return, by default the selected one; see `LocatedConfig`.

    Raises:
        OSError: the config cannot be read.
    """
    job_number = host.selected_job if job_number is None else job_number
    jobs = list(jobs_of_launch_file(host))
    jobs = jobs if job_number is None else jobs[job_number : job_number + 1]
    candidates = [each for job in jobs if (each := _editable_config_of_job(job)) is not None]
    # Several jobs of a script often use the same config, which is then the one to edit.
    configs = {
        (each.document.name, each.document.text, each.embedding and each.embedding.span)
        for each in candidates
    }
    return candidates[0] if len(configs) == 1 else None


def _editable_config_of_job(job: LaunchedJob) -> EditableConfig | None:
    config = job.document
    if config is None or config.is_data:
        return None
    if job.is_config_from_other_file and why_not_checked(config, job.reader.name):
        return None
    reader = add_consumer_version(job.reader, job.launch.name)
    if not job.is_embedded:
        linked = find_editable_config(config)
        result = linked or EditableConfig(config, reader, job.world_size, job.note)
        return result if linked is None or linked.embedding is None else None
    embedding = _locate_embedding(job, config)
    if embedding is None:
        return None
    text = (
        job.launch.text[embedding.span.start : embedding.span.end]
        if config.embedded_at is not None
        else config.text
    )
    # `read_text` would parse a name with a script's suffix as a script.
    name = config.name if is_shell_script_name(job.launch.name) else job.launch.name
    text_document = read_text(text, name, "yaml" if config.format == "yaml" else "json")
    embedded = value_at_path(job.launch.value(), job.embedded_path or ())
    if config.embedded_at is not None and text_document.value() != embedded:
        return None  # for example a YAML alias of a block at another location
    return EditableConfig(text_document, reader, job.world_size, job.note, embedding)


def why_host_has_no_config(host: Document) -> str | None:
    """Return why a launch file has no config to check, or None if it has one or is a config itself.

    Raises:
        OSError: a config cannot be read.
    """
    located = locate_config(host)
    if located.error is not None:
        raise located.error
    if located.relation == "missing":
        return located.why_not_checked if located.why_not_checked and located.job else located.note
    linked = located.job is not None and not located.job.is_embedded and located.config
    return why_host_has_no_config(linked) if linked else None


def files_affecting_diagnostics(host: Document) -> Iterator[str]:
    """Yield the files on which the diagnostics of a host depend: the host, its config, and its launch files.

    Raises:
        OSError: a config cannot be read.
    """
    yield host.name
    if not host.name.startswith("<"):
        yield from launch_files_naming_config(host.name)
    for job in jobs_of_launch_file(host):
        if job.document is not None and job.lookup is not None and job.lookup.path is not None:
            yield job.lookup.path
            yield from (
                each.document.name for each in (read_linked_config(job.document),) if each and each.document
            )
    if is_launch_file(host.value()) and (link := read_linked_config(host)) and link.document is not None:
        yield link.document.name


# -- from the config to the host: locations of diagnostics -------------------------------------------------


def _is_added_by_program(diagnostic: Diagnostic, job: LaunchedJob) -> bool:
    if job.document is None or not job.document.is_data or not diagnostic.path:
        return False
    if job.format.builds == _KEYS_AT_ROOT:
        return _path_in_launch_file(job.launch, diagnostic.path) is None
    return job.format.builds in _BUILDS_FROM_ARGUMENTS and diagnostic.severity != "error"


def _can_edit_host(job: LaunchedJob, fix: Fix) -> bool:
    config = job.document
    if config is None or not config.is_data:
        return config is not None and config.embedded_at is not None
    steps = fix.operations
    return job.format.builds == _KEYS_AT_ROOT and all(
        not isinstance(step, ReplaceText) and job.launch.has_path(step.path) for step in steps
    )


_KEYS_AT_ROOT = "neox"
"""Program whose launch files have the keys of the config at their root, or under `_EXTRA_KEYS`."""
_EXTRA_KEYS = "deepspeed_extra_args"
_BUILDS_FROM_ARGUMENTS = ("lightning", "openrlhf", PRESET)
"""Programs that build the whole config from a few arguments; the user cannot set the other keys."""


def _location_mapper(job: LaunchedJob) -> Callable[[Location | None, KeyPath], Location | None]:
    """Return a function that converts locations in the config to locations in the launch file."""
    config, launch, reference_location = job.document, job.launch, _location_of_reference(job)
    if config is not None and config.embedded_at is not None:
        return lambda at, _: at
    if config is None or config.is_data:
        has_same_keys = job.format.builds == _KEYS_AT_ROOT
        return lambda _, path: (has_same_keys and _location_in_file(launch, path)) or reference_location
    from dsconfig.launch.embedded_text_offsets import character_offsets

    span = TextSpan(0, len(launch.text)) if job.embedded_path is None else launch.span(job.embedded_path)
    offsets = character_offsets(launch, span, config.text)

    def map_location(at: Location | None, _: KeyPath) -> Location | None:
        if at is None or not offsets:
            return reference_location
        last = max(at.start, at.end - 1)
        return location_of_span(launch, TextSpan(offsets[at.start], offsets[last] + (at.end > at.start)))

    return map_location


def _location_in_file(launch: Document, path: KeyPath) -> Location | None:
    """Return the location of a config key in a launch file, where it may be spelled with hyphens."""
    path_in_host = _path_in_launch_file(launch, path[:1])
    return None if path_in_host is None else location_of_path(launch, (*path_in_host, *path[1:]))


def _path_in_launch_file(launch: Document, path: KeyPath) -> KeyPath | None:
    """Return the path of a config key in a launch file with the same keys, or None if it lacks the key."""
    for first in (path[:1], tuple(str(part).replace("_", "-") for part in path[:1])):
        for base in ((), (_EXTRA_KEYS,)) if first else ():
            if launch.has_path((*base, *first, *path[1:])):
                return (*base, *first, *path[1:])
    return None


def _location_of_reference(job: LaunchedJob) -> Location | None:
    """Return the location of the key or script line that refers to the config."""
    if (line := job.command_span) is not None:
        return location_of_span(job.launch, line)
    return location_of_path(job.launch, job.embedded_path or tuple(job.key.split(".")))


def _prefix_fix_paths(fix: Fix, base: KeyPath) -> Fix:
    return fix._replace(operations=tuple(_prefix_operation_paths(step, base) for step in fix.operations))


def _prefix_operation_paths(step: Operation, base: KeyPath) -> Operation:
    if isinstance(step, ReplaceText):  # the text is the same
        return step
    if isinstance(step, MoveKey):
        return MoveKey((*base, *step.path), (*base, *step.to))
    return step._replace(path=(*base, *step.path))


# -- from the config to the host: edited texts -------------------------------------------------------------

Writer: TypeAlias = "Callable[[str], str]"
"""Function that formats the text of a config for a launch file, for example as a JSON string."""


class EmbeddedLocation(NamedTuple):
    """The location of a config inside a launch file, and how to replace its text there."""

    launch: Document
    span: TextSpan
    path: KeyPath | None
    """Path of the config in the launch file, or None in a script."""
    first_line: int
    """Line of the launch file in which the config starts."""
    is_multiline: bool
    """Whether each line of the config is a line of the launch file."""
    format_text: Writer

    def line_in_host(self, inner: int | None) -> int | None:
        """Convert a line number in the config to one in the launch file."""
        return None if inner is None else self.first_line + (inner - 1 if self.is_multiline else 0)

    def write_into_host(self, text: str) -> str | None:
        """Return the launch file with the config's text replaced, or None if the edit would change anything else.

        The result is parsed again to make sure that no value outside the config changes.
        """
        launch, expected = self.launch, _parse_embedded_value(text, self.launch.format)
        new_text = launch.text[: self.span.start] + self.format_text(text) + launch.text[self.span.end :]
        new_document = read_bytes(new_text.encode("utf-8", "replace"), launch.name, launch.format)
        if self.path is None:
            texts = (job.document for job in jobs_of_launch_file(new_document))
            return new_text if any(each is not None and each.value() == expected for each in texts) else None
        before, after = launch.value(), new_document.value()
        embedded = value_at_path(after, self.path)
        embedded_value = _parse_embedded_value(embedded, "json") if isinstance(embedded, str) else embedded
        is_unchanged_elsewhere = (
            embedded_value == expected
            and not new_document.problems
            and _copy_without_path(before, self.path) == _copy_without_path(after, self.path)
        )
        return (
            new_text
            if is_unchanged_elsewhere or (isinstance(embedded, str) and _decode(embedded) == expected)
            else None
        )


def _locate_embedding(job: LaunchedJob, config: Document) -> EmbeddedLocation | None:
    """Return the location of the config's text in the launch file, or None if it cannot be determined."""
    if config.embedded_at is not None and job.embedded_path is not None:
        return _locate_embedded_mapping(job.launch, job.embedded_path)
    return _locate_embedded_string(job, config.text)


def value_at_path(data: object, path: KeyPath) -> object:
    """Return the value at a path in nested mappings, or None if the path is absent."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _locate_embedded_mapping(launch: Document, path: KeyPath) -> EmbeddedLocation | None:
    """Locate a config that is a mapping inside the launch file."""
    span = launch.span(path)
    start = span.start
    if launch.format == "yaml" and launch.text[start] != "{":  # a block mapping: include its first indent
        start = launch.text.rfind("\n", 0, start) + 1
        if launch.text[start : span.start].strip():
            return None
    return EmbeddedLocation(
        launch,
        TextSpan(start, span.end),
        path,
        launch.position(start).line,
        is_multiline=True,
        format_text=lambda new: new,
    )


def _locate_embedded_string(job: LaunchedJob, text: str) -> EmbeddedLocation | None:
    """Return the location of a config that is a string in the launch file or part of a script."""
    launch = job.launch
    path = None if is_shell_script_name(launch.name) else job.embedded_path
    span = TextSpan(0, len(launch.text)) if path is None else launch.span(path)
    raw = launch.text[span.start : span.end]
    as_lines = _line_end_writer(raw)
    if raw.count(as_lines(text)) == 1 and text.strip():
        start = span.start + raw.find(as_lines(text))
        embedded_span = TextSpan(start, start + len(as_lines(text)))
        return EmbeddedLocation(
            launch, embedded_span, path, launch.position(start).line, is_multiline=True, format_text=as_lines
        )
    if raw.count(encoded := _base64_writer("")(text)) == 1 and job.encoding == "base64":
        start = span.start + raw.find(encoded)
        embedded_span = TextSpan(start, start + len(encoded))
        line = launch.position(start).line
        return EmbeddedLocation(
            launch, embedded_span, path, line, is_multiline=False, format_text=_base64_writer("")
        )
    first = launch.position(span.start).line
    writers: tuple[Writer, ...] = (json.dumps, partial(json.dumps, ensure_ascii=False))
    for writer in writers:
        if writer(text) == raw:
            return EmbeddedLocation(launch, span, path, first, is_multiline=False, format_text=writer)
    block_writer = _block_scalar_writer(raw)
    if launch.format == "yaml" and raw[:1] in ("'", '"'):  # a quoted scalar may span several lines
        quoted: Writer = lambda new: "'" + new.replace("'", "''") + "'"  # noqa: E731
        return EmbeddedLocation(launch, span, path, first, is_multiline=False, format_text=quoted)
    if block_writer is None or block_writer(text) != raw:
        return None
    return EmbeddedLocation(launch, span, path, first + 1, is_multiline=True, format_text=block_writer)


def _line_end_writer(raw: str) -> Writer:
    """Return a function that converts line endings to those of `raw`."""
    newline = "\r\n" if "\r\n" in raw else "\n"
    return lambda text: text.replace("\r\n", "\n").replace("\n", newline)


def _base64_writer(quote: str) -> Writer:
    from base64 import urlsafe_b64encode

    return lambda text: f"{quote}{urlsafe_b64encode(text.encode()).decode()}{quote}"


def _block_scalar_writer(raw: str) -> Writer | None:
    """Return a function that writes text in the style of the YAML block scalar `raw`, or None for other scalars."""
    header, newline, body = raw.partition("\n")
    lines = [line for line in body.splitlines(keepends=True) if line.strip()]
    indent = min((line[: len(line) - len(line.lstrip())] for line in lines), key=len, default="")
    if not newline or not indent or header.strip()[:1] not in ("|", ">"):
        return None
    ends, as_lines = "\n" * raw[len(raw.rstrip()) :].count("\n"), _line_end_writer(raw)

    def write_block_scalar(text: str) -> str:
        shifted = (indent + line if line.strip() else line for line in text.splitlines(keepends=True))
        return header + newline + as_lines("".join(shifted).rstrip("\n") + ends)

    return write_block_scalar


def _parse_embedded_value(text: object, form: str) -> object:
    if not isinstance(text, str):
        return text
    yaml = form == "yaml" and not text.lstrip().startswith("{")
    return read_text(text, "<config>", "yaml" if yaml else "json").value()


def _decode(text: str) -> object:
    from dsconfig.launch.launched_job import decode_config_argument  # which reads the jobs that lead here

    decoded = decode_config_argument(text)
    return None if decoded is None else read_bytes(decoded.data, "<config>").value()


def _copy_without_path(data: object, path: KeyPath) -> Json:
    """Return a copy of nested data without the value at a path, for comparison."""
    if not isinstance(data, dict) or not path:
        return None
    others: dict[str, Json] = {key: value for key, value in data.items() if key != path[0]}
    return {**others, str(path[0]): _copy_without_path(data.get(path[0]), path[1:])}
