"""Location of a config: in a file of its own, embedded in a launch file, or in a file that a launch file
names.

`locate` is the only path from a file named by the user to the config that its job reads. `LocatedConfig.lift`
maps a diagnostic of the config to the named file, and `Embedding.put_back` writes an edited config into that
file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.accelerate_launch_file import LINK, block, is_launch_file
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.diagnostic import Diagnostic, Fix, Location, Move, Operation, Replace
from dsconfig.core.file_access import contents
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.document import Document, Span, read_bytes, read_text
from dsconfig.document.document import location, location_of
from dsconfig.job.detect_consumer import Reader, of_content
from dsconfig.launch.config_references import launchers_of, read_passed
from dsconfig.launch.detect_config import why_unlike
from dsconfig.launch.find_jobs import job_of, jobs_of, with_version
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.launch.repository import Place, search

if TYPE_CHECKING:
    from dsconfig.job.job import Job
    from dsconfig.launch.launched_job import Job as LaunchJob

How: TypeAlias = Literal["file", "held", "named", "launch", "block", "nowhere"]
"""Relation between the host and the config.

`file`: the host is the config. `held`: the config is embedded in it or built from its keys. `named`: the
config is another file. `launch`: the host names an Accelerate launch file, which leads on. `block`:
Accelerate builds the config from the host's block. `nowhere`: there is no config.
"""


class LocatedConfig(NamedTuple):
    """A config and its location in the file that the user named."""

    host: Document
    """The file that the user named: the config itself, a launch file or a script."""
    config: Document | None
    """The config; None if there is none, or if Accelerate builds it from the host's block."""
    how: How
    note: str = ""
    """How the host leads to the config, or why there is none; empty for `file` and `block`."""
    unread: OSError | None = None
    """Why the named config cannot be read; None if it can."""
    unlike: str = ""
    """Why the file that the host names is not checked: it does not look like a config."""
    written: str = ""
    """Path of the config as written in an Accelerate launch file."""
    why_unread: str = ""
    """Why there is no config at that path, as the end of a sentence."""
    job: LaunchJob | None = None
    """The job of the host; None for a config and for an Accelerate launch file."""
    reader: Reader | None = None
    """The consumer implied by the host; None if the host is the config."""

    def next(self, job: Job) -> LocatedConfig:
        """Follow the Accelerate launch file that this host names, with the job's version of Accelerate."""
        assert self.job is not None
        assert self.config is not None
        consumer = job.consumer and job.consumer.value
        version = consumer.version if consumer and consumer.name == "accelerate" else None
        return locate(self.job.config(version) or self.config)

    @property
    def kind(self) -> str:
        """Kind of the host as a clause, if it is not the config itself."""
        if self.host.name.endswith(SCRIPTS):
            return "it is a shell script"
        return f"it is a launch file of {self.program or 'Accelerate'}"

    @property
    def program(self) -> str:
        """Name of the launch file's program; empty for a config."""
        return "" if self.job is None else self.job.format.name

    def path_in_host(self, path: KeyPath) -> KeyPath | None:
        """Path in the host of a key whose config is built from the host's keys; None if the program adds the
        key.
        """
        job = self.job
        return _written(self.host, path) if job is not None and job.format.makes == _SAME_KEYS else None

    def lift(self, found: Diagnostic) -> Diagnostic | None:
        """Map a diagnostic of the config to the host, with the host's path and location.

        A fix that cannot be translated into an edit of the host becomes help text. None for a warning about a
        key that the launch file's program adds: the user did not write it and cannot change it.
        """
        if self.how != "held" or self.job is None:
            return found
        is_added = _is_added(found, self.job)
        if is_added and found.severity != "error":
            return None
        job = self.job
        base, placed = job.inline or (), _places(job)
        fix = None if found.fix is None else _moved(found.fix, base)
        if fix is not None and not _can_be_edited(job, fix):
            found, fix = found._replace(help=found.help or fix.title), None
        if is_added:
            todo = f"set `{found.path[0]}` in the launch file; without it, {job.format.name} adds this value"
            found, fix = found._replace(help=todo), None
        return found._replace(
            path=(*base, *found.path),
            location=placed(found.location, found.path),
            related=tuple(
                each._replace(path=(*base, *each.path), location=placed(each.location, each.path))
                for each in found.related
            ),
            fix=fix,
        )


