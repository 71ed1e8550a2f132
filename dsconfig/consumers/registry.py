"""Every consumer by its name. Lightning (2.6 strategies/deepspeed.py) and `elastic` fill nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers import ELASTIC
from dsconfig.consumers.accelerate import ACCELERATE
from dsconfig.consumers.consumer import Consumer
from dsconfig.consumers.consumer_versions import parted
from dsconfig.consumers.transformers import TRANSFORMERS

BY_NAME: Mapping[str, Consumer] = {
    "deepspeed": Consumer("deepspeed"),
    "transformers": TRANSFORMERS,
    "accelerate": ACCELERATE,
    "lightning": Consumer("lightning"),
    ELASTIC: Consumer(ELASTIC),
}


def consumer_of(spec: str) -> Consumer:
    """The consumer of a text such as `transformers==4.45`."""
    name, version = parted(spec)
    return BY_NAME[name].of(version)
