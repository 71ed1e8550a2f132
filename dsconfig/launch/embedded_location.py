"""Where a config stands in a launch file, and how another text is written in its place."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.core.json_types import Json, KeyPath
from dsconfig.document import Document, Span, read_bytes, read_text
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.formats import SCRIPTS

if TYPE_CHECKING:
    from dsconfig.launch.job import Job

Writer: TypeAlias = Callable[[str], str]
"""Writes a config as it stands in a launch file: as a string of JSON, say."""


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


def place_of(job: Job, config: Document) -> Place | None:
    """Where the text of the config stands in the launch file; None where it cannot be told."""
    if config.within is not None and job.inline is not None:
        return _as_a_block(job.launch, job.inline)
    return _as_a_string(job, config.text)


def value_at(data: object, path: KeyPath) -> object:
    """What stands at a path in data; None where nothing does."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _as_a_block(launch: Document, path: KeyPath) -> Place | None:
    """Of a config that is a mapping in the launch file."""
    span = launch.span(path)
    start = span.start
    if launch.format == "yaml" and launch.text[start] != "{":  # with the indent of its first line
        start = launch.text.rfind("\n", 0, start) + 1
        if launch.text[start : span.start].strip():
            return None
    return Place(
        launch,
        Span(start, span.end),
        path,
        launch.position(start).line,
        by_line=True,
        written=lambda new: new,
    )


def _as_a_string(job: Job, text: str) -> Place | None:
    """Of a config that is a string in the launch file, or stands in a script."""
    launch = job.launch
    path = None if launch.name.endswith(SCRIPTS) else job.inline
    span = Span(0, len(launch.text)) if path is None else launch.span(path)
    raw = launch.text[span.start : span.end]
    as_lines = _with_ends_of(raw)
    if raw.count(as_lines(text)) == 1 and text.strip():
        start = span.start + raw.find(as_lines(text))
        within = Span(start, start + len(as_lines(text)))
        return Place(launch, within, path, launch.position(start).line, by_line=True, written=as_lines)
    if raw.count(encoded := _base64("")(text)) == 1 and job.encoded == "base64":
        start = span.start + raw.find(encoded)
        within = Span(start, start + len(encoded))
        line = launch.position(start).line
        return Place(launch, within, path, line, by_line=False, written=_base64(""))
    first = launch.position(span.start).line
    writers: tuple[Writer, ...] = (
        json.dumps,
        _json_as_it_is,
    )
    for writer in writers:
        if writer(text) == raw:
            return Place(launch, span, path, first, by_line=False, written=writer)
    block = _block_scalar(raw)
    if launch.format == "yaml" and raw[:1] in ("'", '"'):  # over several lines, perhaps
        return Place(launch, span, path, first, by_line=False, written=_in_single_quotes)
    if block is None or block(text) != raw:
        return None
    return Place(launch, span, path, first + 1, by_line=True, written=block)


def _with_ends_of(raw: str) -> Writer:
    """Writes a text with the line ends of another."""
    newline = "\r\n" if "\r\n" in raw else "\n"
    return lambda text: text.replace("\r\n", "\n").replace("\n", newline)


def _json_as_it_is(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _in_single_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _base64(quote: str) -> Writer:
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
    from dsconfig.launch.job import text_of

    found = text_of(text)
    return None if found is None else read_bytes(found.data, "<config>").value()


def _without(data: object, path: KeyPath) -> Json:
    """The data without what stands at a path, for a comparison."""
    if not isinstance(data, dict) or not path:
        return None
    rest: dict[str, Json] = {key: value for key, value in data.items() if key != path[0]}
    return {**rest, str(path[0]): _without(data.get(path[0]), path[1:])}
