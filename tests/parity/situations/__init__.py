"""Situations written by hand: for each refusal that joins several keys, those keys and values around it."""

from tests.parity.situations.base import Situation
from tests.parity.situations.gone import GONE
from tests.parity.situations.parallel import PARALLEL
from tests.parity.situations.sections import SECTIONS
from tests.parity.situations.training import TRAINING
from tests.parity.situations.zero import ZERO

SITUATIONS: tuple[Situation, ...] = (*TRAINING, *ZERO, *SECTIONS, *PARALLEL, *GONE)

__all__ = ["SITUATIONS", "Situation"]
