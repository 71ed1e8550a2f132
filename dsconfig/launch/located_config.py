"""Where a config stands: in a file of its own, in a part of a launch file, or where a launch file leads to.

`locate` is the one way from a file that somebody names to the config that its job reads. What `check` finds in
the config is brought to its place in the named file by `LocatedConfig.lift`, and an edited text of the config is
written into that file by `LocatedConfig.put_back`.
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
"""How the host has the config.

`file`: it is the config. `held`: the config stands in it, or its program makes the config of its keys. `named`: the
config is another file. `launch`: it leads to a launch file of Accelerate, which leads on. `block`: Accelerate makes
the config of the launch file's block. `nowhere`: there is none.
"""


class LocatedConfig(NamedTuple):
    """A config, and where it stands in the file that somebody named."""

    host: Document
    """The file that was named: the config itself, a launch file or a script."""
    config: Document | None
    """The config; None where there is none, and where Accelerate makes it of the host's block."""
    how: How
    note: str = ""
    """How the host leads to the config, or why there is none, in words; empty for `file` and `block`."""
    unread: OSError | None = None
    """Why the config that is named cannot be read; None where it can."""
    unlike: str = ""
    """Why a file that the host names is not looked at, in words: it is not like a config."""
    written: str = ""
    """The config's name, as a launch file of Accelerate writes it."""
    why_unread: str = ""
    """Why there is no config of that name, as the end of a sentence."""
    job: LaunchJob | None = None
    """The job that the host describes; None for a config, and for a launch file of Accelerate."""
    reader: Reader | None = None
    """Who reads the config, as the host says; None where the host is the config."""

    def next(self, job: Job) -> LocatedConfig:
        """Where the launch file of Accelerate leads that this one leads to, as the job's Accelerate takes it."""
        assert self.job is not None
        assert self.config is not None
        consumer = job.consumer and job.consumer.value
        version = consumer.version if consumer and consumer.name == "accelerate" else None
        return locate(self.job.config(version) or self.config)

    @property
    def kind(self) -> str:
        """What the host is, where it is not the config itself, as a clause."""
        if self.host.name.endswith(SCRIPTS):
            return "it is a shell script"
        return f"it is a launch file of {self.program or 'Accelerate'}"

    @property
    def program(self) -> str:
        """The program whose launch file the host is; empty for a config."""
        return "" if self.job is None else self.job.format.name

    def path_in_host(self, path: KeyPath) -> KeyPath | None:
        """Where a key of a config that a program makes of its own keys stands in the host; None: it is added."""
        job = self.job
        return _written(self.host, path) if job is not None and job.format.makes == _SAME_KEYS else None

    def lift(self, found: Diagnostic) -> Diagnostic | None:
        """A diagnostic of the config as one of the host, with the host's path and place.

        Where no edit of the host follows from one of the config, the fix stays in words. None where it is about
        what the program of a launch file adds itself, to no harm: nobody wrote that.
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
            todo = (
                f"write `{found.path[0]}` in the launch file: {job.format.name} adds it where that is absent"
            )
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
    """A config as a text of its own that can be edited, and the way back into the file that it stands in."""

    document: Document
    reader: Reader
    world_size: int | None
    note: str
    """How the launch file leads to it, in words."""
    place: Embedding | None = None
    """Where it stands in the launch file; None: it is a file of its own."""


class Named(NamedTuple):
    """A config that a launch file of Accelerate names."""

    written: str
    """Its name, as the launch file writes it."""
    document: Document | None
    """None: there is no such file, seen from here."""
    reader: Reader
    """Who reads it."""
    place: Place
    """Where it was searched."""

    def note(self, launch: str) -> str:
        """What is to be said where there is no such file, or none that may be read."""
        if why := self.place.why_unread:
            return f"{launch}: {self.written} {why}"
        tried = self.place.folders or "here"
        return f"{launch}: {self.written} is not found from {tried}, and not checked"


# -- from the host to the config ---------------------------------------------------------------------------


def locate(host: Document, consumer: str | None = None) -> LocatedConfig:
    """The config that a file is, holds or names. `consumer`: who is said to read it.

    Raises:
        OSError: the config that a launch file names cannot be read.
    """
    if host.format == "python":
        return LocatedConfig(host, host, "file")
    job = job_of(host)
    if job is not None:
        return _of_job(job)
    if not is_launch_file(host.value()):
        return LocatedConfig(host, host, "file")
    try:
        found = named(host, consumer)
    except OSError as error:
        told = f"{host.name}: {error.filename} is not checked: {(error.strerror or str(error)).lower()}"
        return LocatedConfig(host, None, "nowhere", told, error)
    if found is None:
        return LocatedConfig(host, None, "block")
    if found.document is None:
        why = found.place.why_unread or "is not found from here"
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
    if is_launch_file(config.value()):  # a recipe that names a launch file of Accelerate
        return located._replace(how="launch")
    return located._replace(how="held") if job.is_held else located


def linked(launch: Document) -> tuple[str, Place] | None:
    """The config that a launch file of Accelerate names: as it is written, and where that leads to.

    None where it names none, or starts another backend: FSDP does not look at the block.
    """
    data = launch.value()
    if not isinstance(data, dict) or data.get("distributed_type", "DEEPSPEED") != "DEEPSPEED":
        return None
    name = block(data).get(LINK)
    if not isinstance(name, str) or name in ("", "none"):
        return None
    return name, search(name, launch.name)


def named(launch: Document, consumer: str | None = None) -> Named | None:
    """The config that a launch file names; None where it names none. `consumer`: who is said to read it.

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
        # The script may have a Trainer, which fills more than Accelerate alone.
        reader = reader if content.likely else content
    return Named(written, config, reader, place)


