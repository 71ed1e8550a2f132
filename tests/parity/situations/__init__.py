"""Situations written by hand: for each cross-field refusal of some release, the keys and the values around it."""

from tests.parity.situations.base import Situation
from tests.parity.situations.gone import GONE
from tests.parity.situations.sections import SECTIONS
from tests.parity.situations.training import TRAINING
from tests.parity.situations.zero import ZERO

SITUATIONS: tuple[Situation, ...] = (*TRAINING, *ZERO, *SECTIONS, *GONE)

__all__ = ["SITUATIONS", "Situation"]
