"""What a case pins of each finding: its place, its effect, its words, and the config after its fix."""

from __future__ import annotations

import json
from typing import Any

from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Fix
from dsconfig.document import read_text
from dsconfig.document.edit import edits
from dsconfig.document.text_edit import apply
from dsconfig.fix.verify import is_safe
from tests.cases import Case


def found(case: Case) -> list[dict[str, Any]]:
    """What the rule finds in the config of its case, in the form of `finds`."""
    report = case.check()
    return [_pinned(diagnostic, report) for diagnostic in report if diagnostic.code == case.code]


def verdicts(finds: list[dict[str, Any]]) -> list[str]:
    """Path and effect of each finding, without regard to the order."""
    return sorted(f"{each['path']} {each['effect']}".strip() for each in finds)


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
            "safe": is_safe(diagnostic, report),
            "gives": _fixed(diagnostic.fix, report),
        }
    return pinned


def _fixed(fix: Fix, report: Report) -> Any:
    """The text after this fix alone; as a config where the text is no more than that, indented by two."""
    assert report.document is not None
    document = report.document
    if document.is_data:
        document = read_text(_laid_out(document.value()))
    text = apply(document.text, edits(document, fix))
    config = read_text(text).value()
    return config if _laid_out(config) == text else text


def _laid_out(config: Any) -> str:
    return json.dumps(config, indent=2)
