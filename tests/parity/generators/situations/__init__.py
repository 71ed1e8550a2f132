"""Situations written by hand: for each refusal that joins several keys, those keys and values around it."""

from tests.parity.generators.situations.base import Situation
from tests.parity.generators.situations.batch import BATCH_SITUATIONS
from tests.parity.generators.situations.communication import COMMUNICATION
from tests.parity.generators.situations.compression import COMPRESSION
from tests.parity.generators.situations.elasticity import ELASTICITY
from tests.parity.generators.situations.gone import GONE
from tests.parity.generators.situations.optimizer import OPTIMIZER
from tests.parity.generators.situations.parallel import PARALLEL
from tests.parity.generators.situations.precision import PRECISION
from tests.parity.generators.situations.quantization import QUANTIZATION
from tests.parity.generators.situations.sections import SECTIONS
from tests.parity.generators.situations.zero import ZERO

SITUATIONS: tuple[Situation, ...] = (
    *BATCH_SITUATIONS,
    *PRECISION,
    *COMMUNICATION,
    *OPTIMIZER,
    *ZERO,
    *SECTIONS,
    *PARALLEL,
    *ELASTICITY,
    *COMPRESSION,
    *QUANTIZATION,
    *GONE,
)
"""In this order: the generator draws from it with a seed."""

__all__ = ["SITUATIONS", "Situation"]
