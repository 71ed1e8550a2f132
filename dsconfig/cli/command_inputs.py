"""Inputs of a command: the config, the files it needs, and the options from its arguments."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

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
from dsconfig.cli.errors import fail, print_note
from dsconfig.core.file_access import OUTSIDE, links_out
from dsconfig.core.releases import Target, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.consumers.consumer_versions import split_spec
from dsconfig.job.job import Job
from dsconfig.job.settings_file import Settings, SettingsFileError, read_settings
from dsconfig.launch.located_config import LocatedConfig, locate

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import JsonObject


# Reading a config and the files it needs, and writing a result.


def read(name: str) -> Document:
    """Read the config; the run ends if it cannot be read."""
    from dsconfig.launch.read_passed_config import read_config

    try:
        document = read_stdin("<stdin>") if name == "-" else read_config(name)
    except OSError as error:
        fail(f"{name}: {reason(error)}")
    if document.is_in_program:
        _require_single_config(document)
    return document


def _require_single_config(document: Document) -> None:
    """End the run for a Python source with several configs."""
    from dsconfig.launch.python.config_dicts import siblings_of

    configs = siblings_of(document)
    if len(configs) > 1:
        lines = [str(each.position(each.root.span.start).line) for each in configs if each.root]
        shown = f"{', '.join(lines[:-1])} and {lines[-1]}"
        fail(
            f"{document.name} contains {len(configs)} configs, in lines {shown}, but this command needs one:"
            " copy the one you want to a JSON file, or run `dsconfig check`, which accepts several"
        )


def require_known_values(document: Document) -> None:
    """End the run for a config in a Python source with values that are only known at run time."""
    if not document.is_in_program:
        return
    from dsconfig.launch.python.config_dicts import unknown_in

    unknown = sorted(".".join(map(str, path)) for path in unknown_in(document))
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        keys = ", ".join(f"`{each}`" for each in unknown[:3])
        verb = "is" if len(unknown) == 1 else "are"
        fail(
            f"{document.name}: {keys}{more} {verb} only known at run time, but this command needs all values:"
            " copy the config to a JSON file, or run `dsconfig check`, which skips them"
        )


def read_stdin(name: str) -> Document:
    """Read stdin as a document of this name.

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


def read_mapping(name: str | None) -> JsonObject | None:
    """Read the JSON or YAML object in a file; None without a file."""
    from dsconfig.document.reader import read_mapping_file

    if name is None:
        return None
    try:
        return read_mapping_file(name)
    except OSError as error:
        fail(f"{name}: {reason(error)}")
    except ValueError as error:
        fail(str(error))


def write(name: str, data: bytes) -> None:
    """Write a file atomically; the run ends if it cannot be written."""
    from dsconfig.document import atomic_write

    forbid_link(name)
    try:
        if is_stdout(name):  # replacing the file would lose the rest of the output
            _forbid_ci_commands(data)
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        atomic_write.sweep(os.path.dirname(os.path.realpath(name)))
        atomic_write.write(name, data)
    except OSError as error:
        fail(f"{name}: {reason(error)}")


def _forbid_ci_commands(data: bytes) -> None:
    from dsconfig.cli.output_files import forbid_ci_commands

    try:
        text = data.decode()
    except UnicodeDecodeError:  # an image
        return
    forbid_ci_commands(text)


def is_stdout(name: str) -> bool:
    """Whether a path is the file that stdout is redirected to, such as `/dev/stdout`."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or stdout has no descriptor
        return False


def forbid_link(name: str) -> None:
    """Reject a link that leads out of the repository: it could make the command overwrite any file."""
    if links_out(name):
        fail(f"{name} is a link to a file that {OUTSIDE}; pass that path to write there")


def forbid_overwrite(name: str, *inputs: str | None, advice: str = "choose another name") -> None:
    """Reject an output file that is one of the inputs, under any name."""
    for other in inputs:
        if other and _is_same(name, other):
            fail(f"{name} would overwrite the input {'on stdin' if other == '-' else other}: {advice}")


def forbid_overwriting_sources(
    name: str, document: Document, *others: str | None, advice: str = "choose another name"
) -> None:
    """Reject an output file that is the config, a file it names or is named by, or another input."""
    from dsconfig.launch.located_config import related_files

    with suppress(OSError):  # reported where the file is read
        forbid_overwrite(name, *related_files(document), *others, advice=advice)


def _is_same(name: str, other: str) -> bool:
    """Whether two paths are one file: by links, or by case on a case-insensitive file system."""
    try:
        status = os.fstat(sys.stdin.fileno()) if other == "-" else os.stat(other)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(os.stat(name), status)
    except (OSError, ValueError, AttributeError):  # one of them does not exist
        return False


def redirect_to_file(name: str, run: Callable[[], tuple[int, set[str]]]) -> int:
    """Call `run` with stdout redirected to a file, which is written completely or not at all.

    `run` also returns its input files; none of them is overwritten.
    """
    from contextlib import redirect_stdout
    from io import StringIO

    text = StringIO(newline="")
    with redirect_stdout(text):
        forbid_link(name)
        code, inputs = run()
    forbid_overwrite(name, *sorted(inputs))
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError as error:
        fail(f"{name}: {reason(error)}")
    write(name, text.getvalue().encode(errors="backslashreplace"))
    return code


def reason(error: OSError) -> str:
    """Reason of an OS error, without the file name."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