class EditableConfig(NamedTuple):
    """A config as an editable text, and its location in the launch file."""

    document: Document
    reader: Reader
    world_size: int | None
    note: str
    """How the launch file leads to it."""
    place: Embedding | None = None
    """Location in the launch file; None for a file of its own."""


class Named(NamedTuple):
    """A config named by an Accelerate launch file."""

    written: str
    """Path as written in the launch file."""
    document: Document | None
    """The config; None if the file was not found."""
    reader: Reader
    """Consumer of the config."""
    place: Place
    """Result of the search for the file."""

    def note(self, launch: str) -> str:
        """Message for a file that was not found or may not be read."""
        if why := self.place.why_unread:
            return f"{launch}: {self.written} {why}"
        tried = self.place.folders or "here"
        return f"{launch}: {self.written} was not found from {tried}, so it is not checked"


# -- from the host to the config ---------------------------------------------------------------------------


def locate(host: Document, consumer: str | None = None) -> LocatedConfig:
    """Find the config that a file is, embeds or names. `consumer`: explicit consumer, if the user named one.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    job = job_of(host)
    if job is not None:
        return _of_job(job)
    if not is_launch_file(host.value()):
        return LocatedConfig(host, host, "file")
    try:
        found = named(host, consumer)
    except OSError as error:
        told = f"{host.name}: {error.filename} cannot be checked: {(error.strerror or str(error)).lower()}"
        return LocatedConfig(host, None, "nowhere", told, error)
    if found is None:
        return LocatedConfig(host, None, "block")
    if found.document is None:
        why = found.place.why_unread or "was not found from here"
        return LocatedConfig(
            host,
            None,
            "nowhere",
            found.note(host.name),
            written=found.written,
            why_unread=why,
            reader=found.reader,
        )
    if unlike := why_unlike(found.document):
        return LocatedConfig(
            host, None, "nowhere", f"{host.name}: {unlike}", unlike=unlike, reader=found.reader
        )
    note = f"{host.name}: Accelerate reads {found.document.name}, found from {found.place.folder}"
    return LocatedConfig(host, found.document, "named", note, reader=found.reader)


def _of_job(job: LaunchJob) -> LocatedConfig:
    config = job.document
    located = LocatedConfig(job.launch, config, "named", job.note, job=job, reader=job.reader)
    if config is None:
        return located._replace(how="nowhere")
    if job.is_from_file and (why := why_unlike(config)):
        return located._replace(config=None, how="nowhere", unlike=why)
    if is_launch_file(config.value()):  # for example TRL's `accelerate_config: zero2.yaml`
        return located._replace(how="launch")
    return located._replace(how="held") if job.is_held else located


def linked(launch: Document) -> tuple[str, Place] | None:
    """The path in an Accelerate launch file's `deepspeed_config_file`, and the file it resolves to.

    None if there is no such key, or if the file starts another backend: FSDP ignores the block.
    """
    data = launch.value()
    if not isinstance(data, dict) or data.get("distributed_type", "DEEPSPEED") != "DEEPSPEED":
        return None
    name = block(data).get(LINK)
    # The plugin's default for the environment variable is the word "none":
    # utils/dataclasses.py:DeepSpeedPlugin.
    if not isinstance(name, str) or name in ("", "none"):
        return None
    return name, search(name, launch.name)


def named(launch: Document, consumer: str | None = None) -> Named | None:
    """The config that an Accelerate launch file names; None if it names none. `consumer`: explicit, if the
    user named one.

    Raises:
        OSError: the config cannot be read.
    """
    found = linked(launch)
    if found is None:
        return None
    written, place = found
    path = place.path
    reader = Reader("accelerate", f"{launch.name} names it", "launch file")
    name, version = parted(consumer or "")
    if name in HUGGING_FACE:
        reader = reader._replace(name=name, version=version)
    if path is None:
        return Named(written, None, reader, place)
    config = read_passed(contents(path), path, reader.name, surely=True)
    if consumer is None and (content := of_content(config.value("json"))).name == "transformers":
        # The script may use a Trainer, which fills more keys than Accelerate alone.
        reader = reader if content.likely else content
    return Named(written, config, reader, place)


def editable(host: Document) -> EditableConfig | None:
    """The config of a launch file as an editable text; None if it has none or several.

    Raises:
        OSError: the config cannot be read.
    """
    found = [each for job in jobs_of(host) if (each := _editable(job)) is not None]
    configs = {(each.document.name, each.document.text, each.place and each.place.span) for each in found}
    return found[0] if len(configs) == 1 else None


def _editable(job: LaunchJob) -> EditableConfig | None:
    config = job.document
    if config is None or config.is_data or (job.is_from_file and why_unlike(config)):
        return None
    reader = with_version(job.reader, job.launch.name)
    if not job.is_held:
        deeper = editable(config)
        kept = deeper or EditableConfig(config, reader, job.world_size, job.note)
        return kept if deeper is None or deeper.place is None else None
    place = _embedding(job, config)
    if place is None:
        return None
    text = job.launch.text[place.span.start : place.span.end] if config.within is not None else config.text
    # `read_text` would parse a name with a script's suffix as a script.
    name = config.name if job.launch.name.endswith(SCRIPTS) else job.launch.name
    alone = read_text(text, name, "yaml" if config.format == "yaml" else "json")
    if config.within is not None and alone.value() != value_at(job.launch.value(), job.inline or ()):
        return None  # for example a YAML alias of a block at another location
    return EditableConfig(alone, reader, job.world_size, job.note, place)


def why_nowhere(host: Document) -> str | None:
    """Why a launch file has no config to check; None if it has one or the file is a config.

    Raises:
        OSError: a config cannot be read.
    """
    located = locate(host)
    if located.unread is not None:
        raise located.unread
    if located.how == "nowhere":
        return located.unlike if located.unlike and located.job else located.note
    on = located.job is not None and not located.job.is_held and located.config
    return why_nowhere(on) if on else None


def files_behind(host: Document) -> Iterator[str]:
    """Yield the files that affect the diagnostics of a file: itself, the config it names, and its launch
    files.

    Raises:
        OSError: a config cannot be read.
    """
    yield host.name
    if not host.name.startswith("<"):
        yield from launchers_of(host.name)
    for job in jobs_of(host):
        if job.document is not None and job.place is not None and job.place.path is not None:
            yield job.place.path
            yield from (each.document.name for each in (named(job.document),) if each and each.document)
    if is_launch_file(host.value()) and (found := named(host)) and found.document is not None:
        yield found.document.name


# -- from the config to the host: locations of diagnostics -------------------------------------------------


def _is_added(found: Diagnostic, job: LaunchJob) -> bool:
    if job.document is None or not job.document.is_data or not found.path:
        return False
    if job.format.makes == _SAME_KEYS:
        return _written(job.launch, found.path) is None
    return job.format.makes in _OWN_ARGUMENTS and found.severity != "error"


def _can_be_edited(job: LaunchJob, fix: Fix) -> bool:
    config = job.document
    if config is None or not config.is_data:
        return config is not None and config.within is not None
    steps = fix.operations
    return job.format.makes == _SAME_KEYS and all(
        not isinstance(step, Replace) and job.launch.located(step.path) for step in steps
    )


_SAME_KEYS = "neox"
"""Program whose launch files have the keys of the config at their root, or under `EXTRA`."""
EXTRA = "deepspeed_extra_args"
_OWN_ARGUMENTS = ("lightning", "openrlhf")
"""Programs that build the whole config from a few arguments; the user cannot set the other keys."""


def _places(job: LaunchJob) -> Callable[[Location | None, KeyPath], Location | None]:
    """Return a function from a location in the config to the one in the launch file."""
    config, launch, whole = job.document, job.launch, _whole(job)
    if config is not None and config.within is not None:
        return lambda at, _: at
    if config is None or config.is_data:
        same = job.format.makes == _SAME_KEYS
        return lambda _, path: (same and _by_key(launch, path)) or whole
    span = Span(0, len(launch.text)) if job.inline is None else launch.span(job.inline)
    offsets = _offsets(launch, span, config.text)

    def placed(at: Location | None, _: KeyPath) -> Location | None:
        if at is None or not offsets:
            return whole
        last = max(at.start, at.end - 1)
        return location(launch, Span(offsets[at.start], offsets[last] + (at.end > at.start)))

    return placed


def _by_key(launch: Document, path: KeyPath) -> Location | None:
    """Location of a key, which may be written with hyphens."""
    there = _written(launch, path[:1])
    return None if there is None else location_of(launch, (*there, *path[1:]))


def _written(launch: Document, path: KeyPath) -> KeyPath | None:
    """Path of a config key in a launch file with the same keys; None if absent."""
    for first in (path[:1], tuple(str(part).replace("_", "-") for part in path[:1])):
        for base in ((), (EXTRA,)) if first else ():
            if launch.located((*base, *first, *path[1:])):
                return (*base, *first, *path[1:])
    return None


def _whole(job: LaunchJob) -> Location | None:
    """Location of the key or script line that leads to the config."""
    if (line := job.line_span) is not None:
        return location(job.launch, line)
    return location_of(job.launch, job.inline or tuple(job.key.split(".")))


def _moved(fix: Fix, base: KeyPath) -> Fix:
    return fix._replace(operations=tuple(_below(step, base) for step in fix.operations))


def _below(step: Operation, base: KeyPath) -> Operation:
    if isinstance(step, Replace):  # the text is the same
        return step
    if isinstance(step, Move):
        return Move((*base, *step.path), (*base, *step.to))
    return step._replace(path=(*base, *step.path))


def _offsets(launch: Document, span: Span, text: str) -> list[int]:
    """Offset in the launch file of each character of the text and of its end; empty if the texts differ."""
    start = launch.text.find(text, *span)
    if start >= 0:
        return list(range(start, start + len(text) + 1))
    lines = launch.text[span.start : span.end].splitlines(keepends=True)[1:]  # below the `|`
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    at = span.start + launch.text[span.start :].find("\n") + 1
    found: list[int] = []
    for line in lines:
        found += range(at + min(indent, len(line) - 1), at + len(line))
        at += len(line)
    whole = [*found, at]
    same = "".join(launch.text[each] for each in found).rstrip() == text.rstrip()
    return whole if same and len(whole) > len(text.rstrip()) else []


# -- from the config to the host: edited texts -------------------------------------------------------------

Writer: TypeAlias = Callable[[str], str]
"""Formats the text of a config for a location in a launch file, for example as a JSON string."""


class Embedding(NamedTuple):
    """Location of a config in a launch file, and how to write a text there."""

    launch: Document
    span: Span
    path: KeyPath | None
    """Path of the config; None in a script."""
    first: int
    """Line in the launch file of the config's first line."""
    by_line: bool
    """Whether each line of the config is a line of the launch file."""
    written: Writer

    def line(self, inner: int | None) -> int | None:
        """Translate a line of the config into a line of the launch file."""
        return None if inner is None else self.first + (inner - 1 if self.by_line else 0)

    def put_back(self, text: str) -> str | None:
        """Return the launch file with another config text; None if it would not parse back to exactly that
        config.

        The result is parsed again: an edit must not change any value outside the config.
        """
        launch, wanted = self.launch, _value(text, self.launch.format)
        made = launch.text[: self.span.start] + self.written(text) + launch.text[self.span.end :]
        seen = read_bytes(made.encode("utf-8", "replace"), launch.name, launch.format)
        if self.path is None:
            texts = (job.document for job in jobs_of(seen))
            return made if any(each is not None and each.value() == wanted for each in texts) else None
        before, after = launch.value(), seen.value()
        inner = value_at(after, self.path)
        kept = _value(inner, "json") if isinstance(inner, str) else inner
        same = (
            kept == wanted and not seen.problems and _without(before, self.path) == _without(after, self.path)
        )
        return made if same or (isinstance(inner, str) and _decoded(inner) == wanted) else None


