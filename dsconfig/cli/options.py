"""What is in force: the command line, else the environment, else settings, else the defaults."""

from __future__ import annotations

import argparse
import json
import os
from typing import NamedTuple

from dsconfig.checking.circumstances import Circumstances, find_out, foreign, of_file
from dsconfig.checking.discover import excluded
from dsconfig.checking.select import UnknownRuleError
from dsconfig.cli.errors import note, refuse
from dsconfig.cli.nearest import Nearest, merged
from dsconfig.cli.selection import Selection, selection
from dsconfig.consumers.launchers.arguments import informed
from dsconfig.consumers.own_words import declared
from dsconfig.consumers.reader import Reader, given
from dsconfig.consumers.versions import parted
from dsconfig.document import Document
from dsconfig.releases import Origin, Target, UnknownReleaseError
from dsconfig.releases import resolve as resolve_target
from dsconfig.settings import Settings


class Options(NamedTuple):
    """Everything that checking files needs to know. Those of a run are those of the working directory."""

    args: argparse.Namespace
    nearest: Nearest
    settings: Settings
    target: Target
    world_size: int | None
    reader: Reader | None
    """Who reads the files, where the command line or the settings say so."""
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
            self.cache[key] = _options(self.args, self.nearest, settings, overrides, self.cache)
        return self.cache[key]

    def excludes(self, path: str) -> bool:
        """Whether a file or folder is to be passed over."""
        return any(excluded(path, root, patterns) for root, patterns in self.excluded)


def resolve(args: argparse.Namespace) -> Options:
    """The options of a run; an unknown release, rule or setting ends it."""
    nearest = Nearest(args)
    return _options(args, nearest, nearest.here, [], {})


def _options(
    args: argparse.Namespace,
    nearest: Nearest,
    settings: Settings,
    overrides: list[Settings],
    cache: dict[object, Options],
) -> Options:
    said = merged(settings, overrides)
    try:
        target = _target(args.target, said)
        rules = selection(args, settings, overrides, said)
    except (UnknownReleaseError, UnknownRuleError) as error:
        refuse(str(error))
    return Options(
        args=args,
        nearest=nearest,
        settings=said,
        target=target,
        world_size=args.world_size or said.world_size,
        reader=_reader(args.consumer, said),
        fail_on=args.fail_on or said.fail_on or "warning",
        min_severity=args.min_severity or said.min_severity or "info",
        rules=rules,
        excluded=_excluded(args, said),
        stdin_name=args.stdin_filename or "<stdin>",
        cache=cache,
    )


def _excluded(args: argparse.Namespace, said: Settings) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`--exclude` stands for the settings' `exclude`; what extends it holds in any case."""
    ours = said.extend_exclude if args.exclude is not None else (*said.exclude, *said.extend_exclude)
    return (said.root, ours), (os.getcwd(), (*(args.exclude or ()), *(args.extend_exclude or ())))


def _reader(argument: str | None, settings: Settings) -> Reader | None:
    if argument is not None:
        return given(argument)
    named = settings.consumer
    return None if named is None else given(named, f"{settings.where}: consumer", "settings")


def in_force(args: argparse.Namespace, document: Document) -> Circumstances:
    """Release, world size and reader, for a verb that reads one config; an unknown release ends the run."""
    if why := foreign(document):
        refuse(f"{document.name}: {why}")
    said = Nearest(args).said_of(document.name)
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
        informed(reader, document.name)
        if reader and reader.origin == "argument"
        else find_out(document, reader),
    )


def schema_choice(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer whose schema is asked for; without one it holds for all consumers."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        note(f"of {target.text} the newest release counts, {target.releases[-1]}")
    elif target.note:
        note(target.note)
    return target, args.consumer or (parted(settings.consumer)[0] if settings.consumer else None)


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    settings = Nearest(args).here
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


def as_toml(options: Options) -> str:
    """The options as TOML, ready to be put in a settings file, with their origin as a comment."""
    from dsconfig.render.text import printable

    settings, target = options.settings, options.target
    lines = [
        f"# from {printable(settings.where)}",
        f"target = {_toml(target.text)}  # {target.origin}: {', '.join(_ends(target))}",
        f"world-size = {options.world_size}" if options.world_size else "# world-size is unknown",
        f"consumer = {_toml(options.reader.spec)}" if options.reader else "# consumer is found out",
        f"fail-on = {_toml(options.fail_on)}",
        f"min-severity = {_toml(options.min_severity)}",
        f"ignore = {_toml(sorted(options.rules.off))}",
        f"unfixable = {_toml(sorted(options.rules.unfixable))}",
        f"exclude = {_toml([pattern for _, patterns in options.excluded for pattern in patterns])}",
        "",
        "[per-file-ignores]",
        *(f"{_toml(pattern)} = {_toml(sorted(codes))}" for _, pattern, codes in options.rules.per_file),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _ends(target: Target) -> tuple[str, ...]:
    return (target.releases[0], f"... {target.releases[-1]}") if len(target.releases) > 1 else target.releases


def _toml(value: object) -> str:
    # Strings and lists of strings are written alike in JSON and TOML.
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
