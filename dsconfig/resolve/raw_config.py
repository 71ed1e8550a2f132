"""Config before the batch is derived: raw values, diagnostics that block it, and "auto" values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.check import check_document
from dsconfig.check.report import Report, by_config
from dsconfig.consumers.autofill import Assumed, Filling, Message, MissingArgumentsError, fill
from dsconfig.consumers.consumer import consumer_of
from dsconfig.core.batch_triplet import KEYS, MICRO, SEQUENCE
from dsconfig.core.diagnostic import Diagnostic, Effect, dotted
from dsconfig.core.json_types import copied
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.document import Document, read_dict
from dsconfig.evaluation.context import Context, Source
from dsconfig.job import detect_consumer as reader
from dsconfig.job.detect_consumer import Reader
from dsconfig.launch.program_behavior import overwrite_of, overwrites
from dsconfig.resolve.errors import ResolveError, UnfilledError
from dsconfig.resolve.input_config import InputConfig
from dsconfig.resolve.run import Run, Runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath


# The config before anything is filled or derived: as the release reads it, with values set first.


@dataclass(frozen=True, slots=True)
class RawConfig:
    """A copy of the config, and whether DeepSpeed itself reads the file that it stands in."""

    config: JsonObject
    from_file: bool
    changed_keys: frozenset[str] = frozenset()
    """The dotted paths of values that were set first."""

    def reject_overwritten(self, document: Document) -> None:
        """Stop where a program of the repository writes the batch: the file does not tell it.

        Raises:
            ResolveError: it does, and what it writes is not set.
        """
        unknown = [
            found
            for key in KEYS
            if key not in self.changed_keys and (found := overwrite_of(document.name, key, self.config))
        ]
        if unknown:
            places = " and ".join(dict.fromkeys(each.place for each in unknown))
            keys = [key for key in KEYS if any(each.key == key for each in unknown)] or [MICRO]
            raise ResolveError(
                f"{places} writes `{'`, `'.join(keys)}` before DeepSpeed starts, so that {document.name} "
                "does not tell the batch",
                [f"give what it writes: `set={{{', '.join(f'{json.dumps(key)}: N' for key in keys)}}}`"],
            )

    def overwrite_messages(self, document: Document) -> list[Message]:
        """Say which other values a program of the repository writes before DeepSpeed starts."""
        return [
            Message(
                "note", f"{found.place} writes `{found.key}` before DeepSpeed starts: here it is as written"
            )
            for found in overwrites(document.name)
            if "*" not in found.key
            and found.key not in self.changed_keys
            and found.key not in KEYS
            and overwrite_of(document.name, found.key, self.config)
        ][:_MOST]


_MOST = 5
"""So many of them are said."""


def read_raw_config(
    document: Document, release: str, consumer: str, changes: Mapping[str, Json]
) -> RawConfig:
    """The config as the release reads it, with `changes` by dotted path.

    Raises:
        ResolveError: the release or the consumer cannot read it.
        ValueError: a change names no key.
    """
    seen = release_context(document, release, consumer)
    config = copied(seen.whole)
    for key, value in changes.items():
        _put(config, key, value)
    return RawConfig(config, seen.from_file, frozenset(changes))


def release_context(document: Document, release: str, consumer: str) -> Context:
    """The document in the eyes of the release.

    Raises:
        ResolveError: the release or the consumer cannot read it.
    """
    seen = Context(Source(document, consumer, None), NUMBERS[release])
    if seen.is_config and document.readable(seen.parser):
        return seen
    report = report_on(document, release, consumer)
    errors = [found for found in report if found.severity == "error" and found.code.startswith(OF_TEXT)]
    why = f"{errors[0].code} {errors[0].message}" if errors else "it is not an object"
    raise ResolveError(f"{document.name} cannot be read: {why}", (), errors)


def _put(config: JsonObject, key: str, value: Json) -> None:
    """Write a value at a dotted path, making sections on the way."""
    *sections, last = key.split(".")
    if not all((*sections, last)):
        raise ValueError(f"{key!r} is not a key: expected a dotted path such as `zero_optimization.stage`")
    here = config
    for depth, section in enumerate(sections, 1):
        inner = here.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key!r} cannot be set: `{'.'.join(sections[:depth])}` is not an object")
        here = inner
    here[last] = copied(value)


# The values that a consumer puts in the place of "auto", from the arguments of the job and from others.


def fill_raw_config(
    seen: InputConfig,
    written: RawConfig,
    ranks: int | None,
    training_args: Mapping[str, Json] | None,
    model_config: Mapping[str, Json] | None,
    *,
    sp: int = 1,
) -> tuple[Filling, Assumed]:
    """Fill the config as its reader will, from the arguments of its job and from those that are given.

    Raises:
        ResolveError: the batch is to be filled from training arguments, which are not given.
        ValueError: a training argument is of the wrong kind.
    """
    assumed, notes = Assumed(), list[Message]()
    if seen.arguments is not None:
        known = seen.arguments.on(ranks)
        known.complete(written.config)
        training_args = {**known.arguments, **(training_args or {})}
        assumed = Assumed(known.unknown - training_args.keys(), known.likely)
        notes = [Message("note", known.note)] if known.note else []
    try:
        filling = fill(
            written.config,
            consumer_of(seen.consumer),
            ranks,
            training_args,
            model_config,
            sp=sp,
            assumed=assumed,
        )
    except MissingArgumentsError as error:
        raise UnfilledError(error.missing, written.config, error.reason, *error.hints) from None
    filling.messages[:0] = notes
    return filling, assumed


# What `check` finds that stops a run: a config with such a finding is not resolved, whoever asks.
#
# `rejected` and `crashes` stop it, the latter unless the file silences it. Batch keys and the elasticity block
# of what is written are judged in what came out, since they are derived or replaced on the way; whatever came
# out is judged as DeepSpeed gets it.

OF_TEXT = "DSC0"
"""How the codes of the rules begin that judge the text itself."""
_DERIVED = frozenset({*KEYS, SEQUENCE, "elasticity"})
_BY_OTHERS = (OF_TEXT, "DSC8")
"""What is refused before DeepSpeed derives anything: by the parser, by the consumer."""
_OF_FILE = (OF_TEXT, "DSC82")
"""What no change of a value ends: the text, the launch file."""
_OF_BATCH = ("DSC2", "DSC6")
_UNREAD = frozenset({"DSC101", "DSC102", "DSC103", "DSC104", "DSC105", "DSC107"})
"""The rules about keys that the release does not look at."""
_Named: TypeAlias = "tuple[str, KeyPath]"
"""A finding's code and path."""


