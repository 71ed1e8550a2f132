"""The config that a launch file leads to, as a text of its own, and the way back into the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.accelerate_launch_file import is_launch_file
from dsconfig.document import Document, read_text
from dsconfig.launch import detect_config
from dsconfig.launch.config_references import launchers_of
from dsconfig.launch.embedded_location import Place, place_of, value_at
from dsconfig.launch.find_jobs import jobs_of
from dsconfig.launch.formats import SCRIPTS
from dsconfig.launch.job_arguments import with_version
from dsconfig.launch.linked_config import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsconfig.job.consumer import Reader
    from dsconfig.launch.job import Job


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


def held(launch: Document) -> Held | None:
    """The config that a launch file leads to; None where it leads to none or several, or is none.

    Raises:
        OSError: the config cannot be read.
    """
    found = [each for job in jobs_of(launch) if (each := _of(job)) is not None]
    configs = {(each.document.name, each.document.text, each.place and each.place.span) for each in found}
    return found[0] if len(configs) == 1 else None


def files_behind(document: Document) -> Iterator[str]:
    """The files that what is said of a document depends on: itself, what it leads to, what leads to it.

    Raises:
        OSError: a config cannot be read.
    """
    yield document.name
    if not document.name.startswith("<"):
        yield from launchers_of(document.name)
    for job in jobs_of(document):
        if job.document is not None and job.place is not None and job.place.path is not None:
            yield job.place.path
            yield from (each.document.name for each in (named(job.document),) if each and each.document)
    if is_launch_file(document.value()) and (found := named(document)) and found.document is not None:
        yield found.document.name


def leads_nowhere(document: Document) -> str | None:
    """Why there is no config to judge, where a document is a launch file of one that is not there; else None.

    Raises:
        OSError: a config cannot be read.
    """
    for job in (jobs := list(jobs_of(document))):
        if job.document is not None:
            why = detect_config.why_unlike(job.document) if job.is_from_file else None
            return why or (None if job.is_held else leads_nowhere(job.document))
    if jobs:
        return jobs[0].note
    if is_launch_file(document.value()) and (found := named(document)) and found.document is None:
        return found.note(document.name)
    return None


def _of(job: Job) -> Held | None:
    config = job.document
    if config is None or config.is_data or (job.is_from_file and detect_config.why_unlike(config)):
        return None
    reader = with_version(job.reader, job.launch.name)
    if not job.is_held:
        deeper = held(config)
        kept = deeper or Held(config, reader, job.world_size, job.note)
        return kept if deeper is None or deeper.place is None else None
    place = place_of(job, config)
    if place is None:
        return None
    text = job.launch.text[place.span.start : place.span.end] if config.within is not None else config.text
    # A name that ends as a script's does would make a script of it.
    name = config.name if job.launch.name.endswith(SCRIPTS) else job.launch.name
    alone = read_text(text, name, "yaml" if config.format == "yaml" else "json")
    if config.within is not None and alone.value() != value_at(job.launch.value(), job.inline or ()):
        return None  # an alias, say, of what stands elsewhere
    return Held(alone, reader, job.world_size, job.note, place)
