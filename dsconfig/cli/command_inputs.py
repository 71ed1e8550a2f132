"""The inputs of a command: the config, the other files that it reads, and the options from its arguments."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

from dsconfig.check.build_job import build_job, why_not_config
from dsconfig.check.effective_settings import (
    CommandLineOverrides,
    EffectiveOptions,
    SettingsFinder,
    explicit_consumer,
    explicit_target,
    job_facts_by_layer,
    job_layers,
    working_directory_options,
)
from dsconfig.cli.errors import fail_with_usage_error, print_note
from dsconfig.core.file_access import OUTSIDE, is_link_out_of_repository
from dsconfig.core.releases import ReleaseTarget, UnknownReleaseError
from dsconfig.document import Document
from dsconfig.job.consumers.consumer_versions import split_consumer_spec, unknown_version_note
from dsconfig.job.job import Job
from dsconfig.job.settings_file import SettingsFile, SettingsFileError, read_settings
from dsconfig.launch.located_config import LocatedConfig, locate_config

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import JsonObject


# Reading a config and the files it needs, and writing a result.


def read_config_document(name: str, job: int | None = None, *, is_written: bool = False) -> Document:
    """Read the config, or end the run with an error.

    `job` is the number, from 1, of the job in a script or of the config in a Python source. If it is None and there
    are several, the first one is used, and a note lists the others. A command that changes the config (`is_written`)
    requires a number if their configs differ.
    """
    from dsconfig.launch.config_source import read_config_at_path
    from dsconfig.launch.locate_configs_of_jobs import select_job

    try:
        document = read_stdin("<stdin>") if name == "-" else read_config_at_path(name)
    except OSError as error:
        fail_with_usage_error(f"{name}: {os_error_reason(error)}")
    try:
        selected = select_job(document, job)
    except OSError as error:
        fail_with_usage_error(f"{document.name}: {error.filename}: {os_error_reason(error)}")
    except ValueError as error:
        fail_with_usage_error(f"{error} (--job N)" if job is None else f"--job: {error}")
    if selected.configs_differ and is_written:
        fail_with_usage_error(f"{selected.others}: select one with --job")
    if selected.others:
        print_note(f"{selected.note}; --job selects another one")
    return selected.document


def require_known_values(document: Document) -> None:
    """End the run with an error if a config in a Python source has values known only at run time."""
    if not document.is_in_program:
        return
    from dsconfig.launch.python.config_dicts import paths_unknown_before_run

    unknown = sorted(".".join(map(str, path)) for path in paths_unknown_before_run(document))
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        keys = ", ".join(f"`{each}`" for each in unknown[:3])
        verb = "is" if len(unknown) == 1 else "are"
        fail_with_usage_error(
            f"{document.name}: {keys}{more} {verb} only known at run time, but this command needs all values:"
            " copy the config to a JSON file, or run `dsconfig check`, which skips them"
        )


def read_stdin(name: str) -> Document:
    """Read a document with this name from stdin.

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


def read_mapping_file(name: str | None) -> JsonObject | None:
    """Read a JSON or YAML object from a file; return None if no file is named."""
    from dsconfig.document.read_document import read_mapping_file

    if name is None:
        return None
    try:
        return read_mapping_file(name)
    except OSError as error:
        fail_with_usage_error(f"{name}: {os_error_reason(error)}")
    except ValueError as error:
        fail_with_usage_error(str(error))


def write_output_file(name: str, data: bytes) -> None:
    """Write a file atomically, or end the run with an error."""
    from dsconfig.document import atomic_write

    forbid_link(name)
    try:
        if is_stdout_target(name):  # replacing the file would lose the rest of the output
            _reject_ci_commands(data)
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        atomic_write.remove_stale_drafts(os.path.dirname(os.path.realpath(name)))
        atomic_write.write_atomically(name, data)
    except OSError as error:
        fail_with_usage_error(f"{name}: {os_error_reason(error)}")


def _reject_ci_commands(data: bytes) -> None:
    from dsconfig.cli.output_files import forbid_ci_commands

    try:
        text = data.decode()
    except UnicodeDecodeError:  # an image
        return
    forbid_ci_commands(text)


