"""`check`: read → evaluate for each release → merge → suppress → sort → `Report`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dsconfig.check import apply_suppressions
from dsconfig.check.merge_releases import diagnostics, merged
from dsconfig.check.notes import notes, world_sizes
from dsconfig.check.report import Report, by_place
from dsconfig.check.scope import foreign
from dsconfig.check.scope import of_file as target_of
from dsconfig.consumers import accelerate_launch_file
from dsconfig.consumers.consumer_versions import EXPECTED, is_known
from dsconfig.core.diagnostic import Diagnostic
from dsconfig.core.releases import NUMBERS, Interval, Target
from dsconfig.document import Document
from dsconfig.evaluation.context import Source
from dsconfig.job.consumer import Given, Reader, given, of_file
from dsconfig.job.dsconfig_block import declared
from dsconfig.job.run_facts import Known
from dsconfig.job.run_facts import of_file as known_of
from dsconfig.launch import detect_config
from dsconfig.launch.formats import SCRIPTS
from dsconfig.launch.job_arguments import with_version
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.launch.parallelism import of_launch_file
from dsconfig.launch.program_errors import refused

if TYPE_CHECKING:
    from dsconfig.launch.job import Job


def judge_of(report: Report) -> Callable[[Document], Report]:
    """What judges another text of the same file as this report judges it: in the same circumstances."""

    def judge(document: Document) -> Report:
        if report.is_held:  # the config stands in a launch file, and its arguments with it
            return check_document(
                document, report.target, world_size=report.world_size, consumer=report.reader
            )
        return _report(document, report.target, report.world_size, report.reader, report.given)

    return judge


def check_document(
    document: Document,
    target: Target,
    *,
    world_size: int | None = None,
    consumer: str | Reader = "deepspeed",
) -> Report:
    """Check a document in circumstances that are known; see `dsconfig.check`. Its fixes are not tried yet."""
    reader = given(consumer) if isinstance(consumer, str) else consumer
    if not is_known(reader.spec):
        raise ValueError(f"unknown consumer {reader.spec!r}: expected {EXPECTED}")
    if world_size is not None and (type(world_size) is not int or world_size < 1):
        raise ValueError(f"world size {world_size!r}: expected an integer of at least 1")
    return check(locate(document, reader.spec if reader.given else reader.said), target, world_size, reader)


def check(located: LocatedConfig, target: Target, world_size: int | None, reader: Reader) -> Report:
    """Check a config where it stands, as its job reads it. Its fixes are not tried yet."""
    host = located.host
    if why := foreign(host):
        notes = (f"{host.name}: {why}",)
        return Report(host.name, target, reader, world_size, (), document=host, notes=notes, foreign=why)
    if located.job is not None:
        return _check_job(located, located.job, target, world_size, reader)
    if located.how == "file":
        return _report(host, target, world_size or reader.processes, reader, reader.given)
    return _check_launch_file(located, target, world_size, reader)


def _check_launch_file(
    located: LocatedConfig, target: Target, world_size: int | None, reader: Reader
) -> Report:
    """Check a launch file of Accelerate, and the config that it names."""
    host = located.host
    world_size = world_size or accelerate_launch_file.processes(host.value())
    degrees = Known(parallelism=of_launch_file(host.value(), host.name))
    reader = reader._replace(known=reader.known.over(degrees))
    own = reader if reader.name == "accelerate" else reader._replace(name="accelerate", version=None)
    report = _report(host, target, world_size, with_version(own, host.name))
    if located.how != "named" or located.config is None or located.reader is None:
        return report.replaced(notes=(located.note,)) if located.note else report
    who = located.reader._replace(known=reader.known.over(located.reader.known))
    said = _as_it_says(located.config, target, world_size, who)
    child = _report(located.config, *said, reader.given)
    return report.replaced(notes=(located.note,), children=(child,))


def _check_job(
    located: LocatedConfig, job: Job, target: Target, world_size: int | None, reader: Reader
) -> Report:
    """Check the config that a launch file leads to, as its job reads it."""
    who = (reader if reader.said else job.reader)._replace(known=reader.known.over(job.reader.known))
    target, size, who = _as_it_says(job.document, target, world_size, who)
    size = size or job.world_size
    who = with_version(who, job.launch.name)
    blank = job.launch.name.endswith(SCRIPTS) and not any(refused(job, who.version))
    if located.how == "held" and located.config is not None:
        inner = _report(located.config, target, size, who, job.given)
        if blank:
            return _held(located, inner, *_raised(located, inner))
        return _report(job.launch, target, size, who, held=(located, inner))
    own = reader._replace(name=who.name, version=who.version)
    report = (
        Report(job.launch.name, target, own, size, ()) if blank else _report(job.launch, target, size, own)
    )
    if located.how == "nowhere" or located.config is None:
        notes = (job.note, f"{job.launch.name}: {located.unlike}") if located.unlike else (job.note,)
        return report.replaced(notes=notes)
    if located.how == "launch":
        version = who.version if who.name == "accelerate" else None
        inside = who._replace(given=job.given)
        on = located.next(version, inside.spec if inside.given else inside.said)
        child = check(on, target, size, inside)
    else:
        child = _report(located.config, target, size, who, job.given)
    return report.replaced(notes=(job.note, *job.left_open(child.world_size)), children=(child,))


def _as_it_says(
    config: Document | None, target: Target, world_size: int | None, reader: Reader
) -> tuple[Target, int | None, Reader]:
    """The circumstances of a config that a launch file leads to: its own words count before the file's."""
    if config is None:
        return target, world_size, reader
    said, reader = declared(config.value()), with_version(reader, config.name)
    if reader.origin != "argument":
        reader = (of_file(config.value()) or reader)._replace(known=reader.known)
    own = known_of(config.value(), config.name)
    if own.model and (reader.known.model is None or reader.known.model.origin != "argument"):
        reader = reader._replace(known=own.over(reader.known))
    if target.origin not in ("argument", "environment"):
        target = target_of(config) or target
    return target, world_size or said.world_size, reader


