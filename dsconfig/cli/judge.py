"""The verdict on one document, without what options and settings switch off."""

from __future__ import annotations

from dsconfig.checking.check import check_document, with_proven_fixes
from dsconfig.checking.circumstances import Circumstances
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
    if report.children:
        report = report.replaced(children=tuple(_selected(child, options) for child in report.children))
    return _selected(report, options)


def shown(document: Document, options: Options) -> Report:
    """The same, with the fixes that were tried and do no harm."""
    return with_proven_fixes(judge(document, options))


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
    from dsconfig.checking.discover import excluded

    root = options.settings.root
    hits = (codes for pattern, codes in options.per_file_ignores if excluded(name, root, (pattern,)))
    return frozenset().union(*hits)