def report_on(document: Document, release: str, consumer: str | Reader, size: int | None = None) -> Report:
    """What `check` says of a document for one release."""
    return check_document(
        document, Target((release,), release, "argument"), world_size=size, consumer=consumer
    )


def reject_raw_config(
    asked: Document, seen: InputConfig, config: JsonObject, changes: Mapping[str, Json], chosen: Runtime
) -> frozenset[_Named]:
    """Stop at what is written, in the file or by `changes`; returns what the file silences.

    Args:
        asked: what was given: the config, or the launch file that leads to it.
        seen: the config that it leads to.
        config: the values of it, with `changes`.
        changes: values set first, by dotted path.
        chosen: what it is resolved for.

    Raises:
        ResolveError: there is a finding that stops the run.
    """
    who = reader.given(chosen.consumer)
    if seen.document is asked:
        who = who._replace(given=seen.arguments)
    report = report_on(asked, chosen.release, who, chosen.ranks)
    reports = [by_config(report), *report.children]
    silenced = frozenset(_identity(found) for report in reports for found in report.suppressed)
    stops = [(report, found) for report in reports for found in _errors(report)]
    if changes:
        stops = [(report, found) for report, found in stops if found.code.startswith(_OF_FILE)]
        document = read_dict(config, seen.document.name)
        changed = report_on(document, chosen.release, seen.consumer, chosen.ranks)
        here = {(_identity(found), found.message): (report, found) for report in reports for found in report}
        told = {found.code for _, found in stops}
        stops += [
            here.get((_identity(found), found.message), (changed, found))  # as it is where it is written
            for found in _errors(changed, silenced)
            if found.code not in told
        ]
        stops += [(changed, found) for found in changed if _is_unread(found, changes)]
    _raise_for((report.name, found) for report, found in stops if not _is_about_derived(found))
    return silenced


def reject_result(run: Run, silenced: frozenset[_Named], name: str) -> None:
    """Stop at what came out, as DeepSpeed gets it, or the consumer where it has yet to fill some.

    `name`: the path of the config, whose programs may write more of it.

    Raises:
        ResolveError: there is a finding that stops the run.
    """
    document = read_dict(run.config, name)
    by_key = SEQUENCE in run.config
    sizes = {run.world_size, run.world_size if by_key else int(run.data_parallel_size)}
    unfilled = any(message.kind == "unfilled" for message in run.messages)
    reader = run.consumer if unfilled else "deepspeed"
    reports = [report_on(document, run.release, reader, size) for size in sorted(sizes)]
    # Without an mpu the batch is not what the script will have, with one the ranks are not all there are.
    everywhere = frozenset.intersection(*(frozenset(map(_identity, _errors(report))) for report in reports))
    stops = [found for found in _errors(reports[0], silenced) if _identity(found) in everywhere]
    if reader != run.consumer and any(found.effect is not Effect.REJECTED for found in stops):
        # What fails in training depends on the loop: the Trainer gives inputs by name, say.
        theirs = frozenset(
            map(_identity, _errors(report_on(document, run.release, run.consumer, run.world_size)))
        )
        stops = [found for found in stops if found.effect is Effect.REJECTED or _identity(found) in theirs]
    told = [message.text for message in run.messages if message.kind == "refused"]
    hints = (*told, *map(str, run.mismatches))
    _raise_for(((document.name, found) for found in stops), hints)


def _errors(report: Report, silenced: frozenset[_Named] = frozenset()) -> Iterator[Diagnostic]:
    """What stops the run; who silences that a release refuses the config does not make it take it."""
    for found in (*report, *report.suppressed):
        quiet = found in report.suppressed or _identity(found) in silenced
        if found.effect is Effect.REJECTED or (found.severity == "error" and not quiet):
            yield found


def _raise_for(stops: Iterable[tuple[str, Diagnostic]], hints: Iterable[str] = ()) -> None:
    """Raise the error of these findings, each with the name of its file, if there are any."""
    found = list(stops)
    if found:
        name, first = found[0]
        place = f"{name}:{first.location.line}: {first.code} " if first.location else ""
        raise ResolveError.of([each for _, each in found], hints, place=place)


def _identity(found: Diagnostic) -> _Named:
    return found.code, found.path


def _is_about_derived(found: Diagnostic) -> bool:
    """Whether it is about what DeepSpeed derives, so that the result has to be judged."""
    if found.code.startswith(_BY_OTHERS):
        return False
    return found.code.startswith(_OF_BATCH) or bool(_DERIVED.intersection(found.path[:1]))


def _is_unread(found: Diagnostic, changes: Mapping[str, Json]) -> bool:
    """Whether a key that nobody reads is one that was set."""
    return (
        found.code in _UNREAD
        and found.effect is not Effect.REJECTED
        and dotted(found.path)
        in {".".join(key.split(".")[:length]) for key in changes for length in range(1, key.count(".") + 2)}
    )
