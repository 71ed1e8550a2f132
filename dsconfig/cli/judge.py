"""The verdict on one document, without what options and settings switch off."""

from __future__ import annotations

from collections.abc import Callable

from dsconfig.checking.check import check_document, judge_of, with_proven_fixes
from dsconfig.checking.circumstances import Circumstances
from dsconfig.checking.discover import excluded
from dsconfig.checking.report import Report
from dsconfig.cli.options import Options, judged_under
from dsconfig.document import Document


def circumstances(document: Document, options: Options) -> Circumstances:
    """Release, world size and reader of one document."""
    own = options.of(document.name)
    return judged_under(document, own.target, options.args.world_size, own.world_size, own.reader)


def judge(document: Document, options: Options, under: Circumstances | None = None) -> Report:
    """The report of one document, and of those that it names."""
    target, size, reader = under or circumstances(document, options)
    report = check_document(document, target, world_size=size, consumer=reader)
    return _followed(_selected(report, options), options)


def judge_again(report: Report, options: Options) -> Callable[[Document], Report]:
    """What judges another text of the file that a report is of, in the circumstances of its job."""
    judge = judge_of(report)
    return lambda document: _selected(judge(document), options)


def shown(document: Document, options: Options) -> Report:
    """The same, with the fixes that were tried and do no harm."""
    return with_proven_fixes(judge(document, options))


def _followed(report: Report, options: Options) -> Report:
    """The report without those of files that it names and the settings exclude."""
    kept, told = [], []
    for child in report.children:
        own = options.of(child.name).settings
        if excluded(child.name, own.root, own.exclude):
            told.append(f"{child.name}, which {report.name} names, is excluded by {own.where}")
        else:
            kept.append(_followed(_selected(child, options), options))
    return report.replaced(children=tuple(kept), notes=(*report.notes, *told)) if report.children else report


def _selected(report: Report, options: Options) -> Report:
    """The report with what the selection and the per-file ignores silence moved to `suppressed`."""
    own = options.of(report.name)
    off = own.off | _ignored(report.name, own)
    silenced = tuple(found for found in report.diagnostics if found.code in off)
    if not silenced:
        return report
    kept = tuple(found for found in report.diagnostics if found.code not in off)
    return report.replaced(diagnostics=kept, suppressed=(*report.suppressed, *silenced))


def _ignored(name: str, options: Options) -> frozenset[str]:
    if not options.per_file_ignores:
        return frozenset()
    root = options.settings.root
    hits = (codes for pattern, codes in options.per_file_ignores if excluded(name, root, (pattern,)))
    return frozenset().union(*hits)
