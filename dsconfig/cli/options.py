"""What is in force: the command line, else the environment, else the settings file, else the defaults."""

from __future__ import annotations

import argparse
import json
import os
from typing import NamedTuple

from dsconfig.checking.select import Layer, UnknownRuleError, catalogue, expand, selected
from dsconfig.cli.errors import note, refuse
from dsconfig.releases import Origin, Target, UnknownReleaseError
from dsconfig.releases import resolve as resolve_target
from dsconfig.settings import Settings, SettingsFileError, find


class Options(NamedTuple):
    """Everything that checking files needs to know."""

    settings: Settings
    target: Target
    world_size: int | None
    consumer: str
    fail_on: str
    off: frozenset[str]
    per_file_ignores: tuple[tuple[str, frozenset[str]], ...]
    stdin_name: str


def resolve(args: argparse.Namespace) -> Options:
    """The options that these arguments lead to; an unknown release, rule or setting ends the run."""
    try:
        settings = find()
        target = _target(args.target, settings)
        off, per_file = _rules(args, settings)
    except (SettingsFileError, UnknownReleaseError, UnknownRuleError) as error:
        refuse(str(error))
    return Options(
        settings=settings,
        target=target,
        world_size=args.world_size or settings.world_size,
        consumer=args.consumer or settings.consumer or "deepspeed",
        fail_on=args.fail_on or settings.fail_on or "warning",
        off=off,
        per_file_ignores=per_file,
        stdin_name=args.stdin_filename or "<stdin>",
    )


def in_force(args: argparse.Namespace) -> tuple[Target, str, int | None]:
    """Target, consumer and world size for a verb that reads one config; an unknown release ends the run."""
    target, settings = _target_and_settings(args)
    return target, args.consumer or settings.consumer or "deepspeed", args.world_size or settings.world_size


def schema_choice(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer whose schema is asked for; without one it holds for all consumers."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        note(f"of {target.text} the newest release counts, {target.releases[-1]}")
    elif target.note:
        note(target.note)
    return target, args.consumer or settings.consumer


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    try:
        settings = find()
        return _target(args.target, settings), settings
    except (SettingsFileError, UnknownReleaseError) as error:
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
    args: argparse.Namespace, settings: Settings
) -> tuple[frozenset[str], tuple[tuple[str, frozenset[str]], ...]]:
    rules = catalogue()
    select = None if args.select is None else tuple(args.select)
    layers = (
        Layer(f"{settings.where}: ", settings.select, settings.ignore, settings.extend_select),
        Layer("--", select, tuple(args.ignore or ()), tuple(args.extend_select or ())),
    )
    where = f"{settings.where}: per-file-ignores"
    per_file = tuple((pattern, expand(names, rules, where)) for pattern, names in settings.per_file_ignores)
    return frozenset(rules) - selected(layers, rules), per_file


def as_toml(options: Options) -> str:
    """The options as TOML, ready to be put in a settings file, with their origin as a comment."""
    settings, target = options.settings, options.target
    lines = [
        f"# from {settings.where}",
        f"target = {_toml(target.text)}  # {target.origin}: {', '.join(_ends(target))}",
        f"world-size = {options.world_size}" if options.world_size else "# world-size is unknown",
        f"consumer = {_toml(options.consumer)}",
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
    return json.dumps(value, ensure_ascii=False)
