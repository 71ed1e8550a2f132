"""The config that a launch file names, as the programs that are launched read it."""

from __future__ import annotations

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.accelerate_launch_file import LINK, block
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.file_bytes import contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document, read_bytes
from dsconfig.job.consumer import Reader, of_content
from dsconfig.launch.config_search import Place, search


class Named(NamedTuple):
    """A config that a launch file names."""

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


def linked(document: Document) -> tuple[str, Place] | None:
    """The config that a launch file names: as it is written, and where that leads to."""
    data = document.value()
    name = block(data).get(LINK) if isinstance(data, dict) else None
    if not isinstance(name, str) or name in ("", "none"):
        return None
    return name, search(name, document.name)


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
    config = read_bytes(contents(path), path, "json")  # whatever its name says
    if consumer is None and (content := of_content(config.value("json"))).name == "transformers":
        # The script may have a Trainer, which fills more than Accelerate alone.
        reader = reader if content.likely else content
    return Named(written, config, reader, place)