def _report(
    document: Document,
    target: Target,
    world_size: int | None,
    reader: Reader,
    given: Given | None = None,
    held: tuple[LocatedConfig, Report] | None = None,
) -> Report:
    """The report of one text. `held`: the config that stands in it, and the report of that."""
    span = Interval(NUMBERS[target.releases[0]], NUMBERS[target.releases[-1]])
    found, newest, cut = merged(
        Source(document, reader.spec, world_size, span, given, reader.known, detect_config.kind_of(document)),
        target.releases,
    )
    raised, silenced = ((), ()) if held is None else _raised(*held)
    cut = cut or (held is not None and held[1].cut)
    result = apply_suppressions.apply(document, (*diagnostics(document, found), *raised), cut=cut)
    report = Report(
        document.name,
        target,
        reader,
        world_size,
        tuple(sorted((*result.kept, *result.unused), key=by_place)),
        suppressed=(*silenced, *result.suppressed),
        sizes=world_sizes(newest.context),
        document=document,
        notes=notes(document, newest, reader, cut=result.cut),
        cut=result.cut,
        given=given,
    )
    return report if held is None else _held(*held, report.diagnostics, report.suppressed)


def _held(
    located: LocatedConfig,
    config: Report,
    diagnostics: tuple[Diagnostic, ...],
    suppressed: tuple[Diagnostic, ...],
) -> Report:
    """The report of a launch file that holds its config: with these findings, else that of the config."""
    job = located.job
    assert job is not None
    return Report(
        job.launch.name,
        config.target,
        config.reader,
        config.world_size,
        diagnostics,
        suppressed=suppressed,
        sizes=config.sizes,
        document=job.launch,
        notes=(job.note, *job.left_open(config.world_size), *config.notes),
        cut=config.cut,
        given=config.given,
        base=job.inline or (),
    )


def _raised(located: LocatedConfig, config: Report) -> tuple[tuple[Diagnostic, ...], ...]:
    """The findings on the config that a launch file holds, and those silenced, at their places there."""
    return tuple(
        tuple(lifted for found in group if (lifted := located.lift(found)) is not None)
        for group in (config.diagnostics, config.suppressed)
    )
