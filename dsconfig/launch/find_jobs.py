"""From a launch file to its job: every format's way to the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.core.file_bytes import contents
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.json_values import at
from dsconfig.document import Document, read_bytes, read_dict
from dsconfig.launch.format_row import Format
from dsconfig.launch.format_table import SCRIPT, SCRIPTS, format_of
from dsconfig.launch.reading_budget import Budget, SpentError

if TYPE_CHECKING:
    from dsconfig.job.detect_consumer import Given
    from dsconfig.launch.launched_job import Job


def jobs_of(launch: Document, wanted: str | None = None, within: Budget | None = None) -> Iterator[Job]:
    """Every job of a launch file, of which a script may have several.

    `wanted`: the real path of a config; jobs of a script that read another one are left out. `within`: the
    budget of all launch files that are read together.

    Raises:
        OSError: a config cannot be read.
        SpentError: a budget is given, and this is not read within it.
    """
    if not launch.name.endswith(SCRIPTS):
        if within is not None:
            within.spend(len(launch.text))
            if takes_too_much(launch):
                raise SpentError
        job = job_of(launch)
        yield from [job] if job else []
        return
    from dsconfig.launch.script_jobs import jobs_of_commands

    yield from jobs_of_commands(SCRIPT, launch, None, wanted, within)


def takes_too_much(launch: Document) -> bool:
    """Whether the commands of a launch file take more to read than may be spent, so that none is known."""
    data = None if launch.name.endswith(SCRIPTS) else launch.value()
    found = SCRIPT if data is None else format_of(data)
    if found is None or not (data is None or (found.commands and isinstance(data, dict))):
        return False
    from dsconfig.launch.script_jobs import takes_too_much

    return takes_too_much(found, launch, data)


def job_of(launch: Document) -> Job | None:
    """The job of a launch file; None for any other document, and where it uses no DeepSpeed.

    Raises:
        OSError: the config cannot be read.
    """
    if launch.name.endswith(SCRIPTS):
        from dsconfig.launch.script_jobs import of_commands

        return of_commands(SCRIPT, launch, None)
    data = launch.value()
    found = format_of(data)
    if found is None or not isinstance(data, dict):
        return None
    if found.commands:
        from dsconfig.launch.script_jobs import of_commands

        job = of_commands(found, launch, data)
        return job and job._replace(world_size=_world(found, data) or job.world_size)
    return _of_keys(found, launch, data)


def _of_keys(found: Format, launch: Document, data: JsonObject) -> Job | None:
    """The job of a launch file that names its config, or holds it, under a key of its own."""
    # Most configs are no launch file, and pay for none of these.
    from dsconfig.consumers.accelerate_launch_file import BLOCK
    from dsconfig.launch.config_search import installed, search
    from dsconfig.launch.launched_job import Job, text_of
    from dsconfig.launch.passed_path import read_passed
    from dsconfig.launch.training_arguments import constant, exponents, human

    key = next((key for key in found.config if at(data, key)), None)
    if key is None:
        return _of_makers(found, launch, data)
    value, place = at(data, key), tuple(key.split("."))
    if constant(value) is not value:
        value, place = constant(value), (*place, "val")
    told = None if _own_loop(found, launch) else _given(found, launch, data)
    job = Job(found, launch, key, key, None, None, told, _world(found, data))
    if isinstance(value, dict) and found.makes == "plugin":
        made: JsonObject = {"distributed_type": "DEEPSPEED", BLOCK: value}
        return job._replace(document=read_dict(made, f"{launch.name}: {key}"))
    if isinstance(value, dict):
        part = read_dict(value, launch.name) if launch.is_data else launch.part(place)
        if found.numbers != "yaml" and part is not None:
            part = part.read_as(human(value) if found.numbers == "human" else exponents(value))
        return job._replace(document=_overwritten(part, found, data), inline=place)
    if not isinstance(value, str):
        return None
    job = job._replace(written=value)
    if text := text_of(value):
        config = read_bytes(text.data, launch.name)
        return job._replace(document=config, written=key, inline=place, encoded=text.encoded)
    if preset := installed(found.preset, value):
        return job._replace(document=read_passed(contents(preset), preset, found.reader))
    where = search(value, launch.name)
    document = None if where.path is None else read_passed(contents(where.path), where.path, found.reader)
    return job._replace(document=_overwritten(document, found, data), place=where)


def _given(found: Format, launch: Document, data: JsonObject) -> Given:
    """The training arguments of a launch file."""
    from dsconfig.launch.training_arguments import given

    if found.name != "Transformers":
        return given(found, data)
    from dsconfig.launch.recipe_program import given_by_program

    return given_by_program(found, data, launch.name)


def _overwritten(config: Document | None, found: Format, data: Mapping[str, Json]) -> Document | None:
    """The config with what the launch file puts over it."""
    over = at(data, found.overwrites) if found.overwrites else None
    if config is None or not isinstance(over, Mapping):
        return config
    return config.read_as(_merged(config.value(), over))


def _merged(value: Json, over: Mapping[str, Json]) -> Json:
    if not isinstance(value, dict):
        return dict(over)
    inner = {key: _merged(value.get(key), each) for key, each in over.items() if isinstance(each, dict)}
    return {**value, **over, **inner}


def _own_loop(found: Format, launch: Document) -> bool:
    """Whether a program with the Trainer's arguments hands the config to DeepSpeed without a Trainer."""
    if found.name != "Transformers":
        return False
    from dsconfig.launch.config_references import own_loop

    return own_loop(launch.name) is not None


def _of_makers(found: Format, launch: Document, data: Mapping[str, Json]) -> Job | None:
    """The job of a launch file from whose own keys a program makes the config; None where it makes none."""
    from dsconfig.launch.launched_job import Job
    from dsconfig.launch.synthesized import lightning, neox
    from dsconfig.launch.training_arguments import given

    if found.makes == "neox":
        made: JsonObject | None = neox.config(data)
        world = neox.world_size(data)
    elif found.makes == "lightning":
        made, world = lightning.config(data), _world(found, data)
    else:
        return None
    if made is None:
        return None
    document = read_dict(made, launch.name)
    return Job(found, launch, found.made_of, found.made_of, document, None, given(found, data), world)


def _world(found: Format, data: Mapping[str, Json]) -> int | None:
    from math import prod

    needed = (*found.world[:1], *found.needs)
    if not needed or any(at(data, key) is None for key in needed):
        return None
    sizes = [_count(at(data, key)) for key in found.world if at(data, key) is not None]
    return prod(size for size in sizes if size) if all(sizes) else None


def _count(value: Json) -> int | None:
    """A number of ranks or nodes, which an environment has as text; None where only the run shows it."""
    if isinstance(value, str) and value.isdecimal() and len(value) < _MOST_DIGITS:
        value = int(value)
    return value if type(value) is int and value > 0 else None


_MOST_DIGITS = 10
