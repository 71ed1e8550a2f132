"""What `check` finds that stops a run: a config with such a finding is not resolved, whoever asks.

`rejected` and `crashes` stop it, the latter unless the file silences it. Batch keys and the elasticity block
of what is written are judged in what came out, since they are derived or replaced on the way; whatever came
out is judged as DeepSpeed gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.check import check_document
from dsconfig.check.report import Report, by_config
from dsconfig.core.batch_triplet import KEYS, SEQUENCE
from dsconfig.core.diagnostic import Diagnostic, Effect, dotted
from dsconfig.core.releases import Target
from dsconfig.document import Document, read_dict
from dsconfig.job import detect_consumer as reader
from dsconfig.job.detect_consumer import Reader
from dsconfig.resolve.asked_config import Reading
from dsconfig.resolve.errors import ResolveError
from dsconfig.resolve.run import Run
from dsconfig.resolve.run_target import Runtime

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject, KeyPath

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


def refuse_written(
    asked: Document, seen: Reading, config: JsonObject, changes: Mapping[str, Json], chosen: Runtime
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
        who = who._replace(given=seen.given)
    report = report_on(asked, chosen.release, who, chosen.ranks)
    reports = [by_config(report), *report.children]
    silenced = frozenset(_named(found) for report in reports for found in report.suppressed)
    stops = [(report, found) for report in reports for found in _errors(report)]
    if changes:
        stops = [(report, found) for report, found in stops if found.code.startswith(_OF_FILE)]
        document = read_dict(config, seen.document.name)
        changed = report_on(document, chosen.release, seen.consumer, chosen.ranks)
        here = {(_named(found), found.message): (report, found) for report in reports for found in report}
        told = {found.code for _, found in stops}
        stops += [
            here.get((_named(found), found.message), (changed, found))  # as it is where it is written
            for found in _errors(changed, silenced)
            if found.code not in told
        ]
        stops += [(changed, found) for found in changed if _unread(found, changes)]
    _stop((report.name, found) for report, found in stops if not _derived(found))
    return silenced


def refuse_result(run: Run, silenced: frozenset[_Named], name: str) -> None:
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
    everywhere = frozenset.intersection(*(frozenset(map(_named, _errors(report))) for report in reports))
    stops = [found for found in _errors(reports[0], silenced) if _named(found) in everywhere]
    if reader != run.consumer and any(found.effect is not Effect.REJECTED for found in stops):
        # What fails in training depends on the loop: the Trainer gives inputs by name, say.
        theirs = frozenset(
            map(_named, _errors(report_on(document, run.release, run.consumer, run.world_size)))
        )
        stops = [found for found in stops if found.effect is Effect.REJECTED or _named(found) in theirs]
    told = [message.text for message in run.messages if message.kind == "refused"]
    hints = (*told, *map(str, run.mismatches))
    _stop(((document.name, found) for found in stops), hints)


def _errors(report: Report, silenced: frozenset[_Named] = frozenset()) -> Iterator[Diagnostic]:
    """What stops the run; who silences that a release refuses the config does not make it take it."""
    for found in (*report, *report.suppressed):
        quiet = found in report.suppressed or _named(found) in silenced
        if found.effect is Effect.REJECTED or (found.severity == "error" and not quiet):
            yield found


def _stop(stops: Iterable[tuple[str, Diagnostic]], hints: Iterable[str] = ()) -> None:
    """Raise the error of these findings, each with the name of its file, if there are any."""
    found = list(stops)
    if found:
        name, first = found[0]
        place = f"{name}:{first.location.line}: {first.code} " if first.location else ""
        raise ResolveError.of([each for _, each in found], hints, place=place)


def _named(found: Diagnostic) -> _Named:
    return found.code, found.path


def _derived(found: Diagnostic) -> bool:
    """Whether it is about what DeepSpeed derives, so that the result has to be judged."""
    if found.code.startswith(_BY_OTHERS):
        return False
    return found.code.startswith(_OF_BATCH) or bool(_DERIVED.intersection(found.path[:1]))


def _unread(found: Diagnostic, changes: Mapping[str, Json]) -> bool:
    """Whether a key that nobody reads is one that was set."""
    return (
        found.code in _UNREAD
        and found.effect is not Effect.REJECTED
        and dotted(found.path)
        in {".".join(key.split(".")[:length]) for key in changes for length in range(1, key.count(".") + 2)}
    )
