"""What is in force: the command line, else the environment, else settings, else the defaults."""

from __future__ import annotations

import argparse
import json
import os
from functools import cache
from typing import NamedTuple

from dsconfig.checking.circumstances import Circumstances, find_out, foreign, of_file
from dsconfig.checking.discover import excluded
from dsconfig.checking.select import Layer, UnknownRuleError, catalogue, expand, selected
from dsconfig.cli.errors import note, refuse
from dsconfig.consumers.launchers.arguments import with_arguments
from dsconfig.consumers.own_words import declared
from dsconfig.consumers.reader import Reader, given
from dsconfig.document import Document
from dsconfig.releases import Origin, Target, UnknownReleaseError
from dsconfig.releases import resolve as resolve_target
from dsconfig.settings import Settings, SettingsFileError, find


class Options(NamedTuple):
    """Everything that checking files needs to know. Those of a run are those of the working directory."""

    args: argparse.Namespace
    cwd: Settings
    """The settings of the working directory, for files that have none nearer."""
    settings: Settings
    target: Target
    world_size: int | None
    reader: Reader | None
    """Who reads the files, where the command line or the settings say so."""
    fail_on: str
    off: frozenset[str]
    per_file_ignores: tuple[tuple[str, frozenset[str]], ...]
    stdin_name: str
    cache: dict[object, Options]

    def of(self, name: str) -> Options:
        """The options for one file: its folder's nearest settings count, and what they say of its path."""
        settings, overrides = _settings_of(name, self.cwd)
        key = (settings.path, *map(id, overrides))
        if key not in self.cache:
            self.cache[key] = _options(self.args, settings, overrides, self.cache)
        return self.cache[key]


def resolve(args: argparse.Namespace) -> Options:
    """The options of a run; an unknown release, rule or setting ends it."""
    _found.cache_clear()
    _note_once.cache_clear()
    return _options(args, _found(os.getcwd()), [], {})


@cache
def _found(folder: str) -> Settings:
    try:
        settings = find(folder)
    except SettingsFileError as error:
        refuse(str(error))
    for line in settings.passed_over:
        _note_once(line)
    return settings


_note_once = cache(note)


def _options(
    args: argparse.Namespace, settings: Settings, overrides: list[Settings], cache: dict[object, Options]
) -> Options:
    said = _merged(settings, overrides)
    try:
        target = _target(args.target, said)
        off, per_file = _rules(args, settings, overrides)
    except (UnknownReleaseError, UnknownRuleError) as error:
        refuse(str(error))
    return Options(
        args=args,
        cwd=_found(os.getcwd()),
        settings=said,
        target=target,
        world_size=args.world_size or said.world_size,
        reader=_reader(args.consumer, said),
        fail_on=args.fail_on or said.fail_on or "warning",
        off=off,
        per_file_ignores=per_file,
        stdin_name=args.stdin_filename or "<stdin>",
        cache=cache,
    )


def _reader(argument: str | None, settings: Settings) -> Reader | None:
    if argument is not None:
        return given(argument)
    named = settings.consumer
    return None if named is None else given(named, f"{settings.where}: consumer", "settings")


def in_force(args: argparse.Namespace, document: Document) -> Circumstances:
    """Release, world size and reader, for a verb that reads one config; an unknown release ends the run."""
    _found.cache_clear()
    _note_once.cache_clear()
    if why := foreign(document):
        refuse(f"{document.name}: {why}")
    said = _said_of(document.name, _found(os.getcwd()))
    try:
        target = _target(getattr(args, "target", None), said)
    except UnknownReleaseError as error:
        refuse(str(error))
    return judged_under(document, target, args.world_size, said.world_size, _reader(args.consumer, said))


def judged_under(
    document: Document,
    target: Target,
    world_size: int | None,
    configured: int | None,
    reader: Reader | None,
) -> Circumstances:
    """The circumstances of a document: what it says of itself stands between arguments and settings."""
    asked = target.origin in ("argument", "environment")
    return Circumstances(
        target if asked else of_file(document) or target,
        world_size or declared(document.value()).world_size or configured,
        with_arguments(reader, document.name)
        if reader and reader.origin == "argument"
        else find_out(document, reader),
    )


def _said_of(name: str, otherwise: Settings) -> Settings:
    """What the settings say of one file; `otherwise`: where there are none for its folder."""
    settings, overrides = _settings_of(name, otherwise)
    return _merged(settings, overrides)


def _settings_of(name: str, otherwise: Settings) -> tuple[Settings, list[Settings]]:
    found = _found(os.path.dirname(os.path.abspath(name)))
    settings = found if found.path else otherwise
    return settings, [each for each in settings.overrides if excluded(name, settings.root, each.files)]


def _merged(settings: Settings, overrides: list[Settings]) -> Settings:
    """The settings with what overrides say instead, and what they exclude and ignore besides."""
    said = settings
    for each in overrides:
        changed = {key: value for key, value in each._asdict().items() if value not in (None, ())}
        for key in ("exclude", "per_file_ignores"):
            changed[key] = (*getattr(said, key), *getattr(each, key))
        said = said._replace(**changed)
    return said


def schema_choice(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer whose schema is asked for; without one it holds for all consumers."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        note(f"of {target.text} the newest release counts, {target.releases[-1]}")
    elif target.note:
        note(target.note)
    return target, args.consumer or settings.consumer


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    settings = _found(os.getcwd())
    try:
        return _target(args.target, settings), settings
    except UnknownReleaseError as error:
        refuse(str(error))


def _target(argument: str | None, settings: Settings) -> Target:
    environment = os.environ.get("DSCONFIG_TARGET")
    if argument is not None:
        return resolve_target(argument, "argument")
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


def _rules(
    args: argparse.Namespace, settings: Settings, overrides: list[Settings]
) -> tuple[frozenset[str], tuple[tuple[str, frozenset[str]], ...]]:
    rules = catalogue()
    select = None if args.select is None else tuple(args.select)
    layers = (
        *(
            Layer(f"{each.where}: ", each.select, each.ignore, each.extend_select)
            for each in (settings, *overrides)
        ),
        Layer("--", select, tuple(args.ignore or ()), tuple(args.extend_select or ())),
    )
    where = f"{settings.where}: per-file-ignores"
    patterns = _merged(settings, overrides).per_file_ignores
    per_file = tuple((pattern, expand(names, rules, where)) for pattern, names in patterns)
    return frozenset(rules) - selected(layers, rules), per_file


def as_toml(options: Options) -> str:
    """The options as TOML, ready to be put in a settings file, with their origin as a comment."""
    from dsconfig.render.text import printable

    settings, target = options.settings, options.target
    lines = [
        f"# from {printable(settings.where)}",
        f"target = {_toml(target.text)}  # {target.origin}: {', '.join(_ends(target))}",
        f"world-size = {options.world_size}" if options.world_size else "# world-size is unknown",
        f"consumer = {_toml(options.reader.name)}" if options.reader else "# consumer is found out",
        f"fail-on = {_toml(options.fail_on)}",
        f"ignore = {_toml(sorted(options.off))}",
        f"exclude = {_toml(settings.exclude)}",
        "",
        "[per-file-ignores]",
        *(f"{_toml(pattern)} = {_toml(sorted(codes))}" for pattern, codes in options.per_file_ignores),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _ends(target: Target) -> tuple[str, ...]:
    return (target.releases[0], f"... {target.releases[-1]}") if len(target.releases) > 1 else target.releases


def _toml(value: object) -> str:
    # Strings and lists of strings are written alike in JSON and TOML.
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
