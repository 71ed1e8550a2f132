"""Amounts of memory and numbers of things, as people write them on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.gpu_memory import Gpu

MOST = 10**18
"""No number is counted up to this."""


def amount(text: str) -> int:
    """Bytes: `80GiB`, `512MiB`, `1.5TB`."""
    from dsconfig.core.wording import byte_sizes

    try:
        return byte_sizes.amount(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def gpu(text: str) -> Gpu:
    """The memory of a GPU: an amount, a card's name, or the size by which cards are sold."""
    from dsconfig.core import gpu_memory

    try:
        return gpu_memory.gpu(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """A whole number above 0, which may be written as 7e9."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value >= MOST:
        raise argparse.ArgumentTypeError(f"expected a number below {MOST:.0e}, got `{text[:40]}`")
    if not value >= 1 or value != int(value):
        raise argparse.ArgumentTypeError(
            f"expected a whole number above 0, such as 4096 or 7e9, got `{text[:40]}`"
        )
    return int(value)


def times(text: str) -> float:
    """A number of at least 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value < MOST:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got `{text[:40]}`")
    return value
