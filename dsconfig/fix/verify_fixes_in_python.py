"""Verify the fixes of all configs in a Python source together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from dsconfig.check.check import recheck_text
from dsconfig.check.report import Report
from dsconfig.document import Document
from dsconfig.document.apply_operations import apply_operations_to_value, are_equal_for_parsers
from dsconfig.document.text_edit import TextEdit, apply_edits
from dsconfig.fix.verify_fixes import (
    ClaimedRanges,
    PlacedFix,
    apply_verdict,
    combine_fixes,
    do_operations_harm,
    fixes_text_itself,
    is_fixable,
    lacks_exactly,
    trial_budget,
    verify_fixes_of_reports,
)


def verify_fixes_in_python(reports: Sequence[Report]) -> list[Report]:
    """Return the reports on all configs in a Python source with only the fixes that work.

    Each trial changes all configs at once: it has to read the whole program, so separate trials would take time
    quadratic in the number of configs.
    """
    candidates = {number: fixes for number, report in enumerate(reports) if (fixes := _candidates(report))}
    together = {number: _combined(reports[number], fixes) for number, fixes in candidates.items()}
    configs = _apply_to_configs(reports, together)
    verified = set[int]()
    remaining: dict[int, list[list[PlacedFix]]] = {}
    for number, fixes in candidates.items():
        if number in configs and _is_resolved(reports[number], configs[number], together[number]):
            verified.update(id(each.diagnostic) for each in together[number])
        else:
            remaining[number] = fixes
    for turn in range(max(map(len, remaining.values()), default=0)):
        single = {number: fixes[turn] for number, fixes in remaining.items() if turn < len(fixes)}
        configs = _apply_to_configs(reports, single)
        for number, placed in single.items():
            if number not in configs:
                candidates.pop(number, None)
            elif _report_unless_harmful(reports[number], configs[number], placed) is not None:
                verified.update(id(each.diagnostic) for each in placed)
    return [
        report.copy_with(
            diagnostics=tuple(
                apply_verdict(each, report, is_verified=id(each) in verified) for each in report
            )
        )
        if number in candidates
        else verify_fixes_of_reports(report)
        for number, report in enumerate(reports)
    ]


def _combined(report: Report, fixes: list[list[PlacedFix]]) -> list[PlacedFix]:
    """Return all fixes of a config if they can be applied together, otherwise an empty list."""
    document, diagnostics = report.document, [each.diagnostic for each in chain(*fixes)]
    combined = [] if document is None else combine_fixes(document, diagnostics)
    return combined if len(combined) == len(fixes) else []


def _candidates(report: Report) -> list[list[PlacedFix]]:
    """Return groups of a config's fixes; each can be tried together with one of each sibling."""
    document, fixable = report.document, [each for each in report if is_fixable(each)]
    if document is None or document.cell is not None or document.reread is None or report.is_truncated:
        return []
    if any(map(fixes_text_itself, fixable)) or len(fixable) > trial_budget(
        document, len(report.target.releases)
    ):
        return []
    return [combine_fixes(document, [each]) for each in fixable]


def _apply_to_configs(
    reports: Sequence[Report], fixes_by_config: Mapping[int, list[PlacedFix]]
) -> dict[int, Document]:
    """Apply fixes of several configs to their source; return the changed configs by index.

    A config is absent if its fixes overlap, or if the source does not contain the same configs afterwards.
    """
    from dsconfig.launch.python.config_dicts import sibling_documents

    ranges, changes, changed = ClaimedRanges(), list[TextEdit](), list[int]()
    for number, fixes in fixes_by_config.items():
        # Fixes that touch in the text cannot be written at once.
        if fixes and all(ranges.claim_ranges(each.edits) for each in fixes):
            changes += chain(*(each.edits for each in fixes))
            changed.append(number)
    document = reports[0].document
    if document is None or not changes:
        return {}
    configs = sibling_documents(document, apply_edits(document.text, changes))
    return {number: configs[number] for number in changed} if len(configs) == len(reports) else {}


def _is_resolved(report: Report, new: Document, fixes: Sequence[PlacedFix]) -> bool:
    """Return whether the fixes resolved their diagnostics and changed nothing else; see `_are_independent`."""
    new_report = _report_unless_harmful(report, new, fixes)
    return new_report is not None and (len(fixes) == 1 or lacks_exactly(report, new_report, fixes))


def _report_unless_harmful(report: Report, new: Document, fixes: Sequence[PlacedFix]) -> Report | None:
    """Return the report on a text with the intended value, or None if the fixes are harmful."""
    assert report.document is not None
    steps = [step for each in fixes for step in each.fix.operations]
    try:
        value = apply_operations_to_value(report.document.value(), steps)
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if not are_equal_for_parsers(new.value(), value):
        return None
    new_report = recheck_text(report, new, is_located=False)
    return None if do_operations_harm(report, new_report, steps) else new_report
