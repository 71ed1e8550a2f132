"""The options of a run, from its arguments."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from dsconfig.check.build_job import build_job, foreign
from dsconfig.check.effective_settings import Options, known_of, layers, options, reader_of, target_of
from dsconfig.check.nearest_settings import Nearest
from dsconfig.check.requested_options import Asked
from dsconfig.cli.errors import note, refuse
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.job import Job
from dsconfig.job.settings_file import Settings, SettingsFileError, named
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.render.fingerprint import as_json


def resolve(args: argparse.Namespace) -> Options:
    """The options of a run; an unknown release, rule or setting ends it."""
    asked = _asked(args)
    return options(asked, _nearest(args, asked))


def _asked(args: argparse.Namespace) -> Asked:
    given = {name: getattr(args, name) for name in Asked._fields if hasattr(args, name)}
    for name in ("per_file_ignores", "extend_per_file_ignores"):
        if given.get(name) is not None:
            given[name] = _pairs(given[name], name.replace("_", "-"))
    return Asked(refuse, note, **given)


def _nearest(args: argparse.Namespace, asked: Asked) -> Nearest:
    """The settings that count: the nearest, those that `--config` names, or with `--isolated` none."""
    path = getattr(args, "config", None)
    if not getattr(args, "isolated", False):
        return Nearest(asked, None if path is None else _named(path))
    if path is not None:
        refuse("--config and --isolated do not go together: one of the two")
    return Nearest(asked, Settings())


def _named(path: str) -> Settings:
    if not os.path.exists(path) and "=" in path:
        option = path.partition("=")[0].strip()
        refuse(f"--config {path}: expected a file; a single setting is an option: `--{option} ...`")
    try:
        return named(path)
    except SettingsFileError as error:
        refuse(f"--config: {error}")


def refuse_foreign(document: Document) -> None:
    """End the run for a file that is no DeepSpeed config."""
    if why := foreign(document):
        refuse(f"{document.name}: {why}")


def in_force(args: argparse.Namespace, document: Document, located: LocatedConfig | None = None) -> Job:
    """The job of a config, for a verb that reads one; an unknown release ends the run."""
    refuse_foreign(document)
    asked = _asked(args)
    said = _nearest(args, asked).said_of(document.name)
    try:
        target = target_of(asked, said)
    except UnknownReleaseError as error:
        refuse(str(error))
    # The verb itself opens the model that is asked for.
    known = known_of(asked._replace(model=None), said)
    asked = asked._replace(world_size=args.world_size, training_args=None)  # the verb itself fills in
    return build_job(located or locate(document), *layers(asked, said, target, reader_of(asked, said), known))


def schema_choice(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer whose schema is asked for; without one it holds for all consumers."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        note(f"of {target.text} the newest release counts, {target.releases[-1]}")
    elif target.note:
        note(target.note)
    return target, args.consumer or (parted(settings.consumer)[0] if settings.consumer else None)


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    asked = _asked(args)
    settings = _nearest(args, asked).here
    try:
        return target_of(asked, settings), settings
    except UnknownReleaseError as error:
        refuse(str(error))


def _pairs(words: Sequence[str], option: str) -> list[tuple[str, list[str]]]:
    """`a/*.json:DSC101,DSC2,b.json:DSC3`: a word with a colon begins the rules of another pattern."""
    pairs: list[tuple[str, list[str]]] = []
    for word in words:
        pattern, colon, rule = word.rpartition(":")
        if colon and pattern and rule:
            pairs.append((pattern, [rule]))
        elif pairs and not colon:
            pairs[-1][1].append(word)
        else:
            refuse(f"--{option} {word}: expected PATTERN:RULES, for example 'old/*.json:DSC101,DSC4'")
    return pairs


def as_toml(options: Options) -> str:
    """The options as TOML, ready to be put in a settings file, with their origin as a comment."""
    from dsconfig.render.printable import printable

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
    text = as_json(value, ascii=False)
    return text if text.isprintable() else as_json(value)
