"""Inputs of a run: the config, the files that go with it, and the options from its arguments."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dsconfig.check.build_job import build_job, why_not_config
from dsconfig.check.effective_settings import (
    Options,
    Overrides,
    SettingsFinder,
    explicit_reader,
    explicit_target,
    job_layers,
    model_and_host_layers,
    working_directory_options,
)
from dsconfig.cli.errors import note, refuse
from dsconfig.consumers.consumer_versions import split_spec
from dsconfig.core.file_access import OUTSIDE, links_out
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.job import Job
from dsconfig.job.settings_file import Settings, SettingsFileError, read_settings
from dsconfig.launch.located_config import LocatedConfig, locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import JsonObject


# Reading a config and the files that go with it, and writing a result.


def read(name: str) -> Document:
    """The config; a path that cannot be read ends the run."""
    from dsconfig.launch.config_references import read_config

    try:
        document = read_stdin("<stdin>") if name == "-" else read_config(name)
    except OSError as error:
        refuse(f"{name}: {reason(error)}")
    if document.format == "python":
        _refuse_several(document)
    return document


def _refuse_several(document: Document) -> None:
    """Refuse a Python source with more than one config, where one is asked for."""
    from dsconfig.document.python_source import python_configs

    configs = [each.document for each in python_configs(document.text, document.name)]
    if len(configs) > 1:
        lines = [str(each.position(each.root.span.start).line) for each in configs if each.root]
        shown = f"{', '.join(lines[:-1])} and {lines[-1]}"
        refuse(
            f"{document.name} holds {len(configs)} configs, in lines {shown}: write the one that is meant to a file"
        )


def refuse_unknown(document: Document) -> None:
    """Refuse a config of a Python source some values of which are only known at run time."""
    if document.format != "python":
        return
    from dsconfig.launch.python_config import unknown_in

    unknown = sorted(".".join(map(str, path)) for path in unknown_in(document))
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        keys = ", ".join(f"`{each}`" for each in unknown[:3])
        refuse(
            f"{document.name}: {keys}{more} only known at run time; `dsconfig check` checks what the source shows"
        )


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
    if links_out(name):
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
    from dsconfig.launch.located_config import related_files

    with suppress(OSError):  # whoever reads it says so
        refuse_input(name, *related_files(document), *others, instead=instead)


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
    return working_directory_options(asked, _nearest(args, asked))


def _asked(args: argparse.Namespace) -> Overrides:
    given = {name: getattr(args, name) for name in Overrides._fields if hasattr(args, name)}
    for name in ("per_file_ignores", "extend_per_file_ignores"):
        if given.get(name) is not None:
            given[name] = _pairs(given[name], name.replace("_", "-"))
    return Overrides(refuse, note, **given)


def _nearest(args: argparse.Namespace, asked: Overrides) -> SettingsFinder:
    """The settings that count: the nearest, those that `--config` names, or with `--isolated` none."""
    path = getattr(args, "config", None)
    if not getattr(args, "isolated", False):
        return SettingsFinder(asked, None if path is None else _named(path))
    if path is not None:
        refuse("--config and --isolated do not go together: one of the two")
    return SettingsFinder(asked, Settings())


def _named(path: str) -> Settings:
    if not os.path.exists(path) and "=" in path:
        option = path.partition("=")[0].strip()
        refuse(f"--config {path}: expected a file; a single setting is an option: `--{option} ...`")
    try:
        return read_settings(path)
    except SettingsFileError as error:
        refuse(f"--config: {error}")


def refuse_foreign(document: Document) -> None:
    """End the run for a file that is no DeepSpeed config."""
    if why := why_not_config(document):
        refuse(f"{document.name}: {why}")


def in_force(args: argparse.Namespace, document: Document, located: LocatedConfig | None = None) -> Job:
    """The job of a config, for a verb that reads one; an unknown release ends the run."""
    refuse_foreign(document)
    asked = _asked(args)
    said = _nearest(args, asked).settings_of(document.name)
    try:
        target = explicit_target(asked, said)
    except UnknownReleaseError as error:
        refuse(str(error))
    # The verb itself opens the model that is asked for.
    known = model_and_host_layers(asked._replace(model=None), said)
    asked = asked._replace(world_size=args.world_size, training_args=None)  # the verb itself fills in
    return build_job(
        located or locate(document), *job_layers(asked, said, target, explicit_reader(asked, said), known)
    )


def schema_choice(args: argparse.Namespace) -> tuple[Target, str | None]:
    """The release and the consumer whose schema is asked for; without one it holds for all consumers."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        note(f"of {target.text} the newest release counts, {target.releases[-1]}")
    elif target.note:
        note(target.note)
    return target, args.consumer or (split_spec(settings.consumer)[0] if settings.consumer else None)


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    asked = _asked(args)
    settings = _nearest(args, asked).here
    try:
        return explicit_target(asked, settings), settings
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
        f"ignore = {_toml(sorted(options.rules.disabled))}",
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
