"""Suppressions that silence nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule


@rule("DSC008", effect="ignored", reads="text")
def unused_suppression(_: Context) -> Iterator[Finding]:
    """A suppression silences nothing, or names no rule.

    It outlived its reason, or never had one: the finding it names is not there. It is found where
    suppressions are applied (`dsconfig.check.apply_suppressions`), after the verdict; the rule here only gives it
    a page and a code.

    Good:

        {"train_batch_size": 8}
    """
    yield from ()