def is_stdout_target(name: str) -> bool:
    """Return whether a path, such as `/dev/stdout`, is the file to which stdout is redirected."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):  # no such file, or stdout has no descriptor
        return False


def forbid_link(name: str) -> None:
    """Reject a link that leads outside the repository, because writing to it could overwrite any file."""
    if is_link_out_of_repository(name):
        fail_with_usage_error(f"{name} is a link to a file that {OUTSIDE}; pass that path to write there")


def forbid_overwrite(name: str, *inputs: str | None, advice: str = "choose another name") -> None:
    """Reject an output file that is one of the inputs, even under another name."""
    for other in inputs:
        if other and _is_same_file(name, other):
            fail_with_usage_error(
                f"{name} would overwrite the input {'on stdin' if other == '-' else other}: {advice}"
            )


def forbid_overwriting_sources(
    name: str, document: Document, *others: str | None, advice: str = "choose another name"
) -> None:
    """Reject an output file that is the config, a file linked with the config, or another input."""
    from dsconfig.launch.located_config import files_affecting_diagnostics

    with suppress(OSError):  # reported where the file is read
        forbid_overwrite(name, *files_affecting_diagnostics(document), *others, advice=advice)


def _is_same_file(name: str, other: str) -> bool:
    """Return whether two paths refer to the same file, even through links or a case-insensitive file system."""
    try:
        status = os.fstat(sys.stdin.fileno()) if other == "-" else os.stat(other)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(os.stat(name), status)
    except (OSError, ValueError, AttributeError):  # one of them does not exist
        return False


def redirect_to_file(name: str, run: Callable[[], tuple[int, set[str]]]) -> int:
    """Call `run` with stdout redirected to the file `name`, which is written completely or not at all.

    `run` also returns its input files, none of which is overwritten.
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
        fail_with_usage_error(f"{name}: {os_error_reason(error)}")
    write_output_file(name, text.getvalue().encode(errors="backslashreplace"))
    return code


