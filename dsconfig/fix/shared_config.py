"""A config that several jobs read: it is fixed as all of them need it, and harmed for none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsconfig.fix.apply_fixes import Judge

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.document import Document


def agreed(judges: Sequence[Judge]) -> Judge:
    """What judges a text as the first does, with the findings of all and the fixes that all agree on."""

    def judge(document: Document) -> Report:
        first, *others = (each(document) for each in judges)
        if not others:
            return first
        fixes = [{_fix(found) for found in other} for other in others]
        found = [
            each if all(_fix(each) in known for known in fixes) else each._replace(fix=None) for each in first
        ]
        said = {_name(each) for each in found}
        more = {_name(each): each._replace(fix=None) for other in others for each in other}
        found += [each for name, each in more.items() if name not in said]
        return first.replaced(diagnostics=tuple(found))

    return judge if len(judges) > 1 else judges[0]


def _name(found: Diagnostic) -> object:
    return found.code, found.path, found.effect


def _fix(found: Diagnostic) -> object:
    return found.code, found.path, found.fix.title if found.fix else ""