def editable(host: Document) -> EditableConfig | None:
    """The config that a launch file leads to, as a text to edit; None where it leads to none or to several.

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
    text = (
        job.launch.text[place.span.start : place.span.end] if config.embedded_at is not None else config.text
    )
    # A name that ends as a script's does would make a script of it.
    name = config.name if job.launch.name.endswith(SCRIPTS) else job.launch.name
    alone = read_text(text, name, "yaml" if config.format == "yaml" else "json")
    if config.embedded_at is not None and alone.value() != value_at(job.launch.value(), job.inline or ()):
        return None  # an alias, say, of what stands elsewhere
    return EditableConfig(alone, reader, job.world_size, job.note, place)


def why_nowhere(host: Document) -> str | None:
    """Why there is no config to judge, where a file is a launch file of one that is not there; else None.

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
    """The files that what is said of a file depends on: itself, what it leads to, what leads to it.

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


# -- from the config to the host: places of diagnostics ----------------------------------------------------


def _is_added(found: Diagnostic, job: LaunchJob) -> bool:
    if job.document is None or not job.document.is_data or not found.path:
        return False
    if job.format.makes == _SAME_KEYS:
        return _written(job.launch, found.path) is None
    return job.format.makes in _OWN_ARGUMENTS and found.severity != "error"


def _can_be_edited(job: LaunchJob, fix: Fix) -> bool:
    config = job.document
    if config is None or not config.is_data:
        return config is not None and config.embedded_at is not None
    steps = fix.operations
    return job.format.makes == _SAME_KEYS and all(
        not isinstance(step, Replace) and job.launch.has_path(step.path) for step in steps
    )


_SAME_KEYS = "neox"
"""The program whose own files have the keys of the config at their root, or under `EXTRA`."""
EXTRA = "deepspeed_extra_args"
_OWN_ARGUMENTS = ("lightning", "openrlhf")
"""Programs that make the whole config of a few arguments: of the rest of it nobody can change anything."""


def _places(job: LaunchJob) -> Callable[[Location | None, KeyPath], Location | None]:
    """Where in the launch file a place of the config is."""
    config, launch, whole = job.document, job.launch, _whole(job)
    if config is not None and config.embedded_at is not None:
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
    """The place of a key, which may be written with hyphens."""
    there = _written(launch, path[:1])
    return None if there is None else location_of(launch, (*there, *path[1:]))


def _written(launch: Document, path: KeyPath) -> KeyPath | None:
    """Where a key of the config stands in a launch file that has the same keys; None: nowhere."""
    for first in (path[:1], tuple(str(part).replace("_", "-") for part in path[:1])):
        for base in ((), (EXTRA,)) if first else ():
            if launch.has_path((*base, *first, *path[1:])):
                return (*base, *first, *path[1:])
    return None


def _whole(job: LaunchJob) -> Location | None:
    """The place that leads to the config: a key, or a line of a script."""
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
    """Where each character of the text stands in the launch file, and its end; empty where not as it is."""
    start = launch.text.find(text, *span)
    if start >= 0:
        return list(range(start, start + len(text) + 1))
    lines = launch.text[span.start : span.end].splitlines(keepends=True)[1:]  # behind the `|` of a block
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
"""Writes a config as it stands in a launch file: as a string of JSON, say."""


class Embedding(NamedTuple):
    """Where a config stands in a launch file, and how a text is written there."""

    launch: Document
    span: Span
    path: KeyPath | None
    """Of a script there is none."""
    first: int
    """The line of the launch file that the config's first line is."""
    by_line: bool
    """Whether each line of the config is a line of the launch file."""
    written: Writer

    def line(self, inner: int | None) -> int | None:
        """The line of the launch file that a line of the config is."""
        return None if inner is None else self.first + (inner - 1 if self.by_line else 0)

    def put_back(self, text: str) -> str | None:
        """The launch file with another text of the config; None where it would not read so, and only so."""
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
    """Where the text of the config stands in the launch file; None where it cannot be told."""
    if config.embedded_at is not None and job.inline is not None:
        return _as_a_block(job.launch, job.inline)
    return _as_a_string(job, config.text)


def value_at(data: object, path: KeyPath) -> object:
    """What stands at a path in data; None where nothing does."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _as_a_block(launch: Document, path: KeyPath) -> Embedding | None:
    """Of a config that is a mapping in the launch file."""
    span = launch.span(path)
    start = span.start
    if launch.format == "yaml" and launch.text[start] != "{":  # with the indent of its first line
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
    """Of a config that is a string in the launch file, or stands in a script."""
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
    if launch.format == "yaml" and raw[:1] in ("'", '"'):  # over several lines, perhaps
        return Embedding(launch, span, path, first, by_line=False, written=_in_single_quotes)
    if block is None or block(text) != raw:
        return None
    return Embedding(launch, span, path, first + 1, by_line=True, written=block)


def _with_ends_of(raw: str) -> Writer:
    """Writes a text with the line ends of another."""
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
    """Writes a text as this block scalar of YAML (`|`, `>`) is written; None where it is none."""
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
    """The data without what stands at a path, for a comparison."""
    if not isinstance(data, dict) or not path:
        return None
    rest: dict[str, Json] = {key: value for key, value in data.items() if key != path[0]}
    return {**rest, str(path[0]): _without(data.get(path[0]), path[1:])}
