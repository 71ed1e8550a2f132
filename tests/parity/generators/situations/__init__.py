"""Situations written by hand: for each refusal that joins several keys, those keys and values around it."""

from tests.parity.generators.situations.base import Situation
from tests.parity.generators.situations.gone import GONE
from tests.parity.generators.situations.parallel import PARALLEL
from tests.parity.generators.situations.sections import SECTIONS
from tests.parity.generators.situations.training import TRAINING
from tests.parity.generators.situations.zero import ZERO

SITUATIONS: tuple[Situation, ...] = (*TRAINING, *ZERO, *SECTIONS, *PARALLEL, *GONE)

__all__ = ["SITUATIONS", "Situation"]
