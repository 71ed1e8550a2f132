"""Inputs of a run: the config, the files that go with it, and the options from its arguments."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dsconfig.check.build_job import build_job, foreign
from dsconfig.check.effective_settings import (
    Asked,
    Nearest,
    Options,
    known_of,
    layers,
    options,
    reader_of,
    target_of,
)
from dsconfig.cli.errors import note, refuse
from dsconfig.consumers.consumer_versions import parted
from dsconfig.core.file_access import OUTSIDE, leads_out
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.job import Job
from dsconfig.job.settings_file import Settings, SettingsFileError, named
from dsconfig.launch.located_config import LocatedConfig, locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import JsonObject


# Reading a config and the files that go with it, and writing a result.


def read(name: str) -> Document:
    """The config; a path that cannot be read ends the run."""
    from dsconfig.launch.config_references import read_config

    try:
        return read_stdin("<stdin>") if name == "-" else read_config(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def read_stdin(name: str) -> Document:
    """The document on stdin, as a file of this name would be read.

    Raises:
        OSError: stdin cannot be read.
    """
    from dsconfig.core.file_access import MAX_SIZE
    from dsconfig.document import read_bytes

    if sys.stdin is None:
        raise OSError(9, "stdin is closed", "-")
    try:
        data = sys.stdin.buffer.read(MAX_SIZE + 1)
    except OSError as error:
        error.filename = "-"
        raise
    return read_bytes(data, name, "yaml" if name.lower().endswith((".yaml", ".yml")) else "json")


def mapping(name: str | None) -> JsonObject | None:
    """The JSON or YAML object in a file, None where no file is named."""
    from dsconfig.document.reader import read_mapping_file

    if name is None:
        return None
    try:
        return read_mapping_file(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")
    except ValueError as error:
        refuse(str(error))


def write(name: str, data: bytes) -> None:
    """Write a file whole or not at all; a path that cannot be written ends the run."""
    from dsconfig.document import atomic_write

    refuse_link(name)
    try:
        if is_stdout(name):  # another file in its place would lose what else is written there
            _refuse_commands(data)
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        atomic_write.sweep(os.path.dirname(os.path.realpath(name)))
        atomic_write.write(name, data)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")


def _refuse_commands(data: bytes) -> None:
    from dsconfig.cli.output import refuse_commands

    try:
        text = data.decode()
    except UnicodeDecodeError:  # a picture
        return
    refuse_commands(text)


def is_stdout(name: str) -> bool:
    """Whether a name leads to the file that stdout is, as `/dev/stdout` does."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or no stdout that is one
        return False


def refuse_link(name: str) -> None:
    """Refuse to write through a link that somebody put into a repository to have a file elsewhere changed."""
    if leads_out(name):
        refuse(f"{name} is a link to a file that {OUTSIDE}: name that file, if it is meant")


def refuse_input(name: str, *inputs: str | None, instead: str = "give another name") -> None:
    """Refuse to write over a file that something was read from, whatever it is called there."""
    for other in inputs:
        if other and _is_same(name, other):
            refuse(f"{name} is {'what stdin is' if other == '-' else other}, which is read: {instead}")


def refuse_inputs(
    name: str, document: Document, *others: str | None, instead: str = "give another name"
) -> None:
    """Refuse to write over a config, what it leads to or what leads to it, and these other files."""
    from dsconfig.launch.located_config import files_behind

    with suppress(OSError):  # whoever reads it says so
        refuse_input(name, *files_behind(document), *others, instead=instead)


def _is_same(name: str, other: str) -> bool:
    """Whether two names lead to one file: by links of either kind, or in other letters where that is one."""
    try:
        there = os.fstat(sys.stdin.fileno()) if other == "-" else os.stat(other)
        return stat.S_ISREG(there.st_mode) and os.path.samestat(os.stat(name), there)
    except (OSError, ValueError, AttributeError):  # there is none
        return False


def into_file(name: str, run: Callable[[], tuple[int, set[str]]]) -> int:
    """Run it, and write to a file what it would have written to stdout: whole, or not at all.

    `run` returns also which files it depends on: none of them is written over.
    """
    from contextlib import redirect_stdout
    from io import StringIO

    text = StringIO(newline="")
    with redirect_stdout(text):
        refuse_link(name)
        code, inputs = run()
    refuse_input(name, *sorted(inputs))
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")
    write(name, text.getvalue().encode(errors="backslashreplace"))
    return code


def reason(error: OSError) -> str:
    """What went wrong with a file, without its name."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


# The options of a run, from its arguments.


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
    from dsconfig.render.terminal import printable

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
    from dsconfig.render.fingerprint import as_json

    text = as_json(value, ascii=False)
    return text if text.isprintable() else as_json(value)