def _embedding(job: LaunchJob, config: Document) -> Embedding | None:
    """Location of the config's text in the launch file; None if it cannot be determined."""
    if config.within is not None and job.inline is not None:
        return _as_a_block(job.launch, job.inline)
    return _as_a_string(job, config.text)


def value_at(data: object, path: KeyPath) -> object:
    """Value at a path in nested mappings; None if absent."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _as_a_block(launch: Document, path: KeyPath) -> Embedding | None:
    """Location of a config that is a mapping in the launch file."""
    span = launch.span(path)
    start = span.start
    if launch.format == "yaml" and launch.text[start] != "{":  # a block mapping: include its first indent
        start = launch.text.rfind("\n", 0, start) + 1
        if launch.text[start : span.start].strip():
            return None
    return Embedding(
        launch,
        Span(start, span.end),
        path,
        launch.position(start).line,
        by_line=True,
        written=lambda new: new,
    )


def _as_a_string(job: LaunchJob, text: str) -> Embedding | None:
    """Location of a config that is a string in the launch file or part of a script."""
    launch = job.launch
    path = None if launch.name.endswith(SCRIPTS) else job.inline
    span = Span(0, len(launch.text)) if path is None else launch.span(path)
    raw = launch.text[span.start : span.end]
    as_lines = _with_ends_of(raw)
    if raw.count(as_lines(text)) == 1 and text.strip():
        start = span.start + raw.find(as_lines(text))
        within = Span(start, start + len(as_lines(text)))
        return Embedding(launch, within, path, launch.position(start).line, by_line=True, written=as_lines)
    if raw.count(encoded := _base64("")(text)) == 1 and job.encoded == "base64":
        start = span.start + raw.find(encoded)
        within = Span(start, start + len(encoded))
        line = launch.position(start).line
        return Embedding(launch, within, path, line, by_line=False, written=_base64(""))
    first = launch.position(span.start).line
    writers: tuple[Writer, ...] = (
        json.dumps,
        _json_as_it_is,
    )
    for writer in writers:
        if writer(text) == raw:
            return Embedding(launch, span, path, first, by_line=False, written=writer)
    block = _block_scalar(raw)
    if launch.format == "yaml" and raw[:1] in ("'", '"'):  # a quoted scalar may span several lines
        return Embedding(launch, span, path, first, by_line=False, written=_in_single_quotes)
    if block is None or block(text) != raw:
        return None
    return Embedding(launch, span, path, first + 1, by_line=True, written=block)


def _with_ends_of(raw: str) -> Writer:
    """Return a function that converts line ends to those of `raw`."""
    newline = "\r\n" if "\r\n" in raw else "\n"
    return lambda text: text.replace("\r\n", "\n").replace("\n", newline)


def _json_as_it_is(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_single_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _base64(quote: str) -> Writer:
    from base64 import urlsafe_b64encode

    return lambda text: f"{quote}{urlsafe_b64encode(text.encode()).decode()}{quote}"


def _block_scalar(raw: str) -> Writer | None:
    """Return a function that writes a text like this YAML block scalar (`|`, `>`); None for another scalar.
    """
    head, newline, body = raw.partition("\n")
    lines = [line for line in body.splitlines(keepends=True) if line.strip()]
    indent = min((line[: len(line) - len(line.lstrip())] for line in lines), key=len, default="")
    if not newline or not indent or head.strip()[:1] not in ("|", ">"):
        return None
    ends, as_lines = "\n" * raw[len(raw.rstrip()) :].count("\n"), _with_ends_of(raw)

    def write(text: str) -> str:
        shifted = (indent + line if line.strip() else line for line in text.splitlines(keepends=True))
        return head + newline + as_lines("".join(shifted).rstrip("\n") + ends)

    return write


def _value(text: object, form: str) -> object:
    if not isinstance(text, str):
        return text
    yaml = form == "yaml" and not text.lstrip().startswith("{")
    return read_text(text, "<config>", "yaml" if yaml else "json").value()


def _decoded(text: str) -> object:
    from dsconfig.launch.launched_job import text_of  # which reads the jobs that lead here

    found = text_of(text)
    return None if found is None else read_bytes(found.data, "<config>").value()


def _without(data: object, path: KeyPath) -> Json:
    """Copy of the data without the value at a path, for comparison."""
    if not isinstance(data, dict) or not path:
        return None
    rest: dict[str, Json] = {key: value for key, value in data.items() if key != path[0]}
    return {**rest, str(path[0]): _without(data.get(path[0]), path[1:])}
