"""What is in force for a file: what is asked for, else the environment, else settings, else the defaults."""

from __future__ import annotations

import os

from dsconfig.check.build_job import arguments, asked_model, build_job
from dsconfig.check.discover import excluded
from dsconfig.check.nearest_settings import Nearest, merged
from dsconfig.check.requested_options import Asked
from dsconfig.check.rule_selection import Selection, selection
from dsconfig.check.rule_selector import UnknownRuleError
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import Origin, Target, UnknownReleaseError
from dsconfig.core.releases import resolve as resolve_target
from dsconfig.job.detect_consumer import Given, Reader, given
from dsconfig.job.job import Fact, Job, layer, of_reader
from dsconfig.job.run_facts import Known, Model, named_in
from dsconfig.job.settings_file import Settings
from dsconfig.launch.located_config import LocatedConfig


class Options(NamedTuple):
    """Everything that checking files needs to know. Those of a run are those of the working directory."""

    asked: Asked
    nearest: Nearest
    settings: Settings
    target: Target
    world_size: int | None
    reader: Reader | None
    """Who reads the files, where the command line or the settings say so."""
    known: tuple[Known, Known]
    """The model and the hosts: as somebody asks, and as the settings say."""
    fail_on: str
    min_severity: str
    rules: Selection
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    """Patterns of what is passed over, by the folder that they are relative to."""
    stdin_name: str
    cache: dict[object, Options]

    def of(self, name: str) -> Options:
        """The options for one file: its folder's nearest settings count, and what they say of its path."""
        settings, overrides = self.nearest.of(name)
        key = (settings.path, *map(id, overrides))
        if key not in self.cache:
            self.cache[key] = _options(self.asked, self.nearest, settings, overrides, self.cache)
        return self.cache[key]

    def job(self, located: LocatedConfig) -> Job:
        """The job of a config, by these options."""
        return build_job(located, *layers(self.asked, self.settings, self.target, self.reader, self.known))

    def excludes(self, path: str) -> bool:
        """Whether a file or folder is to be passed over."""
        return any(excluded(path, root, patterns) for root, patterns in self.excluded)


def options(asked: Asked, nearest: Nearest) -> Options:
    """The options of the working directory, which lead to those of every file."""
    return _options(asked, nearest, nearest.here, [], {})


def _options(
    asked: Asked,
    nearest: Nearest,
    settings: Settings,
    overrides: list[Settings],
    cache: dict[object, Options],
) -> Options:
    said = merged(settings, overrides)
    try:
        target = target_of(asked, said)
        rules = selection(asked, settings, overrides, said)
    except (UnknownReleaseError, UnknownRuleError) as error:
        asked.refuse(str(error))
    return Options(
        asked=asked,
        nearest=nearest,
        settings=said,
        target=target,
        world_size=asked.world_size or said.world_size,
        reader=reader_of(asked, said),
        known=known_of(asked, said),
        fail_on=asked.fail_on or said.fail_on or "warning",
        min_severity=asked.min_severity or said.min_severity or "info",
        rules=rules,
        excluded=_excluded(asked, said),
        stdin_name=asked.stdin_filename or "<stdin>",
        cache=cache,
    )


def _excluded(asked: Asked, said: Settings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`--exclude` stands for the settings' `exclude`; what extends it holds in any case."""
    ours = said.extend_exclude if asked.exclude is not None else (*said.exclude, *said.extend_exclude)
    return (said.root, ours), (os.getcwd(), (*(asked.exclude or ()), *(asked.extend_exclude or ())))


def reader_of(asked: Asked, settings: Settings) -> Reader | None:
    """Who reads the files, where somebody says so."""
    if asked.consumer is not None:
        return given(asked.consumer)
    named = settings.consumer
    return None if named is None else given(named, f"{settings.where}: consumer", "settings")


def known_of(asked: Asked, settings: Settings) -> tuple[Known, Known]:
    """The model and the hosts, as somebody asks and as the settings say."""
    model = None if asked.model is None else _asked_for(asked, asked.model)
    first = Known(model, asked.host_memory, asked.gpus_per_node)
    model = None
    if settings.model is not None:
        folder = os.path.relpath(os.path.dirname(settings.path)) if settings.path else ""
        folder = "" if folder == os.curdir else folder
        why = f"as {settings.where} says"
        model = named_in(settings.path or "<settings>", settings.model, folder, why, "settings")
    return first, Known(model, settings.host_memory, settings.gpus_per_node)


def _asked_for(asked: Asked, named: str) -> Model:
    """The model that somebody asks for, which has to be there."""
    try:
        return asked_model(named)
    except ValueError as error:
        asked.refuse(f"model: {error}")


def layers(
    asked: Asked, settings: Settings, target: Target, reader: Reader | None, known: tuple[Known, Known]
) -> tuple[Job, Job]:
    """What is asked for, and what the settings say, as layers of a job."""
    found = Fact(target, target.origin, target.text)
    who = None if reader is None else of_reader(reader).consumer
    is_asked, is_set = target.origin in ("argument", "environment"), target.origin == "settings"
    first, second = known
    said = layer(first, "argument", "as asked for")._replace(
        target=found if is_asked else None,
        consumer=who if who and who.origin == "argument" else None,
        world_size=None if asked.world_size is None else Fact(asked.world_size, "argument", "--world-size"),
        arguments=_arguments(asked),
        launch=None if asked.launch is None else Fact(asked.launch, "argument", "--launch"),
    )
    size = None if settings.world_size is None else Fact(settings.world_size, "settings", settings.where)
    configured = layer(second, "settings", settings.where)._replace(
        target=found if is_set else None,
        consumer=who if who and who.origin == "settings" else None,
        world_size=size,
    )
    return said, configured


def _arguments(asked: Asked) -> Fact[Given] | None:
    """The training arguments that are asked for, which have to be there."""
    try:
        return arguments(asked.training_args)
    except OSError as error:
        asked.refuse(f"{error.filename}: {(error.strerror or str(error)).lower()}")
    except ValueError as error:
        asked.refuse(str(error))


def target_of(asked: Asked, settings: Settings) -> Target:
    """The releases that files are checked against, as long as they say nothing else themselves.

    Raises:
        UnknownReleaseError: they are none; the text says who asks for them.
    """
    environment = os.environ.get("DSCONFIG_TARGET")
    if asked.target is not None:
        return resolve_target(asked.target, "argument")
    if environment:
        return _resolved(environment, "environment", "DSCONFIG_TARGET")
    if settings.target is not None:
        return _resolved(settings.target, "settings", f"{settings.where}: target")
    return resolve_target(None)


def _resolved(text: str, origin: Origin, where: str) -> Target:
    try:
        return resolve_target(text, origin)
    except UnknownReleaseError as error:
        raise UnknownReleaseError(f"{where}: {error}") from None
