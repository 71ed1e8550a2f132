"""`check`: locate → evaluate for each class of releases → merge → ignores → sort → `Report`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dsconfig.check import apply_suppressions
from dsconfig.check.assumptions import notes, world_sizes
from dsconfig.check.build_job import asked, foreign, host_reader, stated_job
from dsconfig.check.merge_releases import diagnostics, merged
from dsconfig.check.possible_consumers import wrong_for_all
from dsconfig.check.report import Report, by_place
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.json_types import JsonObject
from dsconfig.core.releases import NUMBERS, Interval, Target
from dsconfig.document import Document
from dsconfig.evaluation.context import Context, Source
from dsconfig.launch import detect_config
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.launch.program_errors import refused
from dsconfig.launch.program_writes import overwrite_of, overwrites

if TYPE_CHECKING:
    from dsconfig.job.detect_consumer import Reader
    from dsconfig.job.job import Job


def check(located: LocatedConfig, job: Job) -> Report:
    """Check a config where it stands, as its job reads it. Its fixes are not tried yet; see `fix.verify`."""
    host = located.host
    if why := foreign(host):
        return _blank(host, job, job.reader, f"{host.name}: {why}", foreign=why)
    if located.how == "file":
        return _report(host, job, job.reader)
    is_judged = not host.name.endswith(SCRIPTS) or _is_refused(located, job)
    if located.how == "held" and located.config is not None:
        return _with_lifted(located, job, _report(located.config, job, job.reader), is_judged=is_judged)
    reader = host_reader(located, job)
    launch = job._replace(arguments=None)  # they are compared with the config, not with the launch file
    report = _report(host, launch, reader) if is_judged else _blank(host, launch, reader)
    told = [located.note] if located.note else []
    if located.unlike and located.job:
        told.append(f"{host.name}: {located.unlike}")
    if located.config is None:
        return report.replaced(notes=tuple(told) or report.notes)
    child = (
        check(located.next(job), job) if located.how == "launch" else _report(located.config, job, job.reader)
    )
    told += located.job.left_open(child.world_size) if located.job else ()
    return report.replaced(notes=tuple(told), children=(child,))


def check_document(
    document: Document,
    target: Target,
    *,
    world_size: int | None = None,
    consumer: str | Reader = "deepspeed",
) -> Report:
    """Check a document in a job that is known: its repository is not asked. Its fixes are not tried yet.

    Raises:
        ValueError: the consumer is unknown, or the world size impossible.
    """
    located = locate(document)
    return check(located, stated_job(located, asked(target, world_size, consumer)))


def recheck(report: Report, document: Document) -> Report:
    """Check another text of the file that a report is of, in the same job: a fix may move what tells of it."""
    assert report.job is not None
    if report.is_held:  # the config stands in a launch file, and its arguments with it
        located = locate(document)
        return check(located, stated_job(located, report.job))
    return _report(document, report.job, report.reader)


def config_of(report: Report) -> JsonObject | None:
    """What the newest release of a report reads in the config; None where the text is none."""
    assert report.document is not None
    release = NUMBERS[report.target.releases[-1]]
    seen = Context(Source(report.document, report.reader.spec, report.world_size), release)
    root = report.document.value(seen.parser)
    return root if seen.is_config and isinstance(root, dict) else None


def _is_refused(located: LocatedConfig, job: Job) -> bool:
    """Whether the program of a script refuses what it is started with."""
    return located.job is not None and any(refused(located.job, job.reader.version))


def _report(
    document: Document, job: Job, reader: Reader, lifted: tuple[Diagnostic, ...] = (), *, cut: bool = False
) -> Report:
    """The report of one text, with diagnostics lifted from a config in it, of which `cut` says there are more."""
    target, size = job.releases, job.ranks
    span = Interval(NUMBERS[target.releases[0]], NUMBERS[target.releases[-1]])
    kind = detect_config.kind_of(document)
    overwrite = partial(overwrite_of, document.name) if overwrites(document.name) else None
    source = Source(document, reader.spec, size, span, job.given, reader.known, kind, overwrite)
    found, newest, more = merged(source, target.releases)
    listed, assumption = wrong_for_all(diagnostics(document, found), source, reader, target.releases)
    result = apply_suppressions.apply(document, (*listed, *lifted), cut=more or cut)
    return Report(
        document.name,
        target,
        reader,
        size,
        tuple(sorted((*result.kept, *result.unused), key=by_place)),
        suppressed=result.suppressed,
        sizes=world_sizes(newest.context),
        document=document,
        notes=(*assumption, *notes(document, newest, reader, cut=result.cut)),
        cut=result.cut,
        job=job,
    )


def _blank(host: Document, job: Job, reader: Reader, *notes: str, foreign: str | None = None) -> Report:
    """The report of a file of which nothing is judged."""
    document = host if foreign else None
    return Report(
        host.name,
        job.releases,
        reader,
        job.ranks,
        (),
        document=document,
        notes=notes,
        foreign=foreign,
        job=job,
    )


def _with_lifted(located: LocatedConfig, job: Job, config: Report, *, is_judged: bool) -> Report:
    """The report of a launch file that holds its config: its own findings, and those of the config in their places."""
    host = located.host
    assert located.job is not None
    found, silenced = (
        tuple(lifted for each in group if (lifted := located.lift(each)) is not None)
        for group in (config.diagnostics, config.suppressed)
    )
    if is_judged:
        own = _report(host, job._replace(arguments=None), config.reader, found, cut=config.cut)
        found, silenced = own.diagnostics, (*silenced, *own.suppressed)
    return Report(
        host.name,
        config.target,
        config.reader,
        config.world_size,
        found,
        suppressed=silenced,
        sizes=config.sizes,
        document=host,
        notes=(located.note, *located.job.left_open(config.world_size), *config.notes),
        cut=config.cut,
        job=job,
        base=located.job.inline or (),
    )
