"""GPU memory: an amount with a unit, the name of a card, or the size by which cards are sold."""

from __future__ import annotations

import re
from typing import NamedTuple

# The memory of a GPU: an amount, the name of a card, or the size by which cards are sold.

MARGIN, PART = 2 << 30, 32
"""Kept free of a GPU unless something else is asked for: so many bytes, and a part of its memory."""


class Card(NamedTuple):
    """A card: the gigabytes that it is sold by, and what torch has of them."""

    sold: tuple[int, ...]
    total: float
    """GiB, as torch has it (`total_memory`, the "total capacity" of its out-of-memory errors)."""


CARDS = {
    "t4": Card((16,), 14.5),  # 15360 MiB
    "v100-16": Card((16,), 15.7),  # 16384 MiB
    "v100-32": Card((32,), 31.7),  # 32768 MiB
    "a10": Card((24,), 22.0),  # 23028 MiB
    "a10g": Card((24,), 22.0),  # 23028 MiB
    "l4": Card((24,), 22.0),  # 23034 MiB
    "a30": Card((24,), 23.5),  # 24576 MiB
    "a5000": Card((24,), 23.5),  # 24564 MiB
    "3090": Card((24,), 23.5),  # 24576 MiB
    "4090": Card((24,), 23.5),  # 24564 MiB
    "5090": Card((32,), 31.3),  # 32607 MiB
    "a40": Card((48,), 44.3),  # 46068 MiB
    "l40": Card((48,), 44.3),  # 46068 MiB
    "l40s": Card((48,), 44.3),  # 46068 MiB
    "a6000": Card((48,), 47.2),  # 49140 MiB
    "6000-ada": Card((48,), 47.2),  # 49140 MiB
    "a100-40": Card((40,), 39.3),  # 40960 MiB
    "a100-80": Card((80,), 79.1),  # 81920 MiB
    "a800": Card((80,), 79.1),  # 81920 MiB
    "h100": Card((80,), 79.1),  # 81559 MiB
    "h800": Card((80,), 79.1),  # 81559 MiB
    "h100-nvl": Card((94,), 93.0),  # 95830 MiB
    "h20": Card((96,), 95.0),  # 97871 MiB
    "gh200": Card((96,), 94.5),  # 97871 MiB
    "pro-6000": Card((96,), 94.9),  # 97887 MiB
    "h200": Card((141,), 139.7),  # 143771 MiB
    "b200": Card((180, 192), 178.3),  # 183359 MiB
}
"""What cards have for tensors and the CUDA context, which is less than the gigabytes they are sold by.

Beside each stands what published outputs of `nvidia-smi` show under Memory-Usage (with ECC, where a card is
delivered so). `total` is not above the smallest "total capacity" of published out-of-memory errors: 14.57
(T4), 15.77 and 31.73 (V100), 22.03 (L4, A10), 23.51 (24 GB without ECC), 31.34 (RTX 5090), 39.38 (A100 40GB),
44.34 and 47.27 (48 GB with ECC and without), 79.14 (A100 80GB, H100), 93.00 (H100 NVL), 94.50 (GH200), 94.96
(RTX PRO 6000), 95.00 (H20), 139.72 (H200), 178.35 (B200) GiB. Drivers keep the rest.
"""
MAKERS = r"^(nvidia|geforce|tesla|quadro|rtx)[\s_-]*"
WORDS = ("pcie", "sxm", "sxm2", "sxm4", "sxm5", "hbm2e", "hbm3", "ti", "generation")
"""Parts of a card's full name that tell nothing of its memory."""


class Gpu(NamedTuple):
    """The memory of a GPU in bytes; more than one number where a size names several cards."""

    least: int
    most: int
    name: str = ""
    """As it was asked for, where that is a name."""
    cards: tuple[tuple[str, int], ...] = ()
    """The cards that it may be, and the bytes of each."""

    def margin(self, asked: int | None = None) -> int:
        """What is kept free of it."""
        return MARGIN + self.least // PART if asked is None else asked

    def room(self, asked: int | None = None) -> int:
        """What tensors may take."""
        return max(0, self.least - self.margin(asked))


def gpu(asked: str | int) -> Gpu:
    """The memory of `80GiB`, `80e9`, `a100-80`, `h100`, or of the cards that are sold as `80GB`.

    Raises:
        ValueError: it is neither an amount nor a known card.
    """
    if isinstance(asked, int):
        return Gpu(asked, asked)
    text = asked.strip()
    sold = re.fullmatch(r"(\d{1,4})(?:\.0+)?\s*GB", text, re.IGNORECASE)
    names = [name for name, card in CARDS.items() if sold and int(sold[1]) in card.sold] or _named(text)
    if names:
        cards = tuple((name, memory_of(name)) for name in names)
        sizes = [size for _, size in cards]
        return Gpu(min(sizes), max(sizes), text, cards)
    try:
        count = amount(text)
    except ValueError as error:
        more = ", or a card such as h100 or a100-80" if re.search(r"[A-Za-z]", text) else ""
        raise ValueError(f"{error}{more}") from None
    return Gpu(count, count)


def memory_of(name: str) -> int:
    """The bytes of a card of the table."""
    return int(CARDS[name].total * (1 << 30))


def _named(text: str) -> list[str]:
    """The card that a name means, written as anybody writes it: `A100-SXM4-40GB`, `NVIDIA RTX 4090`.

    Raises:
        ValueError: the card is sold in several sizes.
    """
    name = text.lower()
    while (rest := re.sub(MAKERS, "", name)) != name:
        name = rest
    parts = [part for part in re.split(r"[\s_-]+", name) if part not in WORDS]
    name = "-".join(re.sub(r"^(\d+)gb?$", r"\1", part) for part in parts)
    if name in CARDS:
        return [name]
    several = [card for card in CARDS if card.startswith(f"{name}-")]
    if name and len(several) > 1:
        raise ValueError(f"`{text[:40]}` is sold in several sizes: {' or '.join(several)}")
    stem, _, size = name.rpartition("-")
    for card in (name.replace("-", ""), *([stem] if size.isdecimal() else ())):
        if card in CARDS and (card != stem or int(size) in CARDS[card].sold):
            return [card]
    return []


# Amounts of memory, as people write them.

UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
LEAST = 1 << 20
"""No memory is smaller: a number below it that has no unit has lost it."""


def amount(text: str) -> int:
    """Bytes: `80GiB`, `512MiB`, `1.5TB`, `80e9`.

    Raises:
        ValueError: it is no amount.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2}(?![A-Za-z]))?)\s*([A-Za-z]*)", text.strip())
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None or len(text) > 20 or len(found[1]) > 15:
        raise ValueError(f"expected an amount such as 80GiB, got `{text[:40]}`")
    count = int(float(found[1]) * unit)
    if not found[2] and 0 < count < LEAST:
        raise ValueError(f"expected an amount such as 80GiB, got `{text}`, which would be bytes")
    return count
