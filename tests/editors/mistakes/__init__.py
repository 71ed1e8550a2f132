"""Mistakes that users make, and what both editors say of each, where."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake
from tests.editors.mistakes.optimizer import OPTIMIZER
from tests.editors.mistakes.precision import PRECISION
from tests.editors.mistakes.root import ROOT
from tests.editors.mistakes.sections import SECTIONS
from tests.editors.mistakes.zero import ZERO

MISTAKES: tuple[Mistake, ...] = (*ROOT, *PRECISION, *ZERO, *OPTIMIZER, *SECTIONS)

__all__ = ["MISTAKES", "Mistake"]