def os_error_reason(error: OSError) -> str:
    """Return the reason for an OS error, without the file name."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


# Options from the arguments.


def options_from_arguments(args: argparse.Namespace) -> EffectiveOptions:
    """Return the options of a run; end it with an error if a release, rule or setting is unknown."""
    requested = _overrides_from_arguments(args)
    return working_directory_options(requested, _settings_finder(args, requested))


def _overrides_from_arguments(args: argparse.Namespace) -> CommandLineOverrides:
    values = {name: getattr(args, name) for name in CommandLineOverrides._fields if hasattr(args, name)}
    for name in ("per_file_ignores", "extend_per_file_ignores"):
        if values.get(name) is not None:
            values[name] = _parse_per_file_rules(values[name], name.replace("_", "-"))
    return CommandLineOverrides(fail_with_usage_error, print_note, **values)


def _settings_finder(args: argparse.Namespace, requested: CommandLineOverrides) -> SettingsFinder:
    """Return a finder for settings: in the nearest file, in the file of `--config`, or nowhere (`--isolated`)."""
    path = getattr(args, "config", None)
    if not getattr(args, "isolated", False):
        return SettingsFinder(requested, None if path is None else _read_settings_file(path))
    if path is not None:
        fail_with_usage_error("--config and --isolated exclude each other")
    return SettingsFinder(requested, SettingsFile())


def _read_settings_file(path: str) -> SettingsFile:
    if not os.path.exists(path) and "=" in path:
        option = path.partition("=")[0].strip()
        fail_with_usage_error(
            f"--config {path}: expected a file; pass a single setting as an option: `--{option} ...`"
        )
    try:
        return read_settings(path)
    except SettingsFileError as error:
        fail_with_usage_error(f"--config: {error}")


def require_config(document: Document, consumer: str | None = None) -> None:
    """End the run if the file is not a DeepSpeed config; `consumer` is the consumer that the user named, if any."""
    from dsconfig.launch.classify_config_file import describe_hostfile

    # A hostfile is checked by itself, but no other command can do anything with it.
    if why := why_not_config(document, consumer) or describe_hostfile(document):
        fail_with_usage_error(f"{document.name}: {why}")


def job_from_arguments(
    args: argparse.Namespace, document: Document, located: LocatedConfig | None = None
) -> Job:
    """Return the job of a config according to the arguments and settings.

    Prints a note if the version of the consumer is unknown.
    """
    require_config(document, getattr(args, "consumer", None))
    requested = _overrides_from_arguments(args)
    settings = _settings_finder(args, requested).effective_settings_for_file(document.name)
    try:
        target = explicit_target(requested, settings)
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))
    # The command opens the model of `--model` itself.
    facts = job_facts_by_layer(requested._replace(model=None), settings)
    requested = requested._replace(
        world_size=args.world_size, training_args=None
    )  # the command resolves "auto" itself
    job = build_job(
        located or locate_config(document),
        *job_layers(requested, settings, target, explicit_consumer(requested, settings), facts),
    )
    consumer = None if job.consumer is None else job.consumer.value
    if consumer is not None and (note := unknown_version_note(consumer.name, consumer.version)):
        print_note(f"{document.name}: {note}")
    return job


def schema_release_and_consumer(args: argparse.Namespace) -> tuple[ReleaseTarget, str | None]:
    """Return the release and consumer of a schema; without a consumer, the schema is valid for all of them."""
    target, settings = _target_and_settings(args)
    if len(target.releases) > 1:
        print_note(f"using {target.releases[-1]}, the newest release of {target.text}")
    elif target.note:
        print_note(target.note)
    return target, args.consumer or (split_consumer_spec(settings.consumer)[0] if settings.consumer else None)


def settings_of_folder(args: argparse.Namespace) -> SettingsFile:
    """Return the settings that apply to the working directory."""
    return _settings_finder(args, _overrides_from_arguments(args)).here


def _target_and_settings(args: argparse.Namespace) -> tuple[ReleaseTarget, SettingsFile]:
    requested = _overrides_from_arguments(args)
    settings = _settings_finder(args, requested).here
    try:
        return explicit_target(requested, settings), settings
    except UnknownReleaseError as error:
        fail_with_usage_error(str(error))


def _parse_per_file_rules(entries: Sequence[str], option: str) -> list[tuple[str, list[str]]]:
    """Parse file patterns with rules: `a/*.json:DSC101,DSC2,b.json:DSC3`."""
    pairs: list[tuple[str, list[str]]] = []
    for entry in entries:
        pattern, colon, rule = entry.rpartition(":")
        if colon and pattern and rule:
            pairs.append((pattern, [rule]))
        elif pairs and not colon:
            pairs[-1][1].append(entry)
        else:
            fail_with_usage_error(
                f"--{option} {entry}: expected PATTERN:RULES, for example 'old/*.json:DSC101,DSC4'"
            )
    return pairs


def options_as_toml(options: EffectiveOptions) -> str:
    """Return the options as TOML for a settings file, with the origin of each as a comment."""
    from dsconfig.render.terminal_style import escape_unprintable

    settings, target = options.settings, options.target
    lines = [
        f"# from {escape_unprintable(settings.shown_path)}",
        f"target = {_toml_value(target.text)}  # {target.origin}: {', '.join(_ends_of_target(target))}",
        f"world-size = {options.world_size}" if options.world_size else "# world-size is unknown",
        f"consumer = {_toml_value(options.reader.consumer_spec)}"
        if options.reader
        else "# consumer is auto-detected",
        f"fail-on = {_toml_value(options.fail_on)}",
        f"min-severity = {_toml_value(options.min_severity)}",
        f"ignore = {_toml_value(sorted(options.rules.disabled))}",
        f"unfixable = {_toml_value(sorted(options.rules.unfixable))}",
        f"exclude = {_toml_value([pattern for _, patterns in options.excluded for pattern in patterns])}",
        "",
        "[per-file-ignores]",
        *(
            f"{_toml_value(pattern)} = {_toml_value(sorted(codes))}"
            for _, pattern, codes in options.rules.per_file
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _ends_of_target(target: ReleaseTarget) -> tuple[str, ...]:
    return (target.releases[0], f"... {target.releases[-1]}") if len(target.releases) > 1 else target.releases


def _toml_value(value: object) -> str:
    # JSON strings and lists of strings are valid TOML.
    from dsconfig.render.machine_readable import dump_json

    text = dump_json(value, ascii=False)
    return text if text.isprintable() else dump_json(value)
