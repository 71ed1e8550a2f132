"""The config before its batch is derived: raw values, diagnostics that stop the run, and "auto" values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.check import check_document
from dsconfig.check.report import Report, use_config_paths
from dsconfig.core.batch_triplet import KEYS, MICRO, SEQUENCE
from dsconfig.core.diagnostic import Diagnostic, Effect, dotted_path
from dsconfig.core.json_types import copy_json
from dsconfig.core.releases import NUMBERS, ReleaseTarget
from dsconfig.document import Document, read_dict
from dsconfig.document.located_tree import unknown_paths
from dsconfig.evaluation.rule_context import Context, EvaluatedDocument
from dsconfig.job import detect_consumer as reader
from dsconfig.job.consumers.autofill import (
    AssumedArguments,
    AutofillMessage,
    AutofillState,
    MissingArgumentsError,
    autofill_config,
)
from dsconfig.job.consumers.consumer import consumer_from_spec
from dsconfig.job.detect_consumer import ConsumerEvidence
from dsconfig.launch.config_overwrites import config_overwrites_by_programs, overwrite_of_key
from dsconfig.resolve.errors import ResolveError, UnfilledError
from dsconfig.resolve.input_config import InputConfig
from dsconfig.resolve.resolved_run import ResolutionTarget, ResolvedRun

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


# Config as the release reads it, before anything is resolved or derived.


@dataclass(frozen=True, slots=True)
class RawConfig:
    """A copy of a config, and whether DeepSpeed itself reads it from a file."""

    config: JsonObject
    from_file: bool
    changed_keys: frozenset[str] = frozenset()
    """Dotted paths of values that were set before the config is resolved."""

    def reject_overwritten(self, document: Document) -> None:
        """Raise an error if a program of the repository overwrites the batch.

        Raises:
            ResolveError: the value that the program writes is unknown.
        """
        unknown = [
            overwrite
            for key in KEYS
            if key not in self.changed_keys
            and (overwrite := overwrite_of_key(document.name, key, self.config))
        ]
        if unknown:
            places = " and ".join(dict.fromkeys(item.place for item in unknown))
            keys = [key for key in KEYS if any(item.key == key for item in unknown)] or [MICRO]
            raise ResolveError(
                f"{places} writes `{'`, `'.join(keys)}` before DeepSpeed starts, so the batch "
                f"cannot be read from {document.name}",
                [f"pass its values: `set={{{', '.join(f'{json.dumps(key)}: N' for key in keys)}}}`"],
            )

    def overwrite_messages(self, document: Document) -> list[AutofillMessage]:
        """Return notes about values that programs of the repository overwrite, except the batch."""
        return [
            AutofillMessage(
                "note",
                f"{overwrite.place} writes `{overwrite.key}` before DeepSpeed starts; "
                "the value in the file is shown here",
            )
            for overwrite in config_overwrites_by_programs(document.name)
            if "*" not in overwrite.key
            and overwrite.key not in self.changed_keys
            and overwrite.key not in KEYS
            and overwrite_of_key(document.name, overwrite.key, self.config)
        ][:_MAX_OVERWRITE_NOTES]


_MAX_OVERWRITE_NOTES = 5
"""Maximum number of notes on overwritten values."""


def read_raw_config(
    document: Document, release: str, consumer: str, changes: Mapping[str, Json]
) -> RawConfig:
    """Read the config as the release does, and apply `changes`, a mapping from dotted paths to values.

    Raises:
        ResolveError: the release or the consumer cannot read it.
        ValueError: a change names no key.
    """
    context = release_context(document, release, consumer)
    config = copy_json(context.original_data)
    for key, value in changes.items():
        _set_value(config, key, value)
    if unknown := [dotted_path(path) for path in unknown_paths(config)]:
        verb = "is" if len(unknown) == 1 else "are"
        raise ResolveError(
            f"{document.name}: `{'`, `'.join(unknown[:3])}` {verb} only known at run time",
            [f"pass the value: `set={{{json.dumps(unknown[0])}: VALUE}}`"],
        )
    return RawConfig(config, context.from_file, frozenset(changes))


def release_context(document: Document, release: str, consumer: str) -> Context:
    """Return the rule context of a document in a release.

    Raises:
        ResolveError: the release or the consumer cannot read it.
    """
    context = Context(EvaluatedDocument(document, consumer, None), NUMBERS[release])
    if context.is_config and document.is_readable(context.parser):
        return context
    report = check_in_release(document, release, consumer)
    errors = [
        diagnostic
        for diagnostic in report
        if diagnostic.severity == "error" and diagnostic.code.startswith(TEXT_RULES)
    ]
    why = f"{errors[0].code} {errors[0].message}" if errors else "it is not an object"
    raise ResolveError(f"{document.name} cannot be read: {why}", (), errors)


def _set_value(config: JsonObject, key: str, value: Json) -> None:
    """Set the value at a dotted path, creating missing sections."""
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise ValueError(f"{key!r} is not a key: expected a dotted path such as `zero_optimization.stage`")
    here = config
    for depth, section in enumerate(sections, 1):
        inner = here.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key!r} cannot be set: `{'.'.join(sections[:depth])}` is not an object")
        here = inner
    here[last] = copy_json(value)


# "auto" values, resolved by the consumer.


def fill_raw_config(
    input_config: InputConfig,
    raw: RawConfig,
    ranks: int | None,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
    *,
    sp: int = 1,
) -> tuple[AutofillState, AssumedArguments]:
    """Resolve "auto" values as the consumer does, from the job's training arguments and the given ones.

    Raises:
        ResolveError: the batch depends on missing training arguments.
        ValueError: a training argument has the wrong type.
    """
    assumed, notes = AssumedArguments(), list[AutofillMessage]()
    if input_config.arguments is not None:
        arguments = input_config.arguments.arguments_at_world_size(ranks)
        arguments.apply_program_writes(raw.config)
        training_args = {**arguments.arguments, **(training_args or {})}
        assumed = AssumedArguments(arguments.unknown - training_args.keys(), arguments.likely)
        notes = [AutofillMessage("note", arguments.note)] if arguments.note else []
    try:
        filling = autofill_config(
            raw.config,
            consumer_from_spec(input_config.consumer),
            ranks,
            training_args,
            model_config,
            sp=sp,
            assumed=assumed,
        )
    except MissingArgumentsError as error:
        raise UnfilledError(error.missing, raw.config, error.reason, *error.hints) from None
    filling.messages[:0] = notes
    return filling, assumed


# Diagnostics that stop a run. `rejected` and `crashes` do, the latter unless suppressed in the file. Batch keys
# and the elasticity block are derived or replaced, so they are judged in the result, as DeepSpeed gets it.

TEXT_RULES = "DSC0"
"""Code prefix of the rules about the text itself."""
_DERIVED_KEYS = frozenset({*KEYS, SEQUENCE, "elasticity"})
_BEFORE_DERIVATION = (TEXT_RULES, "DSC8")
"""Code prefixes of rules that apply before DeepSpeed derives anything: parser and consumer."""
_FILE_RULES = (TEXT_RULES, "DSC82")
"""Code prefixes of rules that no change of a value can fix: the text, the launch file."""
_BATCH_RULES = ("DSC2", "DSC6")
_UNREAD = frozenset({"DSC101", "DSC102", "DSC103", "DSC104", "DSC105", "DSC107"})
"""Codes of the rules about keys that the release does not read."""
_Identity: TypeAlias = "tuple[str, KeyPath]"
"""Code and path of a diagnostic."""


def check_in_release(
    document: Document, release: str, consumer: str | ConsumerEvidence, size: int | None = None
) -> Report:
    """Check a document for one release, and return the report."""
    return check_document(
        document, ReleaseTarget((release,), release, "argument"), world_size=size, consumer=consumer
    )


def reject_raw_config(
    given_document: Document,
    input_config: InputConfig,
    config: JsonObject,
    changes: Mapping[str, Json],
    runtime: ResolutionTarget,
) -> frozenset[_Identity]:
    """Raise an error for diagnostics that stop the run; return the suppressed diagnostics.

    Args:
        given_document: the file that the user names: the config, or its launch file.
        input_config: the config in this file, or the one that it names.
        config: the values of the config, with `changes`.
        changes: values set before the config is resolved, by dotted path.
        runtime: the target that the config is resolved for.

    Raises:
        ResolveError: a diagnostic stops the run.
    """
    consumer = reader.consumer_named_by_user(runtime.consumer)
    if input_config.document is given_document:
        consumer = consumer._replace(training_arguments=input_config.arguments)
    report = check_in_release(given_document, runtime.release, consumer, runtime.ranks)
    reports = [use_config_paths(report), *report.children]
    suppressed = frozenset(
        _diagnostic_identity(diagnostic) for report in reports for diagnostic in report.suppressed
    )
    stops = [(report, diagnostic) for report in reports for diagnostic in _run_stopping_diagnostics(report)]
    if changes:
        stops = [
            (report, diagnostic) for report, diagnostic in stops if diagnostic.code.startswith(_FILE_RULES)
        ]
        document = read_dict(config, input_config.document.name)
        changed = check_in_release(document, runtime.release, input_config.consumer, runtime.ranks)
        located = {
            (_diagnostic_identity(diagnostic), diagnostic.message): (report, diagnostic)
            for report in reports
            for diagnostic in report
        }
        reported_codes = {diagnostic.code for _, diagnostic in stops}
        # With its location in the file.
        stops += [
            located.get((_diagnostic_identity(diagnostic), diagnostic.message), (changed, diagnostic))
            for diagnostic in _run_stopping_diagnostics(changed, suppressed)
            if diagnostic.code not in reported_codes
        ]
        stops += [
            (changed, diagnostic) for diagnostic in changed if _is_about_unread_change(diagnostic, changes)
        ]
    _raise_for_diagnostics(
        (report.name, diagnostic) for report, diagnostic in stops if not _is_about_derived_values(diagnostic)
    )
    return suppressed


def reject_resolved_config(run: ResolvedRun, suppressed: frozenset[_Identity], name: str) -> None:
    """Raise an error for diagnostics in the resolved config, as DeepSpeed or the consumer receives it.

    `name` is the path to the config; programs that use it may overwrite more values.

    Raises:
        ResolveError: a diagnostic stops the run.
    """
    document = read_dict(run.config, name)
    by_key = SEQUENCE in run.config
    sizes = {run.world_size, run.world_size if by_key else int(run.data_parallel_size)}
    unfilled = any(message.kind == "unfilled" for message in run.messages)
    reader = run.consumer if unfilled else "deepspeed"
    reports = [check_in_release(document, run.release, reader, size) for size in sorted(sizes)]
    # Without an mpu DeepSpeed counts all ranks, with one only the data-parallel ones. Errors must occur in both.
    common = frozenset.intersection(
        *(frozenset(map(_diagnostic_identity, _run_stopping_diagnostics(report))) for report in reports)
    )
    stops = [
        diagnostic
        for diagnostic in _run_stopping_diagnostics(reports[0], suppressed)
        if _diagnostic_identity(diagnostic) in common
    ]
    if reader != run.consumer and any(diagnostic.effect is not Effect.REJECTED for diagnostic in stops):
        # Failures in training depend on the loop: the Trainer passes inputs by name, for example.
        consumer_errors = frozenset(
            map(
                _diagnostic_identity,
                _run_stopping_diagnostics(
                    check_in_release(document, run.release, run.consumer, run.world_size)
                ),
            )
        )
        stops = [
            diagnostic
            for diagnostic in stops
            if diagnostic.effect is Effect.REJECTED or _diagnostic_identity(diagnostic) in consumer_errors
        ]
    rejections = [message.text for message in run.messages if message.kind == "refused"]
    hints = (*rejections, *map(str, run.mismatches))
    _raise_for_diagnostics(((document.name, diagnostic) for diagnostic in stops), hints)


def _run_stopping_diagnostics(
    report: Report, suppressed: frozenset[_Identity] = frozenset()
) -> Iterator[Diagnostic]:
    """Yield the diagnostics that stop the run, including suppressed ones."""
    for diagnostic in (*report, *report.suppressed):
        is_suppressed = diagnostic in report.suppressed or _diagnostic_identity(diagnostic) in suppressed
        if diagnostic.effect is Effect.REJECTED or (diagnostic.severity == "error" and not is_suppressed):
            yield diagnostic


def _raise_for_diagnostics(stops: Iterable[tuple[str, Diagnostic]], hints: Iterable[str] = ()) -> None:
    """Raise an error for the diagnostics in `stops`, if any, with their file names."""
    items = list(stops)
    if items:
        name, first = items[0]
        prefix = f"{name}:{first.location.line}: {first.code} " if first.location else ""
        raise ResolveError.of([each for _, each in items], hints, place=prefix)


def _diagnostic_identity(diagnostic: Diagnostic) -> _Identity:
    return diagnostic.code, diagnostic.path


def _is_about_derived_values(diagnostic: Diagnostic) -> bool:
    """Return whether a diagnostic concerns derived values, which occur only in the resolved config."""
    if diagnostic.code.startswith(_BEFORE_DERIVATION):
        return False
    return diagnostic.code.startswith(_BATCH_RULES) or bool(_DERIVED_KEYS.intersection(diagnostic.path[:1]))


def _is_about_unread_change(diagnostic: Diagnostic, changes: Mapping[str, Json]) -> bool:
    """Return whether a diagnostic concerns a key that `changes` sets without effect."""
    return (
        diagnostic.code in _UNREAD
        and diagnostic.effect is not Effect.REJECTED
        and dotted_path(diagnostic.path)
        in {".".join(key.split(".")[:length]) for key in changes for length in range(1, key.count(".") + 2)}
    )
