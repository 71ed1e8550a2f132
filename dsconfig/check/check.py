"""`check`: evaluate a config for each class of releases, merge and suppress diagnostics, build a `Report`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dsconfig.check import suppressions
from dsconfig.check.build_job import asked, foreign, host_reader, stated_job
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report, by_place
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, Fix, Location, Move, Related, Rename
from dsconfig.core.json_types import JsonObject, NamedTuple
from dsconfig.core.releases import NUMBERS, Interval, Target
from dsconfig.core.wording import in_yaml
from dsconfig.document import Document
from dsconfig.document.document import location, location_of
from dsconfig.evaluation.context import Context, Source
from dsconfig.evaluation.evaluate import Outcome, Said, evaluate
from dsconfig.job.detect_consumer import Reader
from dsconfig.job.job import Job
from dsconfig.launch import detect_config
from dsconfig.launch.format_table import SCRIPTS
from dsconfig.launch.located_config import LocatedConfig, locate
from dsconfig.launch.program_behavior import overwrite_of, overwrites, refused
from dsconfig.rules import Rule
from dsconfig.rules._batch_triplet import supported_world_sizes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.evaluation.context import Finding


# `check`: locate → evaluate for each class of releases → merge → ignores → sort → `Report`.


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
    result = suppressions.apply(document, (*listed, *lifted), cut=more or cut)
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


# The verdict on one document, without what options and settings switch off.


def job_of(document: Document, options: Options) -> Job:
    """The job of one document."""
    return options.of(document.name).job(locate(document))


def judge(document: Document, options: Options, job: Job | None = None) -> Report:
    """The report of one document, and of those that it names. `job`: that which is known already."""
    located, found = prepared(document, options, job)
    return finished(check(located, found), options)


def prepared(document: Document, options: Options, job: Job | None = None) -> tuple[LocatedConfig, Job]:
    """Where the config of a document stands, and its job; `job`: that which is known already."""
    located = locate(document)
    return located, options.of(document.name).job(located) if job is None else stated_job(located, job)


def finished(report: Report, options: Options) -> Report:
    """The report without what options and settings switch off."""
    return _followed(_selected(report, options), options)


def judge_again(report: Report, options: Options) -> Callable[[Document], Report]:
    """What judges another text of the file that a report is of, in the same job."""
    return lambda document: _selected(recheck(report, document), options)


def _followed(report: Report, options: Options) -> Report:
    """The report without those of files that it names and the settings exclude."""
    kept, told = [], []
    for child in report.children:
        own = options.of(child.name)
        if own.excludes(child.name):
            told.append(f"{child.name}, which {report.name} names, is excluded by {own.settings.where}")
        else:
            kept.append(_followed(_selected(child, options), options))
    return report.replaced(children=tuple(kept), notes=(*report.notes, *told)) if report.children else report


def _selected(report: Report, options: Options) -> Report:
    """The report as it is selected: what is off moves to `suppressed`, what is unfixable has no fix."""
    own, found, silenced = options.of(report.name), report.diagnostics, report.suppressed
    if options.asked.no_ignores:
        found, silenced = tuple(sorted((*found, *silenced), key=by_place)), ()
    off, unfixable = own.rules.off_in(report.name), own.rules.unfixable
    shown = SEVERITIES[: SEVERITIES.index(own.min_severity) + 1]

    def is_kept(each: Diagnostic) -> bool:
        return each.code not in off and each.severity in shown

    kept = tuple(filter(is_kept, found))
    if len(kept) < len(found):
        silenced = (*silenced, *(each for each in found if not is_kept(each)))
    if unfixable:
        kept = tuple(each._replace(fix=None) if each.code in unfixable else each for each in kept)
    return report if kept == report.diagnostics else report.replaced(diagnostics=kept, suppressed=silenced)


# Notes on the assumptions behind a report, which are not findings.


def world_sizes(context: Context) -> tuple[int, ...] | None:
    """The world sizes at which the batch works; None where any does, or one is given."""
    return supported_world_sizes(context) if context.is_config and context.world_size is None else None


def notes(document: Document, newest: Outcome, reader: Reader, *, cut: bool) -> tuple[str, ...]:
    """What else is to be said of the file as a whole."""
    most = f"{newest.context.most:,}"
    more = f"{document.name}: only the first {most} findings of a rule are listed: there are more"
    remarks = (f"{document.name}: {told}" for told in newest.context.remarks)
    return (*_unfilled(document, newest, reader), *remarks, *([more] if cut else []))


def _unfilled(document: Document, newest: Outcome, reader: Reader) -> tuple[str, ...]:
    """How many values are "auto", where the consumer does not fill them."""
    if reader.name != "deepspeed" or not newest.autos:
        return ()
    values = "1 value is" if newest.autos == 1 else f"{newest.autos} values are"
    advice = "if one of them reads the file, check with --consumer transformers"
    return (f'{document.name}: {values} "auto", which only Transformers or Accelerate fill: {advice}',)


# What is wrong whoever reads a config, where its program leaves open who does.


def wrong_for_all(
    found: list[Diagnostic], source: Source, reader: Reader, releases: tuple[str, ...]
) -> tuple[list[Diagnostic], tuple[str, ...]]:
    """The diagnostics for the assumed reader that hold for every other candidate too, and notes on that.

    Two readers may reject the same value in different words, so that an error of one at a path stands for an
    error of the other there.
    """
    if not reader.others:
        return found, ()
    kept = found
    for other in reader.others:
        theirs = diagnostics(
            source.document, merged(source._replace(consumer=other, given=None), releases)[0]
        )
        same = {(each.code, each.path) for each in theirs}
        errors = {each.path for each in theirs if each.severity == "error"}
        kept = [
            each
            for each in kept
            if (each.code, each.path) in same or (each.severity == "error" and each.path in errors)
        ]
    others = " or ".join(reader.others)
    left = len(found) - len(kept)
    told = f"{source.document.name}: {reader.name} is assumed to read it, but {others} may ({reader.why})"
    if left:
        is_left = "1 problem for it alone is" if left == 1 else f"{left} problems for it alone are"
        told = f"{told}; {is_left} left out: --consumer {reader.name} shows {'it' if left == 1 else 'them'}"
    return kept, (told,)


# One evaluation for each class of releases that behave alike, and one finding over all that share it.


class Merged(NamedTuple):
    """One finding over the releases that share it, newest first; its words are the newest release's."""

    rule: Rule
    finding: Finding
    releases: list[str]


