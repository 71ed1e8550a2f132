"""The verdict on one document, without what options and settings switch off."""

from __future__ import annotations

from collections.abc import Callable

from dsconfig.check.check import check_document, judge_of
from dsconfig.check.effective_settings import Options, judged_under
from dsconfig.check.report import Report, by_place
from dsconfig.check.scope import Circumstances
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic
from dsconfig.document import Document


def circumstances(document: Document, options: Options) -> Circumstances:
    """Release, world size and reader of one document."""
    own = options.of(document.name)
    size = options.asked.world_size
    return judged_under(document, own.target, size, own.world_size, own.reader, own.known)


def judge(document: Document, options: Options, under: Circumstances | None = None) -> Report:
    """The report of one document, and of those that it names."""
    target, size, reader = under or circumstances(document, options)
    report = check_document(document, target, world_size=size, consumer=reader)
    return _followed(_selected(report, options), options)


def judge_again(report: Report, options: Options) -> Callable[[Document], Report]:
    """What judges another text of the file that a report is of, in the circumstances of its job."""
    judge = judge_of(report)
    return lambda document: _selected(judge(document), options)


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
