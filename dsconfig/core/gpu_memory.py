"""Determine a GPU's memory from an amount with a unit, a card's name, or an advertised size."""

from __future__ import annotations

import re
from typing import NamedTuple

MARGIN, PART = 2 << 30, 32
"""Default headroom on a GPU: a number of bytes, plus the total memory divided by `PART`."""


class GpuCard(NamedTuple):
    """A GPU card, with its advertised size in GB and the memory that torch reports."""

    sold: tuple[int, ...]
    total: float
    """Total memory in GiB as torch reports it (`total_memory`, or "total capacity" in out-of-memory errors)."""


CARDS = {
    "t4": GpuCard((16,), 14.5),  # 15360 MiB
    "v100-16": GpuCard((16,), 15.7),  # 16384 MiB
    "v100-32": GpuCard((32,), 31.7),  # 32768 MiB
    "a10": GpuCard((24,), 22.0),  # 23028 MiB
    "a10g": GpuCard((24,), 22.0),  # 23028 MiB
    "l4": GpuCard((24,), 22.0),  # 23034 MiB
    "a30": GpuCard((24,), 23.5),  # 24576 MiB
    "a5000": GpuCard((24,), 23.5),  # 24564 MiB
    "3090": GpuCard((24,), 23.5),  # 24576 MiB
    "4090": GpuCard((24,), 23.5),  # 24564 MiB
    "5090": GpuCard((32,), 31.3),  # 32607 MiB
    "a40": GpuCard((48,), 44.3),  # 46068 MiB
    "l40": GpuCard((48,), 44.3),  # 46068 MiB
    "l40s": GpuCard((48,), 44.3),  # 46068 MiB
    "a6000": GpuCard((48,), 47.2),  # 49140 MiB
    "6000-ada": GpuCard((48,), 47.2),  # 49140 MiB
    "a100-40": GpuCard((40,), 39.3),  # 40960 MiB
    "a100-80": GpuCard((80,), 79.1),  # 81920 MiB
    "a800": GpuCard((80,), 79.1),  # 81920 MiB
    "h100": GpuCard((80,), 79.1),  # 81559 MiB
    "h800": GpuCard((80,), 79.1),  # 81559 MiB
    "h100-nvl": GpuCard((94,), 93.0),  # 95830 MiB
    "h20": GpuCard((96,), 95.0),  # 97871 MiB
    "gh200": GpuCard((96,), 94.5),  # 97871 MiB
    "pro-6000": GpuCard((96,), 94.9),  # 97887 MiB
    "h200": GpuCard((141,), 139.7),  # 143771 MiB
    "b200": GpuCard((180, 192), 178.3),  # 183359 MiB
}
"""The memory that cards have for tensors and the CUDA context, which is less than the advertised gigabytes.

The comments give the Memory-Usage total in published outputs of `nvidia-smi` (with ECC where ECC is on
by default). `total` is at most the smallest "total capacity" in published out-of-memory errors: 14.57 (T4), 15.77 and
31.73 (V100), 22.03 (L4, A10), 23.51 (24 GB without ECC), 31.34 (RTX 5090), 39.38 (A100 40GB), 44.34 and 47.27 (48 GB
with and without ECC), 79.14 (A100 80GB, H100), 93.00 (H100 NVL), 94.50 (GH200), 94.96 (RTX PRO 6000), 95.00 (H20),
139.72 (H200), 178.35 (B200) GiB. The driver reserves the rest.
"""
WITHOUT_BF16 = frozenset({"t4", "v100-16", "v100-32"})
"""Cards before Ampere, whose tensor cores have no bfloat16 (compute capability below 8.0)."""
VENDOR_PREFIX = r"^(nvidia|geforce|tesla|quadro|rtx)[\s_-]*"
IRRELEVANT_WORDS = ("pcie", "sxm", "sxm2", "sxm4", "sxm5", "hbm2e", "hbm3", "ti", "generation")
"""Parts of a card's full name that do not affect the amount of memory."""