# Options from the arguments.


def resolve_options(args: argparse.Namespace) -> Options:
    """Options of a run; the run ends for an unknown release, rule or setting."""
    requested = _arguments(args)
    return working_directory_options(requested, _nearest(args, requested))


def _arguments(args: argparse.Namespace) -> Overrides:
    values = {name: getattr(args, name) for name in Overrides._fields if hasattr(args, name)}
    for name in ("per_file_ignores", "extend_per_file_ignores"):
        if values.get(name) is not None:
            values[name] = _pairs(values[name], name.replace("_", "-"))
    return Overrides(fail, print_note, **values)


def _nearest(args: argparse.Namespace, requested: Overrides) -> SettingsFinder:
    """Settings in use: the nearest file, the one of `--config`, or none with `--isolated`."""
    path = getattr(args, "config", None)
    if not getattr(args, "isolated", False):
        return SettingsFinder(requested, None if path is None else _settings_at(path))
    if path is not None:
        fail("--config and --isolated exclude each other")
    return SettingsFinder(requested, Settings())


def _settings_at(path: str) -> Settings:
    if not os.path.exists(path) and "=" in path:
        option = path.partition("=")[0].strip()
        fail(f"--config {path}: expected a file; pass a single setting as an option: `--{option} ...`")
    try:
        return read_settings(path)
    except SettingsFileError as error:
        fail(f"--config: {error}")


def require_config(document: Document) -> None:
    """End the run for a file that is not a DeepSpeed config."""
    if why := why_not_config(document):
        fail(f"{document.name}: {why}")


def job_from_args(args: argparse.Namespace, document: Document, located: LocatedConfig | None = None) -> Job:
    """Job of a config as the arguments and settings describe it; the run ends for an unknown release."""
    require_config(document)
    requested = _arguments(args)
    settings = _nearest(args, requested).settings_of(document.name)
    try:
        target = explicit_target(requested, settings)
    except UnknownReleaseError as error:
        fail(str(error))
    # The command opens the model of `--model` itself.
    facts = model_and_host_layers(requested._replace(model=None), settings)
    requested = requested._replace(
        world_size=args.world_size, training_args=None
    )  # the command resolves "auto" itself
    return build_job(
        located or locate(document),
        *job_layers(requested, settings, target, explicit_reader(requested, settings), facts),
    )


def schema_target(args: argparse.Namespace) -> tuple[Target, str | None]:
    """Release and consumer of the schema; without a consumer, the schema holds for all of them."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        print_note(f"using {target.releases[-1]}, the newest release of {target.text}")
    elif target.note:
        print_note(target.note)
    return target, args.consumer or (split_spec(settings.consumer)[0] if settings.consumer else None)


def settings_of_folder(args: argparse.Namespace) -> Settings:
    """Settings of the working directory."""
    return _nearest(args, _arguments(args)).here


def _target_and_settings(args: argparse.Namespace) -> tuple[Target, Settings]:
    requested = _arguments(args)
    settings = _nearest(args, requested).here
    try:
        return explicit_target(requested, settings), settings
    except UnknownReleaseError as error:
        fail(str(error))


def _pairs(entries: Sequence[str], option: str) -> list[tuple[str, list[str]]]:
    """Parse `a/*.json:DSC101,DSC2,b.json:DSC3`: a word with a colon starts the rules of another pattern."""
    pairs: list[tuple[str, list[str]]] = []
    for entry in entries:
        pattern, colon, rule = entry.rpartition(":")
        if colon and pattern and rule:
            pairs.append((pattern, [rule]))
        elif pairs and not colon:
            pairs[-1][1].append(entry)
        else:
            fail(f"--{option} {entry}: expected PATTERN:RULES, for example 'old/*.json:DSC101,DSC4'")
    return pairs


def as_toml(options: Options) -> str:
    """Options as TOML that can be pasted into a settings file; comments give the origin."""
    from dsconfig.render.terminal_style import printable

    settings, target = options.settings, options.target
    lines = [
        f"# from {printable(settings.where)}",
        f"target = {_toml(target.text)}  # {target.origin}: {', '.join(_ends(target))}",
        f"world-size = {options.world_size}" if options.world_size else "# world-size is unknown",
        f"consumer = {_toml(options.reader.spec)}" if options.reader else "# consumer is auto-detected",
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
    # JSON strings and lists of strings are valid TOML.
    from dsconfig.render.fingerprint import as_json

    text = as_json(value, ascii=False)
    return text if text.isprintable() else as_json(value)
