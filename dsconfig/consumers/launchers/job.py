"""A job as its launch file describes it: the config, who reads it, and with which training arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dsconfig.consumers.by_name import BY_NAME
from dsconfig.consumers.launchers.command import SCRIPTS, command_in
from dsconfig.consumers.launchers.places import Place, installed, search
from dsconfig.consumers.launchers.table import SCRIPT, Format, at, format_of
from dsconfig.consumers.mentions import reader_of
from dsconfig.consumers.reader import Reader
from dsconfig.document import MAX_SIZE, Document, read_bytes, read_dict
from dsconfig.json_types import Json, JsonObject, KeyPath


class Given(NamedTuple):
    """Training arguments that a launch file gives, and the names of those that only a run shows."""

    arguments: Mapping[str, Json]
    unknown: frozenset[str] = frozenset()


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
    given: Given
    world_size: int | None
    inline: KeyPath | None = None
    """Where the config itself stands in the launch file, if it does."""

    @property
    def reader(self) -> Reader:
        """Who reads the config."""
        name = self.launch.name if self.inline is None else "it"
        return Reader(self.format.reader, f"{name} is a launch file of {self.format.name}", "launch file")

    @property
    def note(self) -> str:
        """What is to be said of the way to the config."""
        where = f"{self.launch.name}{_line(self.launch, self.key)}"
        if self.inline is not None:
            return f"{where}: {self.format.name} reads the config that stands here"
        if self.document is None:
            if "$" in self.written:
                return f"{where}: `{self.written}` is known to the job's shell alone, and not checked"
            if self.place is None or not self.place.tried:
                return f"{where}: `{self.written}` is not there, and not checked"
            return (
                f"{where}: `{self.written}` is not found from {self.place.folders}, and not checked: "
                "it counts from the folder in which the job is started"
            )
        if self.place is None or not self.place.tried:
            return f"{where}: {self.format.name} reads `{self.written}`"
        return f"{where}: {self.format.name} reads {self.document.name}, found from {self.place.folder}"


def job_of(launch: Document) -> Job | None:
    """The job of a launch file; None for any other document, and where it uses no DeepSpeed.

    Raises:
        OSError: the config cannot be read.
    """
    if launch.name.endswith(SCRIPTS):
        return _of_commands(SCRIPT, launch, launch.text)
    data = launch.value()
    found = format_of(data)
    if found is None or not isinstance(data, dict):
        return None
    if found.commands:
        text = "\n".join(line for key in found.commands for line in _texts(at(data, key)))
        job = _of_commands(found, launch, text)
        return job and job._replace(world_size=job.world_size or _world(found, data))
    key = next((key for key in found.config if at(data, key)), None)
    if key is None:
        return None
    value, place = at(data, key), tuple(key.split("."))
    if _constant(value) is not value:
        value, place = _constant(value), (*place, "val")
    job = Job(found, launch, key, key, None, None, _given(found, data), _world(found, data))
    if isinstance(value, dict):
        part = read_dict(value, launch.name) if launch.is_data else launch.part(place)
        return job._replace(document=part, inline=place)
    if not isinstance(value, str):
        return None
    job = job._replace(written=value)
    if value.lstrip().startswith("{"):
        return job._replace(document=read_bytes(value.encode(), launch.name), written=key, inline=place)
    if preset := installed(found.preset, value):
        return job._replace(document=_read(preset))
    where = search(value, launch.name)
    return job._replace(document=None if where.path is None else _read(where.path), place=where)


def _of_commands(found: Format, launch: Document, text: str) -> Job | None:
    """The job of a command that names a config."""
    command = command_in(text)
    if command is None:
        return None
    place = search(command.path, launch.name)
    document = None if place.path is None else _read(place.path)
    reader = command.reader
    if reader == "transformers" and place.path:  # its program may be known, and read the file itself
        reader = (reader_of(place.path, Reader(reader, "", "script")) or Reader(reader, "", "script")).name
    known = BY_NAME["transformers"].defaults
    given = {name: _plain(value) for name, value in command.arguments.items() if name in known}
    told = found._replace(reader=reader)
    return Job(told, launch, command.path, command.flag, document, place, Given(given), command.world_size)


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value; the words of a list are one command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        yield " ".join(map(str, value))
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _read(path: str) -> Document:
    with open(path, "rb") as file:
        data = file.read(MAX_SIZE + 1)
    # The Trainer and Accelerate take JSON, whatever a file is called; the latter's own files are YAML.
    yaml = path.endswith((".yaml", ".yml")) and not data.lstrip().startswith(b"{")
    return read_bytes(data, path, "yaml" if yaml else "json")


def _line(document: Document, key: str) -> str:
    path = tuple(key.split("."))
    if document.is_data or not document.located(path):
        return ""
    return f":{document.position(document.span(path, 'key').start).line}"


def _world(found: Format, data: Mapping[str, Json]) -> int | None:
    sizes = [at(data, key) for key in found.world]
    known = [size for size in sizes if type(size) is int and size > 0]
    return math.prod(known) if known and isinstance(sizes[0], int) else None


def _given(found: Format, data: JsonObject) -> Given:
    """The training arguments by the Trainer's names."""
    holder = at(data, found.within) if found.within else data
    written: JsonObject = dict(found.defaults)
    known = BY_NAME["transformers"].defaults
    for key, value in holder.items() if isinstance(holder, Mapping) else ():
        name = found.arguments.get(key, key)
        if name in known and value is not None:
            # What is searched for differs from run to run.
            written[name] = None if isinstance(_constant(value), dict | list) else _plain(_constant(value))
    if found.name == "Axolotl" and "gradient_accumulation_steps" not in data:
        batch, micro = data.get("batch_size"), data.get("micro_batch_size")
        if type(batch) is int and type(micro) is int and micro > 0:
            written["gradient_accumulation_steps"] = batch // micro
    unknown = frozenset(name for name, value in written.items() if value is None)
    return Given({name: value for name, value in written.items() if value is not None}, unknown)


def _constant(value: Json) -> Json:
    """A hyperparameter of Determined that is the same in every run, as its value."""
    return value["val"] if isinstance(value, dict) and {"type", "val"} <= value.keys() else value


def _plain(value: Json) -> Json:
    """The value as argparse and OmegaConf take it: `1e-5` is a number, which YAML reads as a text."""
    if not isinstance(value, str):
        return value
    try:
        number = json.loads(value)
    except ValueError:
        pass
    else:
        return number if isinstance(number, int | float) else value
    try:
        return float(value)
    except ValueError:
        return {"true": True, "false": False, "auto": True}.get(value.lower(), value)
