"""What a case states about each finding: its place, its effect, its words, and the config after its fix."""

from __future__ import annotations

import difflib
import json
from typing import Any

from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Fix
from dsconfig.document import read_text
from dsconfig.document.apply_operations import edits_for_fix
from dsconfig.document.text_edit import apply_edits
from dsconfig.fix.verify_fixes import is_fix_safe
from tests.cases import Case


def found(case: Case) -> list[dict[str, Any]]:
    """What the rule finds in the config of its case, in the form of `finds`."""
    report = case.check()
    return [_pinned(diagnostic, report) for diagnostic in report if diagnostic.code == case.code]


def verdicts(finds: list[dict[str, Any]]) -> list[str]:
    """Path and effect of each finding, without regard to the order."""
    return sorted(f"{each['path']} {each['effect']}".strip() for each in finds)


def difference(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> str:
    """A unified diff of both lists as a reader would see them; empty if nothing differs, also not in type."""
    before, after = (_shown(finds) for finds in (expected, actual))
    lines = difflib.unified_diff(before, after, "the case file", "the rule", n=100, lineterm="")
    return "\n".join(lines)


def _shown(finds: list[dict[str, Any]]) -> list[str]:
    """One line for each place, effect, message, help and fix, then the text after the fix."""
    lines = []
    for each in finds:
        lines.append(f"{each['path'] or 'the config'}: {each['effect']}")
        lines += [f"  {name}: {each[name]}" for name in ("message", "help") if name in each]
        if fix := each.get("fix"):
            lines.append(f"  fix ({'safe' if fix['safe'] else 'unsafe'}): {fix['title']}")
            gives = fix["gives"] if isinstance(fix["gives"], str) else _laid_out(fix["gives"])
            lines += [f"    {line}" for line in gives.split("\n")]
    return lines


def _pinned(diagnostic: Diagnostic, report: Report) -> dict[str, Any]:
    pinned: dict[str, Any] = {
        "path": diagnostic.dotted,
        "effect": diagnostic.effect.value,
        "message": diagnostic.message,
    }
    if diagnostic.help is not None:
        pinned["help"] = diagnostic.help
    if diagnostic.fix is not None:
        pinned["fix"] = {
            "title": diagnostic.fix.title,
            "safe": is_fix_safe(diagnostic, report),
            "gives": _fixed(diagnostic.fix, report),
        }
    return pinned


def _fixed(fix: Fix, report: Report) -> Any:
    """The text after this fix alone; as a config where the text is no more than that, indented by two."""
    assert report.document is not None
    document = report.document
    if document.is_data:
        document = read_text(_laid_out(document.value()))
    text = apply_edits(document.text, edits_for_fix(document, fix))
    config = read_text(text).value()
    return config if _laid_out(config) == text else text


def _laid_out(config: Any) -> str:
    return json.dumps(config, indent=2)
