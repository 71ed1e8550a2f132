"""A job as its launch file describes it: the config, who reads it, and with which training arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from dsconfig.consumers.accelerate_launch_file import BLOCK, LINK, block
from dsconfig.consumers.consumer_versions import does
from dsconfig.core.json_types import Json, JsonObject, KeyPath, NamedTuple
from dsconfig.document import Document, Span
from dsconfig.job.detect_consumer import Given, Reader
from dsconfig.job.run_facts import Known, Model
from dsconfig.launch.config_search import Place, is_name
from dsconfig.launch.format_row import Format
from dsconfig.launch.process_count import Processes


class Job(NamedTuple):
    """What a launch file leads to."""

    format: Format
    launch: Document
    written: str
    """The path, preset, or dotted key of the config."""
    key: str
    """Where that stands in the launch file, dotted."""
    document: Document | None
    """The config; None where it is not found."""
    place: Place | None
    """Where it was searched; None for a preset, and for a config in the launch file itself."""
    given: Given | None
    """The training arguments; None where nothing compares them with the config."""
    world_size: int | None
    inline: KeyPath | None = None
    """Where the config itself stands in the launch file, if it does."""
    line: int | None = None
    """Where in a script that is; None: where the key is."""
    arguments: Mapping[str, Json] | None = None
    """The flags of its command; None where the launch file's keys are the arguments."""
    encoded: str | None = None
    """How the config itself stands where a path could: `json_text` or `base64`, changes of `versions`."""
    flags: Mapping[str, Json] = MappingProxyType({})
    """Flags of its command that are keys of the block in Accelerate's launch file, which it names."""
    is_written_by_script: bool = False
    """Whether the job's script writes the config itself."""
    is_too_long: bool = False
    """Whether what the script writes is longer than any config."""
    is_template: bool = False
    """Whether the script makes the config of another file, by editing its text."""
    processes: Processes = Processes(None)
    """How many processes its command starts, and what leaves that to the run."""
    program_file: str = ""
    """The Python program that its command starts, as it is written."""
    folder: str = ""
    """Where its script has gone before."""
    others: tuple[str, ...] = ()
    """Who else may read the config, as far as its program tells."""
    why: str = ""
    """What of its program says so, as a clause."""

    @property
    def is_held(self) -> bool:
        """Whether the config is not a file of its own: it stands in the launch file, or is made of it."""
        config = self.document
        own = config is not None and config.name.startswith(f"{self.launch.name}: ")
        return config is not None and (self.inline is not None or config.is_data or own)

    @property
    def is_from_file(self) -> bool:
        """Whether another file's text is the config, or became it."""
        return self.document is not None and (self.is_template or not self.is_held)

    def config(self, version: str | None) -> Document | None:
        """The config, or Accelerate's launch file as a version of Accelerate takes it beside its flags.

        Source: accelerate commands/launch.py:_validate_launch_command.
        """
        data = self.document.value() if self.document and self.flags else None
        if self.document is None or not isinstance(data, dict):
            return self.document
        written, flags = block(data), dict(self.flags)
        precision = flags.pop("mixed_precision", None)
        if LINK in written:  # beside which flags count for nothing
            kept = {key: value for key, value in data.items() if key != "mixed_precision" or not precision}
            return self.document.read_as(kept)
        precision = data.get("mixed_precision") if precision is None else precision
        kept = written | flags if does("flags_first", "accelerate", version) else flags | written
        made: JsonObject = {**data, BLOCK: kept}
        return self.document.read_as(made if precision is None else {**made, "mixed_precision": precision})

    @property
    def reader(self) -> Reader:
        """Who reads the config."""
        name = "it" if self.is_held else self.launch.name
        why = f"{name} is a launch file of {self.format.name}"
        if self.why:
            why = f"{why}, {self.why}"
        likely = bool(self.others)
        return Reader(self.format.reader, why, "launch file", likely, known=self.known, others=self.others)

    @property
    def known(self) -> Known:
        """The model that it trains, where that is on disk."""
        from dsconfig.launch.model_argument import found_from, named, trains_parts
        from dsconfig.launch.parallelism import parallelism

        data = self.launch.value() if self.arguments is None else self.arguments
        written = named(data)
        found = written and found_from(written, self.launch.name)
        name = self.launch.name if self.launch.name.startswith("<") else os.path.relpath(self.launch.name)
        model = Model(found, f"which {name} names", "launch file") if found else None
        return Known(
            model,
            program=self.format.name,
            adapters=trains_parts(data, self.format.name),
            parallelism=parallelism(self),
        )

    def left_open(self, world_size: int | None) -> list[str]:
        """Say what of the batch only a run shows, a line each. `world_size`: that of the job, if known."""
        line = "" if self.line is None else f":{self.line}"
        where, lines = f"{self.launch.name}{line}", list[str]()
        if world_size is None and self.processes.open:
            words = " and ".join(f"`{word}`" for word in self.processes.open)
            lines.append(f"{where} leaves the number of ranks to the run: {words}; give --world-size")
        if (degree := self.known.parallelism.unknown) is not None:
            lines.append(f"the data-parallel size is not known: {degree}; the batch is not checked")
        return lines

    @property
    def line_span(self) -> Span | None:
        """Where its command stands in a script; None in any other launch file, which has keys."""
        if self.line is None:
            return None
        lines = self.launch.text.split("\n")[: self.line]
        end = len("\n".join(lines))
        return Span(end - len(lines[-1]), end)

    @property
    def note(self) -> str:
        """What is to be said of the way to the config."""
        line = line_of(self.launch, self.key) if self.line is None else f":{self.line}"
        where = f"{self.launch.name}{line}"
        if self.inline is not None:
            return f"{where}: {self.format.name} reads the config that stands here"
        if self.is_too_long:
            return f"{where}: what the script writes into `{self.written}` is too long, and not read"
        if self.document is None:
            if "$" in self.written or self.is_written_by_script:
                return f"{where}: `{self.written}` is known to the job's shell alone, and not checked"
            if self.place is not None and (why := self.place.why_unread):
                return f"{where}: `{self.written}` {why}"
            if self.place is None or not self.place.tried:
                return f"{where}: `{self.written}` is not there, and not checked"
            if self.format.preset and is_name(self.written):
                preset = f"`{self.written}` is a preset of {self.format.name}"
                return f"{where}: {preset}, which is not installed here, and not checked"
            return (
                f"{where}: `{self.written}` is not found from {self.place.folders}, and not checked: "
                "it counts from the folder in which the job is started"
            )
        if self.encoded is not None:
            return f"{where}: {self.format.name} reads the config that stands behind `{self.written}`"
        if self.place is None or not self.place.tried:
            made = self.format.makes and self.document.is_data
            return f"{where}: {self.format.name} " + (
                "makes the config" if made else f"reads `{self.written}`"
            )
        found = f"{self.document.name}, found from {self.place.folder}"
        if "$" in self.written or self.written.startswith("/"):
            found += f" for `{self.written}`"
        return f"{where}: {self.format.name} reads {found}"


class Text(NamedTuple):
    """A config that stands where a path could: its bytes, and the name of the way it is written."""

    data: bytes
    encoded: str


def text_of(written: str) -> Text | None:
    """The config that a word itself is; None where it is a path."""
    if written.lstrip().startswith("{"):
        return Text(written.encode("utf-8", "replace"), "json_text")
    if len(written) < _SHORTEST or not _BASE64.fullmatch(written):
        return None
    from base64 import urlsafe_b64decode

    try:
        data = urlsafe_b64decode(written)
    except ValueError:
        return None
    return Text(data, "base64") if data.lstrip().startswith(b"{") else None


_BASE64 = re.compile(r"[\w-]+={0,2}", re.ASCII)
_SHORTEST = 8


def line_of(document: Document, key: str) -> str:
    """The line of a key, as it follows a file's name; empty where it has none."""
    path = tuple(key.split("."))
    if document.is_data or not document.located(path):
        return ""
    return f":{document.position(document.span(path, 'key').start).line}"