class GpuMemory(NamedTuple):
    """A GPU's memory in bytes; a range if several cards have the advertised size."""

    least: int
    most: int
    name: str = ""
    """The name of the card that the user requested, if any."""
    cards: tuple[tuple[str, int], ...] = ()
    """The matching cards, with the memory of each in bytes."""

    def headroom_bytes(self, requested: int | None = None) -> int:
        """Return the headroom in bytes, as requested or by default."""
        return MARGIN + self.least // PART if requested is None else requested

    def usable_bytes(self, requested: int | None = None) -> int:
        """Return the number of bytes available to tensors."""
        return max(0, self.least - self.headroom_bytes(requested))


def parse_gpu_memory(requested: str | int) -> GpuMemory:
    """Parse a GPU's memory: an amount (`80GiB`, `80e9`), a card (`a100-80`, `h100`), or an advertised size (`80GB`).

    Raises:
        ValueError: `requested` is neither an amount nor a known card.
    """
    if isinstance(requested, int):
        return GpuMemory(requested, requested)
    text = requested.strip()
    sold = re.fullmatch(r"(\d{1,4})(?:\.0+)?\s*GB", text, re.IGNORECASE)
    names = [name for name, card in CARDS.items() if sold and int(sold[1]) in card.sold] or _cards_by_name(
        text
    )
    if names:
        cards = tuple((name, memory_of_card(name)) for name in names)
        sizes = [size for _, size in cards]
        return GpuMemory(min(sizes), max(sizes), text, cards)
    try:
        size = parse_bytes(text)
    except ValueError as error:
        alternatives = ", or a card such as h100 or a100-80" if re.search(r"[A-Za-z]", text) else ""
        raise ValueError(f"{error}{alternatives}") from None
    return GpuMemory(size, size)


def memory_of_card(name: str) -> int:
    """Return the memory of a known card in bytes."""
    return int(CARDS[name].total * (1 << 30))


def _cards_by_name(text: str) -> list[str]:
    """Return the card with this name in any common spelling, such as `NVIDIA RTX 4090`; empty if there is none.

    Raises:
        ValueError: the card is sold in several sizes.
    """
    name = text.lower()
    while (rest := re.sub(VENDOR_PREFIX, "", name)) != name:
        name = rest
    parts = [part for part in re.split(r"[\s_-]+", name) if part not in IRRELEVANT_WORDS]
    name = "-".join(re.sub(r"^(\d+)gb?$", r"\1", part) for part in parts)
    if name in CARDS:
        return [name]
    variants = [card for card in CARDS if card.startswith(f"{name}-")]
    if name and len(variants) > 1:
        raise ValueError(f"`{text[:40]}` is sold in several sizes: {' or '.join(variants)}")
    stem, _, size = name.rpartition("-")
    for card in (name.replace("-", ""), *([stem] if size.isdecimal() else ())):
        if card in CARDS and (card != stem or int(size) in CARDS[card].sold):
            return [card]
    return []


# Amounts of memory, as users write them.

UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
SMALLEST_MEMORY = 1 << 20
"""Smallest plausible GPU or host memory; a smaller number without a unit is a mistake."""


def parse_bytes(text: str) -> int:
    """Convert an amount of memory such as `80GiB`, `512MiB`, `1.5TB` or `80e9` to bytes.

    Raises:
        ValueError: `text` is not an amount of memory.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2}(?![A-Za-z]))?)\s*([A-Za-z]*)", text.strip())
    unit = UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None or len(text) > 20 or len(match[1]) > 15:
        raise ValueError(f"expected an amount such as 80GiB, got `{text[:40]}`")
    count = int(float(match[1]) * unit)
    if not match[2] and 0 < count < SMALLEST_MEMORY:
        raise ValueError(f"expected an amount such as 80GiB, got `{text}`, which means bytes")
    return count
