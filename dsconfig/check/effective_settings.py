"""Settings in force for a file: options, environment, nearest settings file, and the rules selected."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

from dsconfig.check.build_job import arguments, asked_model, build_job
from dsconfig.check.discover import excluded
from dsconfig.check.rule_selector import Layer, UnknownRuleError, catalogue, expand, selected
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.releases import Origin, Target, UnknownReleaseError
from dsconfig.core.releases import resolve as resolve_target
from dsconfig.job.detect_consumer import LaunchArguments, Reader, named_consumer
from dsconfig.job.job import Fact, Job, job_of_reader, layer
from dsconfig.job.run_facts import Model, RunFacts, find_named_model
from dsconfig.job.settings_file import Settings, SettingsFileError, find_settings
from dsconfig.launch.located_config import LocatedConfig

# What is in force for a file: what is asked for, else the environment, else settings, else the defaults.


class Options(NamedTuple):
    """Everything that checking files needs to know. Those of a run are those of the working directory."""

    asked: Asked
    nearest: Nearest
    settings: Settings
    target: Target
    world_size: int | None
    reader: Reader | None
    """Who reads the files, where the command line or the settings say so."""
    known: tuple[RunFacts, RunFacts]
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
        return named_consumer(asked.consumer)
    named = settings.consumer
    return None if named is None else named_consumer(named, f"{settings.where}: consumer", "settings")


def known_of(asked: Asked, settings: Settings) -> tuple[RunFacts, RunFacts]:
    """The model and the hosts, as somebody asks and as the settings say."""
    model = None if asked.model is None else _asked_for(asked, asked.model)
    first = RunFacts(model, asked.host_memory, asked.gpus_per_node)
    model = None
    if settings.model is not None:
        folder = os.path.relpath(os.path.dirname(settings.path)) if settings.path else ""
        folder = "" if folder == os.curdir else folder
        why = f"as {settings.where} says"
        model = find_named_model(settings.path or "<settings>", settings.model, folder, why, "settings")
    return first, RunFacts(model, settings.host_memory, settings.gpus_per_node)


def _asked_for(asked: Asked, named: str) -> Model:
    """The model that somebody asks for, which has to be there."""
    try:
        return asked_model(named)
    except ValueError as error:
        asked.refuse(f"model: {error}")


def layers(
    asked: Asked, settings: Settings, target: Target, reader: Reader | None, known: tuple[RunFacts, RunFacts]
) -> tuple[Job, Job]:
    """What is asked for, and what the settings say, as layers of a job."""
    found = Fact(target, target.origin, target.text)
    who = None if reader is None else job_of_reader(reader).consumer
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


def _arguments(asked: Asked) -> Fact[LaunchArguments] | None:
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


# What is asked for beside the settings: by the command line, or by an editor.

Names: TypeAlias = "Sequence[str] | None"
Pairs: TypeAlias = "Sequence[tuple[str, Sequence[str]]] | None"


class Asked(NamedTuple):
    """None, or False, where nothing is asked for; and how to say what is wrong, or only of note."""

    refuse: Callable[[str], NoReturn]
    note: Callable[[str], object]
    target: str | None = None
    world_size: int | None = None
    consumer: str | None = None
    select: Names = None
    ignore: Names = None
    extend_select: Names = None
    fixable: Names = None
    unfixable: Names = None
    per_file_ignores: Pairs = None
    extend_per_file_ignores: Pairs = None
    exclude: Names = None
    extend_exclude: Names = None
    fail_on: str | None = None
    min_severity: str | None = None
    no_ignores: bool = False
    force_exclude: bool = False
    verbose: bool = False
    stdin_filename: str | None = None
    model: str | None = None
    launch: str | None = None
    training_args: str | None = None
    host_memory: int | None = None
    gpus_per_node: int | None = None


# Which settings count for a file: the nearest, or the only ones.


class Nearest:
    """The settings of a run, each file of them read once."""

    def __init__(self, asked: Asked, only: Settings | None = None) -> None:
        self._found: dict[str, Settings] = {}
        self._told: set[str] = set()
        self._asked, self._only = asked, only
        self.here = self.below(os.getcwd())

    @property
    def paths(self) -> set[str]:
        """The settings files that were read."""
        return {found.path for found in (*self._found.values(), self.here) if found.path}

    def below(self, folder: str) -> Settings:
        """The settings for a folder; what cannot be understood ends the run."""
        if self._only is not None:
            return self._only
        if folder not in self._found:
            try:
                self._found[folder] = find_settings(folder)
            except SettingsFileError as error:
                self._asked.refuse(str(error))
            for line in self._found[folder].unused:
                if line not in self._told:
                    self._told.add(line)
                    self._asked.note(line)
        return self._found[folder]

    def of(self, name: str) -> tuple[Settings, list[Settings]]:
        """The settings for a file, and the overrides among them that name it."""
        found = self.here if name.startswith("<") else self.below(os.path.dirname(os.path.abspath(name)))
        settings = found if found.path else self.here
        return settings, [each for each in settings.overrides if excluded(name, settings.root, each.files)]

    def said_of(self, name: str) -> Settings:
        """What the settings say of one file."""
        return merged(*self.of(name))


def merged(settings: Settings, overrides: Sequence[Settings]) -> Settings:
    """The settings with what overrides say instead, and what they exclude and ignore besides."""
    said = settings
    for each in overrides:
        changed = {key: value for key, value in each._asdict().items() if value not in (None, ())}
        for key in ("exclude", "extend_exclude", "per_file_ignores"):
            changed[key] = (*getattr(said, key), *getattr(each, key))
        said = said._replace(**changed)
    return said


# Which rules speak of which file, and which findings are fixed: settings, then what is asked for.


class Selection(NamedTuple):
    """The codes of the rules that are switched off, and of those whose findings are not fixed."""

    off: frozenset[str]
    unfixable: frozenset[str]
    per_file: tuple[tuple[str, str, frozenset[str]], ...]
    """A folder, a pattern relative to it, and the rules that are switched off in the files that it names."""

    def off_in(self, name: str) -> frozenset[str]:
        """The rules that do not speak of a file."""
        hits = (codes for root, pattern, codes in self.per_file if excluded(name, root, (pattern,)))
        return self.off.union(*hits)


def selection(asked: Asked, settings: Settings, overrides: Sequence[Settings], said: Settings) -> Selection:
    """What is chosen; with `--no-ignores` the settings switch off nothing.

    Raises:
        UnknownRuleError: a selector names no rule.
    """
    rules = catalogue()
    layers = (settings, *overrides)
    chosen = (
        *(
            Layer(f"{each.where}: ", each.select, () if asked.no_ignores else each.ignore, each.extend_select)
            for each in layers
        ),
        Layer("--", asked.select, asked.ignore or (), asked.extend_select or ()),
    )
    words = ("fixable", "", "unfixable")
    fixed = (
        *(Layer(f"{each.where}: ", each.fixable, each.unfixable, words=words) for each in layers),
        Layer("--", asked.fixable, asked.unfixable or (), words=words),
    )
    every = frozenset(rules)
    return Selection(every - selected(chosen, rules), every - selected(fixed, rules), _per_file(asked, said))


def _per_file(asked: Asked, said: Settings) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """`--per-file-ignores` stands for those of the settings; what extends them holds in any case."""
    rules = catalogue()
    ours = () if asked.no_ignores or asked.per_file_ignores is not None else said.per_file_ignores
    where = f"{said.where}: per-file-ignores"
    given = (
        ("per-file-ignores", asked.per_file_ignores),
        ("extend-per-file-ignores", asked.extend_per_file_ignores),
    )
    return (
        *((said.root, pattern, expand(names, rules, where)) for pattern, names in ours),
        *(
            (os.getcwd(), pattern, expand(names, rules, f"--{option}"))
            for option, pairs in given
            for pattern, names in pairs or ()
        ),
    )
