"""The config that a launch file leads to, as a text of its own, and the way back into the file."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.launchers.arguments import with_version
from dsconfig.consumers.launchers.follow import jobs_of
from dsconfig.consumers.launchers.table import SCRIPTS
from dsconfig.document import Document, Span, read_bytes, read_text
from dsconfig.json_types import Json, KeyPath

if TYPE_CHECKING:
    from dsconfig.consumers.launchers.job import Job
    from dsconfig.consumers.reader import Reader


@dataclass(frozen=True, slots=True)
class Held:
    """A config that a launch file names or holds."""

    document: Document
    """The config alone, as a text that can be edited."""
    reader: Reader
    world_size: int | None
    note: str
    """How the launch file leads to it, in words."""
    place: Place | None = None
    """Where it stands in the launch file; None: it is a file of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a config stands in a launch file, and how a text is written there."""

    launch: Document
    span: Span
    path: KeyPath | None
    """Of a script there is none."""
    first: int
    """The line of the launch file that the config's first line is."""
    by_line: bool
    """Whether each line of the config is a line of the launch file."""
    written: Callable[[str], str]

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
        inner = _at(after, self.path)
        kept = _value(inner, "json") if isinstance(inner, str) else inner
        same = (
            kept == wanted and not seen.problems and _without(before, self.path) == _without(after, self.path)
        )
        return made if same or (isinstance(inner, str) and _decoded(inner) == wanted) else None


def held(launch: Document) -> Held | None:
    """The config that a launch file leads to; None where it leads to none or several, or is none.

    Raises:
        OSError: the config cannot be read.
    """
    found = [each for job in jobs_of(launch) if (each := _of(job)) is not None]
    configs = {(each.document.name, each.document.text, each.place and each.place.span) for each in found}
    return found[0] if len(configs) == 1 else None


def _of(job: Job) -> Held | None:
    config = job.document
    if config is None or config.is_data:
        return None
    reader = with_version(job.reader, job.launch.name)
    if not job.is_held:
        deeper = held(config)
        kept = deeper or Held(config, reader, job.world_size, job.note)
        return kept if deeper is None or deeper.place is None else None
    place = _place(job, config)
    if place is None:
        return None
    text = job.launch.text[place.span.start : place.span.end] if config.within is not None else config.text
    # A name that ends as a script's does would make a script of it.
    name = config.name if job.launch.name.endswith(SCRIPTS) else job.launch.name
    alone = read_text(text, name, "yaml" if config.format == "yaml" else "json")
    if config.within is not None and alone.value() != _at(job.launch.value(), job.inline or ()):
        return None  # an alias, say, of what stands elsewhere
    return Held(alone, reader, job.world_size, job.note, place)


def _place(job: Job, config: Document) -> Place | None:
    """Where the text of the config stands in the launch file; None where it cannot be told."""
    launch = job.launch
    if config.within is not None and job.inline is not None:
        span = launch.span(job.inline)
        start = span.start
        if launch.format == "yaml" and launch.text[start] != "{":  # with the indent of its first line
            start = launch.text.rfind("\n", 0, start) + 1
            if launch.text[start : span.start].strip():
                return None
        line = launch.position(start).line
        return Place(launch, Span(start, span.end), job.inline, line, by_line=True, written=str)
    path = None if launch.name.endswith(SCRIPTS) else job.inline
    span = Span(0, len(launch.text)) if path is None else launch.span(path)
    raw = launch.text[span.start : span.end]
    newline = "\r\n" if "\r\n" in raw else "\n"
    as_it_stands = config.text.replace("\r\n", "\n").replace("\n", newline)
    if raw.count(as_it_stands) == 1 and as_it_stands.strip():
        start = span.start + raw.find(as_it_stands)
        line = launch.position(start).line
        within = Span(start, start + len(as_it_stands))
        return Place(launch, within, path, line, by_line=True, written=_with(newline))
    for write, by_line in _ways(raw):
        if write(config.text) == raw:
            line = launch.position(span.start).line + by_line
            return Place(launch, span, path, line, by_line, write)
    return None


def _with(newline: str) -> Callable[[str], str]:
    """How a text is written with these line ends."""
    return lambda text: text.replace("\r\n", "\n").replace("\n", newline)


def _ways(raw: str) -> Iterator[tuple[Callable[[str], str], bool]]:
    """The ways in which a text may be written as a string, and whether each of its lines stays one."""
    yield json.dumps, False
    yield lambda new: json.dumps(new, ensure_ascii=False), False
    for quote in ("", '"', "'"):
        yield lambda new, mark=quote: f"{mark}{urlsafe_b64encode(new.encode()).decode()}{mark}", False  # type: ignore[misc]
    head, newline, body = raw.partition("\n")
    lines, ends_of_lines = body.splitlines(keepends=True), "\r\n" if "\r\n" in raw else "\n"
    indent = min(
        (line[: len(line) - len(line.lstrip())] for line in lines if line.strip()), key=len, default=""
    )
    ends = "\n" * raw[len(raw.rstrip()) :].count("\n")
    if newline and indent and head.strip()[:1] in ("|", ">"):

        def block(new: str) -> str:
            shifted = (indent + line if line.strip() else line for line in new.splitlines(keepends=True))
            lines = "".join(shifted).rstrip("\n") + ends
            return head + newline + _with(ends_of_lines)(lines)

        yield block, True


def _value(text: object, form: str) -> object:
    if not isinstance(text, str):
        return text
    yaml = form == "yaml" and not text.lstrip().startswith("{")
    return read_text(text, "<config>", "yaml" if yaml else "json").value()


def _decoded(text: str) -> object:
    from dsconfig.consumers.launchers.job import text_of

    found = text_of(text)
    return None if found is None else read_bytes(found.data, "<config>").value()


def _at(data: object, path: KeyPath) -> object:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _without(data: object, path: KeyPath) -> Json:
    """The data without what stands at a path, for a comparison."""
    if not isinstance(data, dict) or not path:
        return None
    rest: dict[str, Json] = {key: value for key, value in data.items() if key != path[0]}
    return {**rest, str(path[0]): _without(data.get(path[0]), path[1:])}
