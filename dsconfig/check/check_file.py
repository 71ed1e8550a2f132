"""The verdict on one document, without what options and settings switch off."""

from __future__ import annotations

from collections.abc import Callable

from dsconfig.check.build_job import stated_job
from dsconfig.check.check import check, recheck
from dsconfig.check.effective_settings import Options
from dsconfig.check.report import Report, by_place
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic
from dsconfig.document import Document
from dsconfig.job.job import Job
from dsconfig.launch.located_config import LocatedConfig, locate


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
