"""What is in force for a file: what is asked for, else the environment, else settings, else the defaults."""

from __future__ import annotations

import os

from dsconfig.check.discover import excluded
from dsconfig.check.overrides import Asked
from dsconfig.check.rule_selection import Selection, selection
from dsconfig.check.rule_selector import UnknownRuleError
from dsconfig.check.scope import Circumstances, asked_model, find_out, of_file, with_known
from dsconfig.check.settings_resolver import Nearest, merged
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import Origin, Target, UnknownReleaseError
from dsconfig.core.releases import resolve as resolve_target
from dsconfig.document import Document
from dsconfig.job.consumer import Reader, given
from dsconfig.job.dsconfig_block import declared
from dsconfig.job.run_facts import NOTHING, Known, Model, named_in
from dsconfig.job.settings import Settings
from dsconfig.launch.job_arguments import informed


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


def judged_under(
    document: Document,
    target: Target,
    world_size: int | None,
    configured: int | None,
    reader: Reader | None,
    known: tuple[Known, Known] = (NOTHING, NOTHING),
) -> Circumstances:
    """The circumstances of a document: what it says of itself stands between arguments and settings."""
    asked = target.origin in ("argument", "environment")
    said = reader is not None and reader.origin == "argument"
    found = informed(reader, document.name) if reader and said else find_out(document, reader)
    return Circumstances(
        target if asked else of_file(document) or target,
        world_size or declared(document.value()).world_size or configured,
        with_known(found, document, *known),
    )


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