def merged(source: Source, releases: tuple[str, ...]) -> tuple[list[Merged], Outcome, bool]:
    """The findings over all releases, the outcome at the newest, and whether there is more than was listed.

    The newest speaks for all in the notes.
    """
    found: dict[Hashable, Merged] = {}
    newest, cut = None, False
    left = list(releases)
    said: Said = {}
    while left:  # one evaluation for neighbours that behave alike, the newest first
        outcome = evaluate(source, NUMBERS[left[-1]], said)
        alike = [left.pop()]
        while left and NUMBERS[left[-1]] in outcome.alike:
            alike.append(left.pop())
        newest = newest or outcome
        cut = cut or outcome.context.cut
        for rule, finding in outcome.findings:
            _add(found, rule, finding, alike)
    assert newest is not None
    return list(found.values()), newest, cut


def _add(found: dict[Hashable, Merged], rule: Rule, finding: Finding, releases: list[str]) -> None:
    key = (rule.code, finding.path, finding.effect, finding.span, finding.part)
    known = found.setdefault(key, Merged(rule, finding, []))
    if known.finding.fix != finding.fix:  # what is right here may be wrong there
        known = found[key] = known._replace(finding=_with_unsafe_fix(known.finding, finding.fix))
    if not known.releases or known.releases[-1] != releases[-1]:
        known.releases.extend(releases)


def _with_unsafe_fix(finding: Finding, other: Fix | None) -> Finding:
    """The finding where another release has another fix, or none.

    A key that is taken under its new name here may not be there.
    """
    fix = finding.fix
    if fix is None or (other is None and any(isinstance(step, Rename | Move) for step in fix.operations)):
        return finding._replace(fix=None)
    return finding._replace(fix=fix._replace(safe=False))


def diagnostics(document: Document, found: Iterable[Merged]) -> list[Diagnostic]:
    """The findings as diagnostics, each with its place in the document."""
    return [
        Diagnostic(
            code=item.rule.code,
            name=item.rule.name,
            effect=item.finding.effect or item.rule.effect,
            message=item.finding.message,
            path=item.finding.path,
            help=_advice(document, item.finding.help),
            location=_place(document, item.finding),
            releases=tuple(reversed(item.releases)),
            related=_related(document, item.finding),
            fix=_titled(document, item.finding.fix),
        )
        for item in found
    ]


def _advice(document: Document, help: str | None) -> str | None:
    return in_yaml(help) if help and document.format == "yaml" else help


def _titled(document: Document, fix: Fix | None) -> Fix | None:
    return fix._replace(title=in_yaml(fix.title)) if fix and document.format == "yaml" else fix


def _related(document: Document, finding: Finding) -> tuple[Related, ...]:
    """The other places of a finding; not those of keys that nobody wrote, of which a label says "here"."""
    by_path = (
        Related(text, path, location_of(document, path))
        for text, path in finding.related
        if _is_written(document, path)
    )
    in_text = (Related(text, finding.path, location(document, span)) for text, span in finding.places)
    return (*by_path, *in_text)


def _is_written(document: Document, path: KeyPath) -> bool:
    if not document.is_data:
        return document.located(path)
    value: Json = document.value()
    for part in path:
        inside = isinstance(value, dict) and part in value
        if not inside and not (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            return False
        value = value[part]
    return True


def _place(document: Document, finding: Finding) -> Location | None:
    if finding.span is not None:
        return location(document, finding.span)
    return location_of(document, finding.path, finding.part)
